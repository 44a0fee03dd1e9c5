"""ComfyUI's extra_model_paths.yaml: model folders that other programs already have.

name:                     # any; several of them
    base_path: ~/models   # optional; relative to the file
    is_default: true      # optional; searched before the usual folders
    checkpoints: sd       # kind: one path a line, relative to base_path
    loras: |
        lora
        lycoris
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class ExtraPath:
    kind: str
    path: Path
    is_default: bool


def read(file: Path) -> list[ExtraPath]:
    """Raises ValueError naming the file for anything that is not of this form."""
    try:
        sections = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"cannot read {file}: {error}") from error
    if not isinstance(sections or {}, dict):
        raise ValueError(f"{file}: expected sections such as `comfyui:`, found {type(sections).__name__}")
    found = []
    for name, section in (sections or {}).items():
        if section is None:
            continue
        if not isinstance(section, dict):
            raise ValueError(f"{file}: section {name!r} must hold `kind: path` lines")
        base = _absolute(str(section.get("base_path", "")), file.absolute().parent)
        is_default = bool(section.get("is_default", False))
        for kind, lines in section.items():
            if kind in ("base_path", "is_default"):
                continue
            if not isinstance(lines, str):
                raise ValueError(f"{file}: {name}.{kind} must be text, one path a line")
            found += [
                ExtraPath(kind, _absolute(line, base), is_default) for line in lines.splitlines() if line
            ]
    return found


def _absolute(path: str, base: Path) -> Path:
    return Path(os.path.normpath(base / Path(os.path.expandvars(path)).expanduser()))
