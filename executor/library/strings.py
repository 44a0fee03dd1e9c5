"""STRING nodes. Regular expressions are Python's."""

from __future__ import annotations

import re

from .inputs import integer, text, toggle


class _Text:
    CATEGORY = "utils/string"
    RETURN_TYPES = ("STRING",)


class StringConcatenate(_Text):
    FUNCTION = "concatenate"

    @classmethod
    def INPUT_TYPES(cls):
        delimiter = ("STRING", {"default": "", "multiline": False})
        return {"required": {"string_a": text(), "string_b": text(), "delimiter": delimiter}}

    def concatenate(self, string_a, string_b, delimiter):
        return (string_a + delimiter + string_b,)


class StringSubstring(_Text):
    FUNCTION = "substring"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"string": text(), "start": ("INT", {}), "end": ("INT", {})}}

    def substring(self, string, start, end):
        """Python's slice: negative positions count from the end."""
        return (string[start:end],)


class StringLength(_Text):
    RETURN_TYPES = ("INT",)
    RETURN_NAMES = ("length",)
    FUNCTION = "length"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"string": text()}}

    def length(self, string):
        return (len(string),)


class CaseConverter(_Text):
    FUNCTION = "convert"

    MODES = {
        "UPPERCASE": str.upper,
        "lowercase": str.lower,
        "Capitalize": str.capitalize,
        "Title Case": str.title,
    }

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"string": text(), "mode": (list(cls.MODES),)}}

    def convert(self, string, mode):
        return (self.MODES[mode](string),)


class StringTrim(_Text):
    FUNCTION = "trim"

    MODES = {"Both": str.strip, "Left": str.lstrip, "Right": str.rstrip}

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"string": text(), "mode": (list(cls.MODES),)}}

    def trim(self, string, mode):
        return (self.MODES[mode](string),)


class StringReplace(_Text):
    FUNCTION = "replace"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"string": text(), "find": text(), "replace": text()}}

    def replace(self, string, find, replace):
        return (string.replace(find, replace),)


class StringContains(_Text):
    RETURN_TYPES = ("BOOLEAN",)
    RETURN_NAMES = ("contains",)
    FUNCTION = "contains"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"string": text(), "substring": text(), "case_sensitive": toggle(True)}}

    def contains(self, string, substring, case_sensitive):
        if not case_sensitive:
            string, substring = string.lower(), substring.lower()
        return (substring in string,)


class StringCompare(_Text):
    RETURN_TYPES = ("BOOLEAN",)
    FUNCTION = "compare"

    MODES = {"Starts With": str.startswith, "Ends With": str.endswith, "Equal": str.__eq__}

    @classmethod
    def INPUT_TYPES(cls):
        pair = {"string_a": text(), "string_b": text()}
        return {"required": {**pair, "mode": (list(cls.MODES),), "case_sensitive": toggle(True)}}

    def compare(self, string_a, string_b, mode, case_sensitive):
        if not case_sensitive:
            string_a, string_b = string_a.lower(), string_b.lower()
        return (self.MODES[mode](string_a, string_b),)


def _flags(case_insensitive: bool, multiline: bool, dotall: bool) -> int:
    chosen = ((case_insensitive, re.IGNORECASE), (multiline, re.MULTILINE), (dotall, re.DOTALL))
    return sum(flag for wanted, flag in chosen if wanted)


def _compiled(pattern: str, flags: int) -> re.Pattern | None:
    """None for a malformed expression, which then matches nothing, as in ComfyUI."""
    try:
        return re.compile(pattern, flags)
    except re.error:
        return None


FLAGS = {"case_insensitive": toggle(True), "multiline": toggle(False), "dotall": toggle(False)}


class RegexMatch(_Text):
    RETURN_TYPES = ("BOOLEAN",)
    RETURN_NAMES = ("matches",)
    FUNCTION = "match"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"string": text(), "regex_pattern": text(), **FLAGS}}

    def match(self, string, regex_pattern, case_insensitive, multiline, dotall):
        pattern = _compiled(regex_pattern, _flags(case_insensitive, multiline, dotall))
        return (pattern is not None and pattern.search(string) is not None,)


class RegexExtract(_Text):
    FUNCTION = "extract"

    MODES = ["First Match", "All Matches", "First Group", "All Groups"]

    @classmethod
    def INPUT_TYPES(cls):
        pair = {"string": text(), "regex_pattern": text()}
        return {"required": {**pair, "mode": (cls.MODES,), **FLAGS, "group_index": integer(1, 0, 100)}}

    def extract(self, string, regex_pattern, mode, case_insensitive, multiline, dotall, group_index):
        """The matches, or one group of each, in lines. "" where there is nothing."""
        pattern = _compiled(regex_pattern, _flags(case_insensitive, multiline, dotall))
        if pattern is None:
            return ("",)
        matches = list(pattern.finditer(string))
        if mode.startswith("First"):
            matches = matches[:1]
        if mode.endswith(("Group", "Groups")):
            needed = max(group_index, mode == "All Groups")
            found = [match[group_index] or "" for match in matches if needed <= pattern.groups]
        else:
            # With groups in the pattern "All Matches" gives the first of them, as re.findall does.
            group = min(pattern.groups, 1) if mode == "All Matches" else 0
            found = [match[group] or "" for match in matches]
        return ("\n".join(found),)


class RegexReplace(_Text):
    FUNCTION = "replace"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"string": text(), "regex_pattern": text(), "replace": text()},
            "optional": {**FLAGS, "count": integer(0, 0, 100)},
        }

    def replace(
        self, string, regex_pattern, replace, case_insensitive=True, multiline=False, dotall=False, count=0
    ):
        """`count` 0 replaces every match."""
        flags = _flags(case_insensitive, multiline, dotall)
        try:
            return (re.sub(regex_pattern, replace, string, count=count, flags=flags),)
        except re.error as error:
            given = f"regex_pattern {regex_pattern!r} with replace {replace!r}"
            raise ValueError(f"RegexReplace: {given} is not valid: {error}") from error


NODES = {
    "StringConcatenate": StringConcatenate,
    "StringSubstring": StringSubstring,
    "StringLength": StringLength,
    "CaseConverter": CaseConverter,
    "StringTrim": StringTrim,
    "StringReplace": StringReplace,
    "StringContains": StringContains,
    "StringCompare": StringCompare,
    "RegexMatch": RegexMatch,
    "RegexExtract": RegexExtract,
    "RegexReplace": RegexReplace,
}

DISPLAY_NAMES = {
    "StringConcatenate": "Concatenate",
    "StringSubstring": "Substring",
    "StringLength": "Length",
    "CaseConverter": "Case Converter",
    "StringTrim": "Trim",
    "StringReplace": "Replace",
    "StringContains": "Contains",
    "StringCompare": "Compare",
    "RegexMatch": "Regex Match",
    "RegexExtract": "Regex Extract",
    "RegexReplace": "Regex Replace",
}
