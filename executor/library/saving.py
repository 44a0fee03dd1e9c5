"""Writing numbered files, `prefix_00001_.png`, so that nobody ever sees half a file or loses one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..models import folders
from ..models.naming import claim


def embedded(prompt: Any, extra_pnginfo: Mapping[str, Any] | None) -> dict[str, str]:
    """JSON to put into a file: the prompt, and what the client sent along, usually the workflow."""
    entries = {} if prompt is None else {"prompt": prompt}
    return {key: json.dumps(value) for key, value in {**entries, **(extra_pnginfo or {})}.items()}


class Series:
    """The next files of one prefix in the output or temp directory (`kind`)."""

    def __init__(self, prefix: str, kind: str, width: int = 0, height: int = 0) -> None:
        self.kind = kind
        where = folders.save_path(prefix, folders.by_type(kind), width, height)
        self.folder, self.stem, self.counter, self.subfolder = where

    def save(self, suffix: str, write: Callable[[Path], None], batch_number: int = 0) -> dict[str, str]:
        """Have `write` fill a file beside the others, then give it the next free name.

        Returns the reference that clients get. If `write` raises, or the run is stopped, nothing remains.
        Savers in other threads and processes may use the same prefix: each gets names of its own.
        """
        stem = self.stem.replace("%batch_num%", str(batch_number))
        temporary = self.folder / f".{uuid.uuid4().hex}{suffix}"
        try:
            write(temporary)
            while not claim(temporary, final := self.folder / f"{stem}_{self.counter:05}_{suffix}"):
                self.counter += 1
        finally:
            temporary.unlink(missing_ok=True)
        self.counter += 1
        return {"filename": final.name, "subfolder": self.subfolder, "type": self.kind}
