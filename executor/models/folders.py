"""Where files are: model folders in ComfyUI's layout, and the input, output and temp directories.

Several model roots may be given; each is a directory such as ComfyUI's `models/`, with `checkpoints/`,
`loras/` and so on inside. The models that come with the project are always the last root. `use` sets
what the process looks at; nothing here imports torch.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from . import extra_paths
from .directories import BadName as BadName
from .directories import OutsideFolder as OutsideFolder
from .directories import contained, scan
from .naming import save_path as save_path

WEIGHTS = (".ckpt", ".pt", ".pt2", ".bin", ".pth", ".safetensors", ".pkl", ".sft")
# Kind -> subfolders of a model root that hold it.
KINDS: dict[str, tuple[str, ...]] = {
    "checkpoints": ("checkpoints",),
    "configs": ("configs",),
    "loras": ("loras",),
    "vae": ("vae",),
    "text_encoders": ("text_encoders", "clip"),
    "diffusion_models": ("unet", "diffusion_models"),
    "clip_vision": ("clip_vision",),
    "style_models": ("style_models",),
    "embeddings": ("embeddings",),
    "diffusers": ("diffusers",),
    "vae_approx": ("vae_approx",),
    "controlnet": ("controlnet", "t2i_adapter"),
    "gligen": ("gligen",),
    "upscale_models": ("upscale_models",),
    "hypernetworks": ("hypernetworks",),
    "photomaker": ("photomaker",),
    "classifiers": ("classifiers",),
    "model_patches": ("model_patches",),
    "audio_encoders": ("audio_encoders",),
}
ALIASES = {"unet": "diffusion_models", "clip": "text_encoders"}
SUFFIXES = {"configs": (".yaml",), "classifiers": ("",)}  # the others: WEIGHTS
BUNDLED = Path(__file__).resolve().parents[2] / "workflows" / "models"
DIFFUSERS_INDEX = "model_index.json"


class ModelNotFound(FileNotFoundError):
    """No such model; the message lists near matches and the folders searched."""


@dataclass(frozen=True)
class Folders:
    """One configuration of all directories.

    `extra` lists files such as ComfyUI's extra_model_paths.yaml.
    """

    models: Sequence[Path | str] = ()
    input: Path | str = "input"
    output: Path | str = "output"
    temp: Path | str = "temp"
    extra: Sequence[Path | str] = ()

    @cached_property
    def kinds(self) -> dict[str, tuple[Path, ...]]:
        """Kind -> the folders searched for it, first match wins."""
        first: dict[str, list[Path]] = {}
        last: dict[str, list[Path]] = {}
        for file in self.extra:
            for entry in extra_paths.read(Path(file)):
                target = first if entry.is_default else last
                target.setdefault(canonical(entry.kind), []).append(entry.path)
        kinds = {}
        for kind in dict.fromkeys([*KINDS, *first, *last]):
            own = [root / sub for root in self.roots for sub in KINDS.get(kind, ())]
            kinds[kind] = tuple(dict.fromkeys([*first.get(kind, ()), *own, *last.get(kind, ())]))
        return kinds

    @property
    def roots(self) -> tuple[Path, ...]:
        return (*(Path(root).expanduser().absolute() for root in self.models), BUNDLED)


_folders = Folders()


def use(folders: Folders) -> None:
    """Configure this process."""
    global _folders
    _folders = folders


def current() -> Folders:
    return _folders


def canonical(kind: str) -> str:
    return ALIASES.get(kind, kind)


def kinds() -> list[str]:
    return list(_folders.kinds)


def directories(kind: str) -> tuple[Path, ...]:
    """The folders searched for a kind, first match wins. They need not exist."""
    kind = canonical(kind)
    if kind not in _folders.kinds:
        raise ModelNotFound(f"unknown kind of model {kind!r}; known kinds: {', '.join(kinds())}")
    return _folders.kinds[kind]


def place_for(kind: str) -> Path | None:
    """The folder that a user would put a model of `kind` into; None where none has been configured."""
    kind = canonical(kind)
    own = [path for path in _folders.kinds.get(kind, ()) if not path.is_relative_to(BUNDLED)]
    return min(own, key=lambda path: (not path.is_dir(), path.name != kind), default=None)


class Names(list[str]):
    """The choices of a node's input that names a model of `kind`."""

    def __init__(self, kind: str, names: Iterable[str]):
        super().__init__(names)
        self.kind = kind

    def advice(self, name: str) -> str:
        """On a name that is not among them: near ones or those there are, and the folders searched."""
        base = PurePosixPath(name.replace("\\", "/")).name.lower()
        same = [known for known in self if PurePosixPath(known).name.lower() == base]
        near = list(dict.fromkeys([*same, *difflib.get_close_matches(name, self, n=3, cutoff=0.6)]))
        lines = []
        if near:
            lines.append(f"Did you mean {', '.join(near[:3])}?")
        elif self:
            lines.append(f"There are: {', '.join(self[:8])}{', ...' if len(self) > 8 else ''}.")
        lines.append("Searched: " + ", ".join(map(str, directories(self.kind))))
        return " ".join(lines)


