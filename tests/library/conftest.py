import importlib.util
import sys
from types import ModuleType

import pytest
from slipstream.executor.models import folders

# What spandrel takes from torchvision when it is imported: for LaMa and RestoreFormer, not used here.
TORCHVISION = {
    "torchvision": (),
    "torchvision.transforms": (),
    "torchvision.transforms.functional": ("InterpolationMode", "rotate", "normalize"),
}


@pytest.fixture
def places(tmp_path):
    """Empty model, input, output and temp directories that the process works with during the test."""
    before = folders.current()
    made = folders.Folders(
        models=[tmp_path / "models"],
        input=tmp_path / "input",
        output=tmp_path / "output",
        temp=tmp_path / "temp",
    )
    for path in (made.input, made.output, made.temp):
        path.mkdir()
    folders.use(made)
    yield made
    folders.use(before)


@pytest.fixture(scope="session")
def spandrel():
    """spandrel itself. Where no torchvision fits the torch that is installed, names stand in for it."""
    if importlib.util.find_spec("spandrel") is None:
        pytest.skip("spandrel is not installed: pip install -e '.[upscale]'")
    try:
        return importlib.import_module("spandrel")
    except (ImportError, RuntimeError):
        for name in [name for name in sys.modules if name.partition(".")[0] in ("spandrel", "torchvision")]:
            del sys.modules[name]
    for name, attributes in TORCHVISION.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(dict.fromkeys(attributes))
    try:
        return importlib.import_module("spandrel")
    finally:  # the others that look for torchvision must not find this
        for name in TORCHVISION:
            del sys.modules[name]
