"""`slipstream nodes`: the node classes there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from ..hosts import bundled
from ..workflow.schema import InputSpec, inputs
from ..workflow.values import near
from .errors import UsageFailure
from .options import folder_options


@click.command(short_help="List node classes, or describe one.")
@click.argument("name", required=False)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the definitions as ComfyUI's /object_info gives them."
)
@folder_options
def nodes(name: str | None, as_json: bool) -> None:
    """List the node classes by category, or show the inputs and outputs of the one called NAME."""
    schema = bundled.host().object_info()
    if name is not None and name not in schema:
        raise UsageFailure(f"there is no node class {name!r}{near(name, schema)}")
    if as_json:
        click.echo(json.dumps({name: schema[name]} if name else schema, indent=1))
    elif name:
        _print_one(name, schema[name])
    else:
        _print_all(schema)


def _print_all(schema: Mapping[str, Mapping[str, Any]]) -> None:
    categories: dict[str, list[str]] = {}
    for name, definition in schema.items():
        categories.setdefault(definition.get("category") or "other", []).append(name)
    width = max(map(len, schema), default=0)
    for category in sorted(categories):
        click.echo(category)
        for name in sorted(categories[category]):
            shown = schema[name].get("display_name")
            click.echo(f"  {name:<{width}}  {shown}" if shown and shown != name else f"  {name}")
    click.echo(f"{len(schema)} node classes")


def _print_one(name: str, definition: Mapping[str, Any]) -> None:
    shown = definition.get("display_name")
    click.echo(f"{name}  {shown}" if shown and shown != name else name)
    for line in (definition.get("category"), definition.get("description")):
        if line:
            click.echo(f"  {line}")
    specs = inputs(definition)
    width = max((len(spec.name) for spec in specs), default=0)
    for title, required in (("inputs", True), ("optional inputs", False)):
        chosen = [spec for spec in specs if spec.required is required]
        if chosen:
            click.echo(title)
        for spec in chosen:
            click.echo(f"  {spec.name:<{width}}  {_described(spec)}")
    outputs = list(zip(definition.get("output") or (), definition.get("output_name") or (), strict=False))
    if outputs:
        click.echo("outputs")
    for kind, label in outputs:
        click.echo(f"  {kind}" if kind == label else f"  {kind}  {label}")


def _described(spec: InputSpec) -> str:
    """`INT, default 20, 1 to 10000`."""
    if spec.type == "COMBO":
        listed = ", ".join(map(str, spec.choices)) or "(nothing to choose from)"
        return f"one of {listed}"
    parts = [spec.type]
    if "default" in spec.options:
        parts.append(f"default {spec.options['default']!r}")
    if "min" in spec.options or "max" in spec.options:
        parts.append(f"{spec.options.get('min', '')} to {spec.options.get('max', '')}".strip())
    return ", ".join(parts)
