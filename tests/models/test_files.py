import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from slipstream.executor.models.files import BadFile, from_tensor, main_dtype, open_weights, under

GOOD = Path(__file__).parents[1] / "data" / "models" / "tiny_sd3.safetensors"


class Code:
    """Runs when it is unpickled, if anything lets it."""

    def __reduce__(self):
        return (Path.touch, (Path("ran"),))


def cut(length):
    return lambda path: path.write_bytes(GOOD.read_bytes()[:length])


BAD = {
    "cut.safetensors": (cut(1_000_000), "incomplete"),
    "cut in the header.safetensors": (cut(900), "incomplete"),
    "empty.safetensors": (cut(0), "incomplete"),
    "page.safetensors": (lambda p: p.write_text("<!DOCTYPE html><p>not found</p>"), "web page"),
    "pointer.safetensors": (
        lambda p: p.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        "Git LFS",
    ),
    "pickle.safetensors": (lambda p: torch.save({"a": torch.zeros(1)}, p), "pickled"),
    "code.ckpt": (lambda p: torch.save({"state_dict": Code()}, p), "refused"),
    "code.pt": (lambda p: p.write_bytes(pickle.dumps(Code(), protocol=2)), "refused"),
    "noise.pt": (lambda p: p.write_bytes(b"abcdefgh" * 100), "not a readable checkpoint"),
    "no tensors.pt": (lambda p: torch.save({"a": 1}, p), "no tensors"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named_with_the_reason(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write, reason = BAD[name]
    path = tmp_path / name
    write(path)
    with pytest.raises(BadFile) as error:
        open_weights(path)
    assert name in str(error.value) and reason in str(error.value)
    assert not Path("ran").exists()


def test_cut_pickle(tmp_path):
    path = tmp_path / "cut.pt"
    torch.save({"a": torch.zeros(10_000)}, path)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(BadFile, match="incomplete"):
        open_weights(path)


def test_missing_file(tmp_path):
    with pytest.raises(BadFile, match="no such file"):
        open_weights(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    "wrap", [lambda s: s, lambda s: {"state_dict": s, "epoch": 3}, lambda s: {"params": s}]
)
@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_checkpoints(wrap, zipped, tmp_path):
    path = tmp_path / "model.ckpt"
    state = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}
    torch.save(wrap(state), path, _use_new_zipfile_serialization=zipped)
    weights = open_weights(path)
    assert {name: entry.shape for name, entry in weights.items()} == {"a": (2, 3), "b": (2,)}
    assert torch.equal(weights["a"].read(), state["a"])


def test_entries_know_their_shape_unread_and_give_parts():
    tensor = torch.arange(12.0).view(6, 2)
    entry = from_tensor(tensor)
    assert entry.rows(2, 5).shape == (3, 2)
    assert torch.equal(entry.rows(2, 5).read(), tensor[2:5])
    assert [part.read().tolist() for part in entry.chunks(3)] == [c.tolist() for c in tensor.chunk(3)]
    assert torch.equal(entry.swapped().read(), torch.cat([tensor[3:], tensor[:3]]))
    assert torch.equal(entry.transposed().read(), tensor.T) and entry.transposed().shape == (2, 6)
    assert entry.reshaped(3, 4).read().shape == (3, 4)


def test_scaled_fp8_is_multiplied_out(tmp_path):
    weight = torch.tensor([[1.0, -2.0], [0.5, 4.0]])
    state = {
        "layer.weight": weight.to(torch.float8_e4m3fn),
        "layer.scale_weight": torch.tensor(0.25),
        "layer.bias": torch.ones(2),
        "scaled_fp8": torch.zeros(0, dtype=torch.float8_e4m3fn),
    }
    save_file(state, tmp_path / "fp8.safetensors")
    weights = open_weights(tmp_path / "fp8.safetensors")
    assert set(weights) == {"layer.weight", "layer.bias"}
    assert torch.equal(weights["layer.weight"].read(), weight * 0.25)


def test_prefix_and_main_dtype():
    half, single = torch.zeros(10, dtype=torch.float16), torch.zeros(3)
    weights = {"m.a": from_tensor(half), "m.b": from_tensor(single), "n": from_tensor(single)}
    assert set(under(weights, "m.")) == {"a", "b"}
    assert main_dtype(weights) == torch.float16
