"""What the command line says when something is wrong, and with which exit code it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from ..models.folders import Names
from ..workflow.prompt import describe, is_link
from ..workflow.schema import Schema, choices_of
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


class LockDiffers(Failure):
    exit_code = 6


class Stopped(Failure):
    exit_code = 130


def listed(heading: str, lines: Iterable[str]) -> str:
    return "\n".join([heading, *(f"  {line}" for line in lines)])


def validation_lines(
    prompt: Mapping[str, Any], schema: Schema, error: Any, node_errors: Mapping[str, Any]
) -> list[str]:
    """ComfyUI's error bodies as one line for each wrong input; the general error where no node has one."""
    lines: list[str] = []
    for node_id, errors in node_errors.items():
        lines += _node_lines(prompt, schema, node_id, errors["errors"])
    if not lines and error:
        lines.append(_with_details(error))
    return lines


def _node_lines(
    prompt: Mapping[str, Any], schema: Schema, node_id: str, errors: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    links = {name: value[0] for name, value in prompt[node_id]["inputs"].items() if is_link(value)}
    loose = {name: target for name, target in links.items() if target not in prompt}
    for name, target in loose.items():
        yield f"{describe(prompt, node_id)}, input {name}: linked to node {target}, which is not in the file"
    for error in errors:
        if loose and error["type"] == "exception_during_inner_validation":
            continue  # ComfyUI's body for a loose link names the input that leads here
        extra = error.get("extra_info") or {}
        name = extra.get("input_name")
        where = describe(prompt, node_id) + (f", input {name}" if name else "")
        if error["type"] == "value_not_in_list":
            yield f"{where}: {_not_a_choice(schema[prompt[node_id]['class_type']], name, extra)}"
        else:
            yield f"{where}: {_with_details(error, name)}"


def _with_details(error: Mapping[str, Any], name: str | None = None) -> str:
    """The message, and the details where they say more than the input's name."""
    details = (error.get("details") or "").strip()
    return error["message"] if details in ("", name) else f"{error['message']} ({details})"


def _not_a_choice(definition: Mapping[str, Any], name: str, extra: Mapping[str, Any]) -> str:
    value = str(extra.get("received_value"))
    choices = choices_of(definition, name)
    message = f"{value!r} is not one of the choices"
    if isinstance(choices, Names):
        return f"{message}. {choices.advice(value)}"
    listing = f"; `slipstream nodes {definition['name']}` lists the {len(choices)} that are"
    return message + (near(value, map(str, choices)) or listing)
