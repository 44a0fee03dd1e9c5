"""Videos and sound: the tags of the container, read with PyAV, which ComfyUI writes them with.

ComfyUI sets the tags `prompt` and `workflow`: MP4 and MOV hold them as they are, Matroska and WebM in
capitals, FLAC as Vorbis comments, MP3 as ID3 frames, Ogg (Opus) in its first stream. VideoHelperSuite sets
`comment` to `{"prompt": "...", "workflow": {...}}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ..errors import WorkflowError
from .entries import Entry, named

READ = 64 * 2**20  # bytes; the header of a film of ten hours has half as many
# The tags are read when the header is; nothing of the streams needs to be decoded to find out more.
HEADER_ONLY = {"probesize": "32", "analyzeduration": "0"}


class _Bounded:
    """A file that ends once so much of it was read: FFmpeg looks for the first frame however far it is."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell = file.seek, file.tell
        self._file, self._left = file, READ

    def read(self, length: int) -> bytes:
        data = self._file.read(min(length, self._left))
        self._left -= len(data)
        return data


def entries(file: BinaryIO, demuxer: str) -> Iterator[Entry]:
    """`demuxer` is FFmpeg's name for the format; it is fixed, so that no file is read as a playlist, say,
    which could name other files to be opened."""
    import av

    try:
        bounded = _Bounded(file)
        with av.open(bounded, format=demuxer, options=HEADER_ONLY, metadata_errors="replace") as container:
            holders = [container.metadata, *(stream.metadata for stream in container.streams)]
            tags = [pair for metadata in holders for pair in metadata.items()]
    except av.FFmpegError as error:
        raise WorkflowError(f"cannot be read as a recording: {error.strerror}") from error
    yield from named(tags)
