"""`slipstream inspect`: what is in a workflow file, without running it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..hosts import bundled
from ..hosts.base import Host
from ..workflow.errors import WorkflowError
from ..workflow.prompt import describe
from ..workflow.survey import Model, Survey, survey
from .load import read, unconvertible
from .options import folder_options

LONGEST = 72  # characters of a value that are shown


@click.command(short_help="Show what a workflow file holds.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@folder_options
def inspect(file: Path, as_json: bool) -> None:
    """Show what FILE holds: its node classes and where they come from, the models it needs and whether they
    are here, the inputs that one may want to set, and the nodes that save or show something."""
    host = bundled.host()
    schema = host.object_info()
    workflow = read(file)
    try:
        conversion = workflow.to_prompt(schema)
    except WorkflowError as error:
        raise unconvertible(workflow, error, host) from error
    prompt = conversion.prompt
    found = survey(prompt, schema, workflow.parameters, workflow.canvas)
    content = {
        "file": str(file),
        "kinds": [kind for kind in ("prompt", "canvas") if getattr(workflow, kind) is not None],
        "parameters": {
            p.name: {"node": p.node, "input": p.input, "description": p.description}
            for p in workflow.parameters.values()
        },
        "nodes": list(_nodes(found, host)),
        "models": [_model(model) for model in found.models],
        "inputs": [
            {"key": s.key, "node": s.node, "input": s.input, "purpose": s.purpose, "value": s.value}
            for s in found.settings
        ],
        "outputs": [{"node": node, "class_type": prompt[node]["class_type"]} for node in found.outputs],
        "warnings": conversion.warnings,
    }
    if as_json:
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    click.echo(f"{file}: {' and '.join(content['kinds'])}, {len(prompt)} nodes")
    for line in _lines(content, prompt):
        click.echo(line)


def _nodes(found: Survey, host: Host) -> Iterator[dict[str, Any]]:
    for kind in found.kinds:
        entry = {"class_type": kind.class_type, "nodes": list(kind.nodes), "origin": kind.origin or None}
        yield entry if kind.origin else {**entry, "missing": host.missing(kind.class_type, kind.pack)}


def _model(model: Model) -> dict[str, Any]:
    """`path` where the file is, or `put` where it is looked for."""
    from ..models import folders

    content: dict[str, Any] = {"name": model.name, "folder": model.folder or None, "node": model.node}
    if model.found and model.folder:
        return {**content, "path": str(folders.find(model.folder, model.name))}
    content["put"] = str(folders.place_for(model.folder) or Path("DIR", model.folder))
    return {**content, "url": model.url} if model.url else content


def _lines(content: dict[str, Any], prompt: dict[str, Any]) -> Iterator[str]:
    by_origin: dict[str, list[dict[str, Any]]] = {}
    for entry in content["nodes"]:
        by_origin.setdefault(entry["origin"] or "missing", []).append(entry)
    for origin, entries in sorted(by_origin.items(), key=lambda item: (item[0] == "missing", item[0])):
        yield f"nodes ({origin})"
        for entry in entries:
            count = f" x {len(entry['nodes'])}" if len(entry["nodes"]) > 1 else ""
            yield f"  {entry['class_type']}{count}"
            if "missing" in entry:
                yield f"    {entry['missing']}"
    if content["models"]:
        yield "models"
    shown = set()
    for model in content["models"]:
        name = f"{model['folder']}/{model['name']}" if model["folder"] else model["name"]
        if name in shown:
            continue
        shown.add(name)
        yield f"  {name}{'' if 'path' in model else '  MISSING'}"
        if "put" in model:
            unset = model["put"].startswith("DIR")
            yield f"    put it into {model['put']}" + (" and give --models DIR" if unset else "")
        if "url" in model:
            yield f"    {model['url']}"
    if content["inputs"]:
        yield "inputs (--set KEY=VALUE)"
    width = max((len(entry["key"]) for entry in content["inputs"]), default=0)
    for entry in content["inputs"]:
        said = content["parameters"].get(entry["key"], {}).get("description")
        comment = said or describe(prompt, entry["node"])
        yield f"  {entry['key']:<{width}} = {_short(entry['value'])}  {comment}"
    if content["outputs"]:
        yield "outputs"
    for entry in content["outputs"]:
        yield f"  {describe(prompt, entry['node'])}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
