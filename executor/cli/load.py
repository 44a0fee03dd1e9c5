"""Reading the files named on the command line; what goes wrong with them ends the command as a bad file."""

from __future__ import annotations

from pathlib import Path

from ..hosts.base import Host
from ..workflow import files
from ..workflow.errors import UnknownNodes, WorkflowError
from .errors import BadFile, listed


def read(path: Path) -> files.WorkflowFile:
    try:
        return files.read(path)
    except WorkflowError as error:
        raise BadFile(str(error)) from error


def unconvertible(file: files.WorkflowFile, error: WorkflowError, host: Host) -> BadFile:
    """The failure for a canvas; where node types are missing, with where they are to be had."""
    types = error.types if isinstance(error, UnknownNodes) else ()
    return BadFile(listed(f"{file.name}: {error}", map(host.missing, types)))
