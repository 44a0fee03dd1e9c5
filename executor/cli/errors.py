"""What the command line says when something is wrong, and with which exit code it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from ..workflow.prompt import describe
from ..workflow.values import near


class Failure(click.ClickException):
    """Ends the command with a message on stderr and its exit code."""


class UsageFailure(Failure):
    exit_code = 2


class BadFile(Failure):
    exit_code = 3


class InvalidPrompt(Failure):
    exit_code = 4


class NodeFailure(Failure):
    exit_code = 5


class Stopped(Failure):
    exit_code = 130


def listed(heading: str, lines: Iterable[str]) -> str:
    return "\n".join([heading, *(f"  {line}" for line in lines)])


def validation_lines(prompt: Mapping[str, Any], error: Any, node_errors: Mapping[str, Any]) -> list[str]:
    """ComfyUI's error bodies as one line for each wrong input; the general error where no node has one."""
    lines = [line for node_id, errors in node_errors.items() for line in _node_lines(prompt, node_id, errors)]
    if not lines and error:
        lines.append(_with_details(error))
    return lines


def _node_lines(prompt: Mapping[str, Any], node_id: str, errors: Mapping[str, Any]) -> Iterator[str]:
    for error in errors["errors"]:
        extra = error.get("extra_info") or {}
        name = extra.get("input_name")
        where = describe(prompt, node_id) + (f", input {name}" if name else "")
        yield f"{where}: {_with_details(error, name)}{_suggestion(error, extra)}"


def _with_details(error: Mapping[str, Any], name: str | None = None) -> str:
    """The message, and the details where they say more than the input's name."""
    details = (error.get("details") or "").strip()
    return error["message"] if details in ("", name) else f"{error['message']} ({details})"


def _suggestion(error: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
    config = extra.get("input_config")
    if error["type"] != "value_not_in_list" or not config or not isinstance(config[0], list):
        return ""
    return near(str(extra.get("received_value")), map(str, config[0]))
