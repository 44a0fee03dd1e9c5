"""What nodes that name a file in the input directory have in common."""

from __future__ import annotations

import hashlib

from ..models import folders


def content_hash(name: str) -> str:
    """SHA-256 of the file, in hex: the node runs again when it changes. Raises as `folders.input_file`."""
    digest = hashlib.sha256()
    with folders.input_file(name).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def validated(name: str | None, kind: str) -> bool | str:
    """VALIDATE_INPUTS' answer for an input that names a file."""
    if name is None:  # linked: known only once the source has run
        return True
    try:
        folders.input_file(name)
    except (FileNotFoundError, folders.OutsideFolder):
        return f"Invalid {kind} file: {name}"
    return True
