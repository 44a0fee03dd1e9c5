import pytest
import torch
from slipstream.executor.models import memory
from slipstream.executor.models.memory import Settings, compute_dtype


@pytest.fixture(autouse=True)
def usual_settings():
    yield
    memory.use(Settings())


def test_what_the_machine_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"'nonsense'"):
        memory.use(Settings(device="nonsense"))
    with pytest.raises(ValueError, match=r"'int7' .*float32, float16, bfloat16"):
        memory.use(Settings(dtype="int7"))


def test_types(monkeypatch):
    half, brain, single = torch.float16, torch.bfloat16, torch.float32
    memory.use(Settings(device="cpu"))
    assert [compute_dtype(stored) for stored in (half, brain, single)] == [single] * 3
    monkeypatch.setattr(memory, "device", lambda: torch.device("cuda"))
    assert compute_dtype(half) == half and compute_dtype(brain) == brain and compute_dtype(single) == half
    assert compute_dtype(half, (brain,)) == brain  # a family that overflows in float16
    assert compute_dtype(torch.float8_e4m3fn, (brain, half)) == brain
    assert compute_dtype(half, target=torch.device("cpu")) == single
    memory.use(Settings(device="cpu", dtype="bfloat16"))
    assert compute_dtype(single) == brain


def test_on_a_cpu_nothing_is_copied_or_kept():
    module = torch.nn.Linear(4, 4)
    weight = module.weight.data_ptr()
    assert memory.to_device(module, torch.device("cpu")) is module
    assert module.weight.data_ptr() == weight and memory.loaded() == []
    assert memory.nbytes(module) == 4 * (4 * 4 + 4)


def test_an_accelerator_holds_modules_until_they_are_unloaded():
    """The meta device stands in for one: moving there is all that is looked at."""
    meta = torch.device("meta")
    module = memory.to_device(torch.nn.Linear(4, 4), meta)
    assert module.weight.device == meta and memory.loaded() == [("Linear", 80)]
    other = torch.nn.Conv1d(1, 1, 1)
    memory.to_device(other, meta)
    memory.to_device(module, meta)
    assert memory.loaded() == [("Conv1d", 8), ("Linear", 80)]  # the one used last comes last
    del other
    assert memory.loaded() == [("Linear", 80)]  # what nobody uses is not kept
    memory._resident.clear()
