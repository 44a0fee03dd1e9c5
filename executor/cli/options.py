"""Options that several commands share, and what they configure."""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from .errors import UsageFailure

EXTRA_MODEL_PATHS = Path("extra_model_paths.yaml")

_FOLDERS = (
    click.option(
        "--models",
        multiple=True,
        metavar="DIR",
        help="A folder of models in ComfyUI's layout (checkpoints/, loras/ ...). May be given several times.",
    ),
    click.option(
        "--extra-model-paths",
        multiple=True,
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help=f"ComfyUI's YAML list of further model folders.  [default: ./{EXTRA_MODEL_PATHS}, if there]",
    ),
    click.option(
        "--input",
        "input_dir",
        default="input",
        metavar="DIR",
        help="Where input files are.  [default: ./input]",
    ),
    click.option(
        "--output",
        "output_dir",
        default="output",
        metavar="DIR",
        help="Where results go.  [default: ./output]",
    ),
)
_DEVICE = (
    click.option(
        "--device", default="auto", metavar="NAME", help="Where models run: auto, cpu, cuda, cuda:1, mps."
    ),
    click.option(
        "--dtype",
        default="auto",
        metavar="NAME",
        help="Number format of weights: auto, float32, bfloat16, float16.",
    ),
)


def folder_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --models, --extra-model-paths, --input and --output; they take effect before the command runs."""

    @wraps(command)
    def configured(models, extra_model_paths, input_dir, output_dir, **rest):
        from ..models import folders

        extra = extra_model_paths or [EXTRA_MODEL_PATHS] * EXTRA_MODEL_PATHS.is_file()
        chosen = folders.Folders(
            models=models, input=input_dir, output=output_dir, temp=_temp_dir(), extra=extra
        )
        folders.use(chosen)
        try:
            folders.kinds()  # reads the YAML files
        except ValueError as error:
            raise UsageFailure(str(error)) from error
        return command(**rest)

    return _with(configured, _FOLDERS)


def device_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --device and --dtype. They are left alone, and torch unloaded, where neither is given."""

    @wraps(command)
    def configured(device, dtype, **rest):
        if (device, dtype) != ("auto", "auto"):
            from ..models import memory

            try:
                memory.use(memory.Settings(device=device, dtype=dtype))
            except ValueError as error:
                raise UsageFailure(str(error)) from error
        return command(**rest)

    return _with(configured, _DEVICE)


def _temp_dir() -> Path:
    """Where previews go: kept out of the current directory, and apart from other users'."""
    return Path(tempfile.gettempdir()) / f"slipstream-{getpass.getuser()}"


def _with(command: Callable[..., Any], options: Sequence[Callable]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
