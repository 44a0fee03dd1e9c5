"""`slipstream inspect`: what is in a workflow file, without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from ..hosts import bundled
from ..workflow.errors import WorkflowError
from ..workflow.prompt import describe
from ..workflow.schema import inputs
from .load import read, unconvertible
from .options import folder_options


@click.command(short_help="Show what a workflow file holds.")
@click.argument("file", type=click.Path(path_type=Path))
@folder_options
def inspect(file: Path) -> None:
    """Show what FILE holds: its parameters, nodes, the models it needs and whether they are here, and the
    nodes that save or show something."""
    host = bundled.host()
    schema = host.object_info()
    workflow = read(file)
    try:
        prompt = workflow.to_prompt(schema).prompt
    except WorkflowError as error:
        raise unconvertible(workflow, error, host) from error
    kinds = [kind for kind in ("prompt", "canvas") if getattr(workflow, kind) is not None]
    click.echo(f"{file}: {' and '.join(kinds)}, {len(prompt)} nodes")
    if workflow.parameters:
        click.echo("parameters (set with --set NAME=VALUE)")
    for parameter in workflow.parameters.values():
        value = prompt.get(parameter.node, {}).get("inputs", {}).get(parameter.input)
        comment = f"  {parameter.description}" if parameter.description else ""
        click.echo(f"  {parameter.name} = {value!r}{comment}")
    click.echo("nodes")
    for kind, count in sorted(Counter(node["class_type"] for node in prompt.values()).items()):
        missing = "" if kind in schema else "  NOT AVAILABLE"
        click.echo(f"  {kind}{f' x {count}' if count > 1 else ''}{missing}")
    models = dict.fromkeys(_models(prompt, schema))
    if models:
        click.echo("models")
    for name, present in models:
        click.echo(f"  {name}{'' if present else '  MISSING'}")
    click.echo("outputs")
    for node_id, node in prompt.items():
        if schema.get(node["class_type"], {}).get("output_node"):
            click.echo(f"  {describe(prompt, node_id)}")


def _models(prompt, schema) -> Iterator[tuple[str, bool]]:
    """The file names chosen in loaders, and whether the choice is on their list."""
    for node in prompt.values():
        definition = schema.get(node["class_type"], {})
        if "loaders" not in definition.get("category", ""):
            continue
        for spec in inputs(definition):
            value = node.get("inputs", {}).get(spec.name)
            if spec.type == "COMBO" and spec.name.endswith("_name") and isinstance(value, str):
                yield value, value in spec.choices
