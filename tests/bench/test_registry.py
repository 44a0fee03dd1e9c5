"""The frame around benchmarks, with benchmarks that measure nothing."""

import io
import json

import pytest
from rich.console import Console
from slipstream.executor import bench
from slipstream.executor.bench import registry
from slipstream.executor.bench.registry import Benchmark, Figure


@pytest.fixture
def run(monkeypatch):
    figures = {
        "good": [Figure("speed", 2.5, "x", 2, ">="), Figure("cost", 10, "us", 10, "<=")],
        "bad": [Figure("speed", 1.9, "x", 2, ">=")],
    }
    known = {name: Benchmark(name, f"is {name}", lambda name=name: figures[name]) for name in figures}
    monkeypatch.setattr(bench, "benchmarks", lambda: known)

    def run(*names, json=False, list_only=False):
        out = io.StringIO()
        code = bench.run(names, json, list_only, Console(file=out, width=120))
        return code, out.getvalue()

    return run


def test_the_exit_code_tells_whether_all_targets_are_met(run):
    assert run("good")[0] == 0
    assert run("bad")[0] == 1
    assert run()[0] == 1


def test_the_table_names_values_and_targets(run):
    _, text = run()
    lines = [line.replace("│", " ").split() for line in text.splitlines()]
    assert ["good", "speed", "2.5", "x", ">=", "2", "ok"] in lines
    assert ["cost", "10", "us", "<=", "10", "ok"] in lines
    assert ["bad", "speed", "1.9", "x", ">=", "2", "short"] in lines


def test_json(run):
    code, text = run("bad", json=True)
    figure = {"name": "speed", "value": 1.9, "unit": "x", "target": 2, "comparison": ">=", "ok": False}
    assert (code, json.loads(text)) == (1, {"bad": [figure]})


def test_the_list_runs_nothing(run):
    assert json.loads(run(json=True, list_only=True)[1]) == {"good": "is good", "bad": "is bad"}
    code, text = run(list_only=True)
    assert code == 0 and "is good" in text and "2.5" not in text


def test_an_unknown_name(run):
    code, text = run("nope")
    assert code == 2 and "There is no benchmark nope. There are: good, bad." in text


def test_the_benchmarks_that_there_are():
    assert "engine" in registry.benchmarks()
