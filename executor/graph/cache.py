"""Where results wait for the next prompt.

A cache is a scope: results by signature. The nodes that a node expands into live in a scope inside,
named by that node, so that what a loop computed stays as long as the loop is in the prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Any, Protocol
from weakref import WeakValueDictionary

Owner = tuple[str, str]  # node id and class


class Entry:
    """A node's result: a list per output, and what it shows (None where it shows nothing)."""

    __slots__ = ("__weakref__", "outputs", "ui")

    def __init__(self, outputs: list[list[Any]], ui: dict[str, Any] | None) -> None:
        self.outputs = outputs
        self.ui = ui


class Cache(Protocol):
    keeps: bool  # anything beyond the run; if not, runs drop results as soon as nobody needs them

    def start(self, signatures: Collection[bytes], owners: Collection[Owner]) -> None:
        """A prompt with these nodes begins: make room."""

    def inside(self, owner: Owner, signatures: Collection[bytes], owners: Collection[Owner]) -> Cache:
        """The scope of the nodes that `owner` has expanded into."""

    def get(self, signature: bytes) -> Entry | None: ...

    def put(self, signature: bytes, entry: Entry) -> None: ...


class ClassicCache:
    """Keeps what the latest prompt can use, and nothing else."""

    keeps = True

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}
        self._inside: dict[Owner, ClassicCache] = {}

    def start(self, signatures: Collection[bytes], owners: Collection[Owner]) -> None:
        self._entries = _only(self._entries, signatures)
        self._inside = _only(self._inside, owners)

    def inside(self, owner: Owner, signatures: Collection[bytes], owners: Collection[Owner]) -> ClassicCache:
        scope = self._inside.setdefault(owner, ClassicCache())
        scope.start(signatures, owners)
        return scope

    def get(self, signature: bytes) -> Entry | None:
        return self._entries.get(signature)

    def put(self, signature: bytes, entry: Entry) -> None:
        self._entries[signature] = entry


class LruCache:
    """Keeps the `size` results used last, plus all that the current prompt uses; one scope for all."""

    keeps = True

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()

    def start(self, signatures: Collection[bytes], owners: Collection[Owner]) -> None:
        self._use(signatures)
        needed = set(signatures)
        while len(self._entries) > self._size:
            oldest = next(iter(self._entries))
            if oldest in needed:
                break
            del self._entries[oldest]

    def inside(self, owner: Owner, signatures: Collection[bytes], owners: Collection[Owner]) -> LruCache:
        self._use(signatures)
        return self

    def get(self, signature: bytes) -> Entry | None:
        entry = self._entries.get(signature)
        if entry is not None:
            self._entries.move_to_end(signature)
        return entry

    def put(self, signature: bytes, entry: Entry) -> None:
        self._entries[signature] = entry

    def _use(self, signatures: Iterable[bytes]) -> None:
        for signature in signatures:
            self.get(signature)


class NoCache:
    """Keeps nothing: equal nodes of one run share a result while the run itself still holds it."""

    keeps = False

    def __init__(self) -> None:
        self._held: WeakValueDictionary[bytes, Entry] = WeakValueDictionary()

    def start(self, signatures: Collection[bytes], owners: Collection[Owner]) -> None:
        pass

    def inside(self, owner: Owner, signatures: Collection[bytes], owners: Collection[Owner]) -> NoCache:
        return self

    def get(self, signature: bytes) -> Entry | None:
        return self._held.get(signature)

    def put(self, signature: bytes, entry: Entry) -> None:
        self._held[signature] = entry


def make_cache(mode: str) -> Cache:
    """`classic`, `lru:N` or `none`."""
    kind, _, size = mode.partition(":")
    if kind == "lru" and size.isdecimal() and int(size) > 0:
        return LruCache(int(size))
    if mode == "classic":
        return ClassicCache()
    if mode == "none":
        return NoCache()
    raise ValueError(f"cache mode {mode!r}: choose classic, lru:N (N at least 1) or none")


def _only(entries: dict[Any, Any], wanted: Collection[Any]) -> dict[Any, Any]:
    keys = set(wanted)
    return {key: value for key, value in entries.items() if key in keys}
