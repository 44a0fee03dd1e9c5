"""`slipstream bench`: the benchmarks that come with the project."""

from __future__ import annotations

import click


@click.command(short_help="Run benchmarks.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--list", "list_only", is_flag=True, help="List the benchmarks, run none.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def bench(context: click.Context, names: tuple[str, ...], list_only: bool, as_json: bool) -> None:
    """Run the benchmarks called NAME, or all of them. Each measures against a peer or a target in the same
    run; the exit code is 1 where one falls short."""
    from rich.console import Console

    from ..bench import run

    context.exit(run(names, as_json, list_only, Console()))
