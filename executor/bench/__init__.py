"""Reproducible benchmarks. A figure is a ratio against a peer measured in the same run, or a cost per item
that has to stay below a bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from .registry import Benchmark, Figure, Unavailable, benchmarks


def run(names: Sequence[str], json: bool, list_only: bool, console: Console) -> int:
    """Run the benchmarks called `names`, or all of them, and print what they measure.

    Returns the exit code: 0, 1 if a figure misses its target, 2 if there is no benchmark of that name or one
    cannot run here.
    """
    known = benchmarks()
    unknown = [name for name in names if name not in known]
    if unknown:
        console.print(f"There is no benchmark {', '.join(unknown)}. There are: {', '.join(known)}.")
        return 2
    chosen = [known[name] for name in names or known]
    if list_only:
        _print_list(chosen, json, console)
        return 0
    try:
        measured = {one.name: list(one.measure()) for one in chosen}
    except Unavailable as error:
        console.print(str(error), markup=False)
        return 2
    if json:
        _print_json(
            {name: [_as_json(figure) for figure in figures] for name, figures in measured.items()}, console
        )
    else:
        _print_table(measured, console)
    return 0 if all(figure.ok for figures in measured.values() for figure in figures) else 1


def _as_json(figure: Figure) -> dict[str, object]:
    return {**figure._asdict(), "ok": figure.ok}


def _print_list(chosen: Iterable[Benchmark], json: bool, console: Console) -> None:
    described = {one.name: one.description for one in chosen}
    if json:
        _print_json(described, console)
        return
    table = Table("Benchmark", "Measures")
    for row in described.items():
        table.add_row(*row)
    console.print(table)


def _print_table(measured: dict[str, list[Figure]], console: Console) -> None:
    table = Table("Benchmark", "Figure")
    for heading in ("Value", "Target", ""):
        table.add_column(heading, justify="right")
    for name, figures in measured.items():
        for index, figure in enumerate(figures):
            table.add_row(
                name if index == 0 else "",
                figure.name,
                f"{figure.value:.3g} {figure.unit}".strip(),
                f"{figure.comparison} {figure.target:g}",
                "[green]ok[/]" if figure.ok else "[red]short[/]",
            )
    console.print(table)


def _print_json(value: object, console: Console) -> None:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    console.print(text, markup=False, highlight=False, soft_wrap=True)
