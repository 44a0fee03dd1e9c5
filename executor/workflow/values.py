"""A value written as text (on a command line, in a query) read as the type that an input declares."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from .errors import SettingError
from .schema import InputSpec

BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_KINDS = {"INT": "a whole number", "FLOAT": "a number", "BOOLEAN": "true or false"}


def parse(spec: InputSpec | None, text: str) -> Any:
    """Raises SettingError where the text is not of the declared type. Ranges and lists of choices are left
    to the validation; an undeclared input (None) takes JSON or, failing that, the text."""
    if spec is None:
        return _json(text)
    try:
        if spec.type == "INT":
            return int(text)
        if spec.type == "FLOAT":
            return _finite(text)
        if spec.type == "BOOLEAN":
            return BOOLEANS[text.lower()]
    except (ValueError, KeyError) as error:
        raise SettingError(f"{spec.name} takes {_KINDS[spec.type]}, not {text!r}") from error
    if spec.type == "COMBO":
        exact = [choice for choice in spec.choices if str(choice) == text]
        loose = [choice for choice in spec.choices if str(choice).lower() == text.lower()]
        return (exact or loose or [text])[0]
    if spec.type == "STRING":
        return text
    raise SettingError(f"{spec.name} takes a link of type {spec.type}, not a value")


def _finite(text: str) -> float:
    """JSON, in which prompts are saved, has no other numbers."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def near(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the names most like this one, or all of them where they are few."""
    names = [entry for entry in dict.fromkeys(known) if entry]
    matches = get_close_matches(name, names, n=3, cutoff=0.5)
    if matches:
        return f"; did you mean {' or '.join(matches)}?"
    return f"; there is {', '.join(names)}" if 0 < len(names) <= 12 else ""
