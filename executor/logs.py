"""How servers and workers log: a line for each record, as text or JSON, with what it is about.

What a record is about is given as `log.info("started", extra={"job": job.id})`; the names are `FIELDS`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping

FIELDS = ("job", "client", "worker", "state", "seconds", "reason")
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def configure(form: str, verbose: int, always: Callable[[], Mapping[str, object]] = dict) -> None:
    """Log to the standard error. `form` is text or json; `always` gives fields for records that lack them."""

    def complete(record: logging.LogRecord) -> bool:
        for name, value in always().items():
            record.__dict__.setdefault(name, value)
        return True

    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form == "json" else _Text())
    handler.addFilter(complete)
    logging.basicConfig(level=LEVELS[min(verbose, len(LEVELS) - 1)], handlers=[handler])


def _fields(record: logging.LogRecord) -> dict[str, object]:
    found = {name: record.__dict__.get(name) for name in FIELDS}
    return {name: value for name, value in found.items() if value not in (None, "")}


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """With ` job=... worker=...` behind the message: texts with spaces are quoted."""
        shown = (f"{n}={json.dumps(v) if ' ' in str(v) else v}" for n, v in _fields(record).items())
        return " ".join([super().formatMessage(record), *shown])


class _Json(logging.Formatter):
    converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False)
