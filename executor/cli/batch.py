"""`--batch FILE`: a table of settings, one run for each row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UsageFailure

FORMATS = (".csv", ".jsonl")


@dataclass(frozen=True)
class Row:
    """`where` is file and line, for messages; `settings` are pairs as `--set` takes them."""

    where: str
    settings: tuple[tuple[str, str], ...]


def rows(path: Path) -> list[Row]:
    """The rows of a CSV file, whose first line names the inputs, or of a file with a JSON object a line.

    Empty cells, and null, leave an input as it is. Raises UsageFailure naming the line.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageFailure(f"--batch {path}: a .csv or .jsonl file is needed")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageFailure(f"--batch {path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageFailure(f"--batch {path}: not UTF-8 text") from error
    read = _csv if path.suffix.lower() == ".csv" else _jsonl
    found = [
        Row(f"{path}, line {line}", tuple((key, text) for key, text in pairs if text is not None))
        for line, pairs in read(text, path)
    ]
    if not found:
        raise UsageFailure(f"--batch {path}: no rows")
    return found


Numbered = Iterator[tuple[int, Iterable[tuple[str, "str | None"]]]]


def _csv(text: str, path: Path) -> Numbered:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        if not all(names) or not names or len(set(names)) < len(names):
            raise UsageFailure(f"--batch {path}, line 1: every column needs a name of its own")
        for cells in reader:
            if len(cells) > len(names):
                raise UsageFailure(
                    f"--batch {path}, line {reader.line_num}: {len(cells)} cells under {len(names)} names"
                )
            if cells:
                yield reader.line_num, ((n, c or None) for n, c in zip(names, cells, strict=False))
    except csv.Error as error:
        raise UsageFailure(f"--batch {path}, line {reader.line_num}: {error}") from error


def _jsonl(text: str, path: Path) -> Numbered:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            held = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageFailure(f"--batch {path}, line {number}: not JSON: {error}") from error
        if not isinstance(held, dict):
            raise UsageFailure(f"--batch {path}, line {number}: an object is needed")
        yield number, ((name, _text(value)) for name, value in held.items())


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