def names(kind: str) -> Names:
    """What can be loaded as `kind`: paths relative to its folders, with `/`, sorted."""
    kind = canonical(kind)
    return Names(kind, sorted(_located(kind)))


def find(kind: str, name: str) -> Path:
    """The file (or, for pipelines in diffusers' layout, the folder) of one of `names(kind)`."""
    kind = canonical(kind)
    located = _located(kind)
    if name in located:
        return located[name]
    raise ModelNotFound(f"{name!r} is not among the {kind}. {Names(kind, sorted(located)).advice(name)}")


def _located(kind: str) -> dict[str, Path]:
    """Name -> path; where several folders have the same name, the first one counts."""
    located: dict[str, Path] = {}
    suffixes = SUFFIXES.get(kind, WEIGHTS)
    for directory in directories(kind):
        found = scan(directory, DIFFUSERS_INDEX)
        if kind != "diffusers":
            for name in found.files:
                if PurePosixPath(name).suffix.lower() in suffixes:
                    located.setdefault(name, directory / name)
        if kind in ("checkpoints", "diffusers"):
            for name in found.marked:
                located.setdefault(name, directory / name)
    if kind in ("checkpoints", "diffusers"):
        for name, path in _pipelines(other="diffusers" if kind == "checkpoints" else "checkpoints"):
            located.setdefault(name, path)
    return located


def _pipelines(other: str) -> Iterable[tuple[str, Path]]:
    """Pipelines in diffusers' layout that lie in the other kind's folders or directly in a root."""
    for directory in directories(other):
        for name in scan(directory, DIFFUSERS_INDEX).marked:
            yield name, directory / name
    for root in _folders.roots:
        if root.is_dir():
            for child in sorted(root.iterdir()):
                if (child / DIFFUSERS_INDEX).is_file():
                    yield child.name, child


def input_dir() -> Path:
    return Path(_folders.input).expanduser().absolute()


def output_dir() -> Path:
    return Path(_folders.output).expanduser().absolute()


def temp_dir() -> Path:
    return Path(_folders.temp).expanduser().absolute()


def by_type(kind: str) -> Path:
    """The directory of a file reference's `type`: input, output or temp."""
    if kind not in ("input", "output", "temp"):
        raise BadName(f"{kind!r} is not a file type; it must be input, output or temp")
    return {"input": input_dir, "output": output_dir, "temp": temp_dir}[kind]()


def input_names() -> list[str]:
    """Files directly in the input directory, sorted."""
    directory = input_dir()
    if not directory.is_dir():
        return []
    return sorted(entry.name for entry in os.scandir(directory) if entry.is_file())


def annotated(name: str) -> tuple[Path, str]:
    """Split `x.png [output]` into the directory meant and the name; without annotation, input."""
    for kind in ("output", "input", "temp"):
        if name.endswith(f"[{kind}]"):
            return by_type(kind), name[: -len(f" [{kind}]")]
    return input_dir(), name


def input_file(name: str) -> Path:
    """The existing file that an input such as LoadImage's names.

    Raises `OutsideFolder` for names that lead out of the directory (through symlinks too) and
    `FileNotFoundError` where there is no such file.
    """
    directory, relative = annotated(name)
    path = contained(directory, relative)
    if not path.is_file():
        raise FileNotFoundError(f"{relative!r} is not in {directory}")
    return path
