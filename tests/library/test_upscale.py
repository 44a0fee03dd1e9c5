import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from slipstream.executor import context
from slipstream.executor.library import upscale
from slipstream.executor.library.upscale import ImageUpscaleWithModel, UpscaleModelLoader
from slipstream.executor.models import files, folders


@pytest.fixture
def network(spandrel):
    """A SRVGGNetCompact (Real-ESRGAN's small network) by 2, with random weights."""
    from spandrel.architectures.Compact import Compact

    torch.manual_seed(0)
    return Compact(num_feat=8, num_conv=2, upscale=2).eval()


def put(places, state, name="x.safetensors"):
    folder = places.models[0] / "upscale_models"
    folder.mkdir(parents=True)
    save = save_file if name.endswith(".safetensors") else torch.save
    save(state, folder / name)
    return name


def load(name):
    return UpscaleModelLoader().load_model(name)[0]


@pytest.mark.parametrize("name", ["x.safetensors", "x.pth", "wrapped.pth"])
def test_same_as_the_network_itself(places, network, name):
    state = network.state_dict()
    model = load(put(places, {"params_ema": state, "params": {}} if name == "wrapped.pth" else state, name))
    image = torch.rand(2, 20, 30, 3)
    with torch.no_grad():
        expected = network(image.movedim(-1, 1)).clamp(0, 1).movedim(1, -1)
    result = ImageUpscaleWithModel().upscale(model, image)[0]
    assert result.shape == (2, 40, 60, 3)
    torch.testing.assert_close(result, expected)


def test_tiles_join_without_a_seam(places, network, monkeypatch):
    """Where every pixel of the result depends on one of the picture, tiles must give the very same."""
    for layer in network.body[::2]:
        layer.weight.data *= F.pad(torch.ones(1, 1), (1, 1, 1, 1))
    model = load(put(places, network.state_dict()))
    image = torch.rand(2, 70, 90, 3)
    whole = ImageUpscaleWithModel().upscale(model, image)[0]
    monkeypatch.setattr(upscale, "TILE", 48)
    torch.testing.assert_close(ImageUpscaleWithModel().upscale(model, image)[0], whole)


class Doubling:
    """Repeats pixels; runs out of memory on sides of more than `limit` pixels."""

    scale, input_channels, output_channels = 2, 3, 3

    def __init__(self, limit=512):
        self.model = torch.nn.Identity()
        self.limit = limit
        self.sides = []

    def __call__(self, x):
        self.sides.append(max(x.shape[2:]))
        if self.sides[-1] > self.limit:
            raise torch.OutOfMemoryError("too much")
        return F.interpolate(x, scale_factor=2)


def test_tiles_shrink_where_memory_runs_out():
    model = Doubling(limit=130)
    image = torch.rand(1, 140, 300, 3)
    result = ImageUpscaleWithModel().upscale(model, image)[0]
    torch.testing.assert_close(result, image.repeat_interleave(2, 1).repeat_interleave(2, 2))
    assert model.sides[:3] == [300, 256, 128]


def test_gives_up_below_the_smallest_tile():
    model = Doubling(limit=100)
    with pytest.raises(torch.OutOfMemoryError):
        ImageUpscaleWithModel().upscale(model, torch.rand(1, 600, 600, 3))
    assert model.sides == [512, 256, 128]


def test_reports_each_tile_and_stops_when_cancelled():
    seen = []
    node = context.NodeContext(
        prompt_id="p",
        node_id="1",
        report=lambda value, total, preview: seen.append((value, total)),
        cancelled=lambda: len(seen) == 3,
    )
    with context.entered(node), pytest.raises(context.Interrupted):
        ImageUpscaleWithModel().upscale(Doubling(), torch.rand(2, 500, 600, 3))
    assert seen == [(1, 4), (2, 4), (3, 4)]


def test_other_numbers_of_channels_are_refused():
    with pytest.raises(ValueError, match="image has 4 channels, the model takes 3"):
        ImageUpscaleWithModel().upscale(Doubling(), torch.rand(1, 8, 8, 4))


def test_without_spandrel_says_how_to_get_it(places, monkeypatch):
    monkeypatch.setitem(sys.modules, "spandrel", None)
    name = put(places, {"a": torch.zeros(1)})
    with pytest.raises(RuntimeError, match=r'pip install "slipstream\[upscale\]"'):
        load(name)


def test_other_weights_are_named(places, spandrel):
    with pytest.raises(ValueError, match=r"UpscaleModelLoader: 'x.safetensors' is no upscale model"):
        load(put(places, {"a": torch.zeros(1)}))


def test_pickles_that_run_code_are_refused(places, spandrel):
    with pytest.raises(files.BadFile, match="could run code"):
        load(put(places, {"a": SimpleNamespace()}, "x.pth"))


def test_unknown_name(places):
    with pytest.raises(folders.ModelNotFound, match="upscale_models"):
        load("nothing.pth")
