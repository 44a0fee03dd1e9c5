"""How saved files are named: `prefix_00001_.png`, counting on from what is there, as ComfyUI does; and how
a finished file gets its name."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from .directories import contained

CLOCK = {  # token -> strftime
    "%year%": "%Y",
    "%month%": "%m",
    "%day%": "%d",
    "%hour%": "%H",
    "%minute%": "%M",
    "%second%": "%S",
}
DATE = re.compile(r"%date(?::(.*?))?%")
DATE_PARTS = re.compile(r"yyyy|yy|MM|M|dd|d|hh|h|mm|m|ss|s")


def save_path(prefix: str, directory: Path, width: int = 0, height: int = 0) -> tuple[Path, str, int, str]:
    """`(folder, stem, counter, subfolder)` for the next file: `folder / f"{stem}_{counter:05}_.png"`.

    `prefix` may hold subfolders and the tokens %width%, %height%, %year% ... %second% and
    %date:yyyy-MM-dd hhmmss%. Creates the folder. Raises `OutsideFolder` where it would leave `directory`.
    """
    expanded = os.path.normpath(expand(prefix, width, height))
    subfolder, stem = os.path.split(expanded)
    folder = contained(directory, subfolder)
    folder.mkdir(parents=True, exist_ok=True)
    numbered = re.compile(re.escape(stem) + r"_(\d+)_")
    counters = [int(match[1]) for entry in os.scandir(folder) if (match := numbered.match(entry.name))]
    return folder, stem, max(counters, default=0) + 1, subfolder


def expand(prefix: str, width: int, height: int) -> str:
    """Put values in the place of the tokens in a file name prefix."""
    if "%" not in prefix:
        return prefix
    now = time.localtime()
    prefix = prefix.replace("%width%", str(width)).replace("%height%", str(height))
    for token, form in CLOCK.items():
        prefix = prefix.replace(token, time.strftime(form, now))
    return DATE.sub(lambda match: _date(match[1] or "yyyyMMddhhmmss", now), prefix)


def _date(form: str, now: time.struct_time) -> str:
    """The canvas' date format: a letter once for the bare number, twice for two digits."""
    values = {
        "y": now.tm_year % 100,
        "M": now.tm_mon,
        "d": now.tm_mday,
        "h": now.tm_hour,
        "m": now.tm_min,
        "s": now.tm_sec,
    }

    def value(match: re.Match) -> str:
        part = match[0]
        if part == "yyyy":
            return str(now.tm_year)
        return f"{values[part[0]]:0{len(part)}}"

    return DATE_PARTS.sub(value, form)


def claim(temporary: Path, final: Path) -> bool:
    """Give a finished file its name, unless that is taken: nobody ever sees half a file or loses one."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links: exFAT, some network shares
        try:
            final.touch(exist_ok=False)
        except FileExistsError:
            return False
        temporary.replace(final)
    return True
