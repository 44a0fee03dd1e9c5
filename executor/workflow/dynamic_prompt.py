"""`{red|green}` in a canvas prompt means one of the two, drawn when it is queued; comments are left out."""

from __future__ import annotations

import random
import re

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def resolve(text: str, rng: random.Random | None = None) -> str:
    """Strip `/* */` and `//` comments and draw each `{a|b|c}` (they nest; `\\{`, `\\}`, `\\|` are literal).

    Without `rng` the first alternative is taken, so that the same file gives the same picture.
    """
    result, _ = _sequence(COMMENT.sub("", text), 0, rng, inside=False)
    return result


def _sequence(text: str, position: int, rng: random.Random | None, *, inside: bool) -> tuple[str, int]:
    """Read up to the end of text, or (inside braces) up to the `}` that closes this choice."""
    alternatives = [""]
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and text[position : position + 1] in ("{", "}", "|"):
            alternatives[-1] += text[position]
            position += 1
        elif character == "{":
            chosen, position = _sequence(text, position, rng, inside=True)
            alternatives[-1] += chosen
        elif inside and character == "|":
            alternatives.append("")
        elif inside and character == "}":
            break
        else:
            alternatives[-1] += character
    return (rng.choice(alternatives) if rng else alternatives[0]), position
