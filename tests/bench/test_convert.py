"""The conversion benchmark's own canvas, and that cost grows with it, counted rather than timed."""

from slipstream.executor import bench
from slipstream.executor.bench import convert


def test_the_generated_canvas_converts_to_what_runs():
    prompt = convert.convert(convert.generated(31), convert.SCHEMA).prompt
    gone = {i for i in range(1, 31) if i % 3 == 0 or i % 5 == 0}
    assert set(prompt) == {str(i) for i in range(31)} - {str(i) for i in gone}
    assert prompt["11"]["inputs"] == {"seed": 11, "strength": 0.5, "model": ["8", 0]}


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch, capsys):
    from rich.console import Console

    monkeypatch.setattr(convert, "find_spec", lambda name: None)
    assert bench.run(["convert"], False, False, Console(width=200)) == 2
    assert capsys.readouterr().out == (
        "this benchmark converts ComfyUI's templates: pip install comfyui-workflow-templates-json\n"
    )


def test_the_work_for_a_node_does_not_grow_with_the_canvas(calls):
    def per_node(length):
        canvas = convert.generated(length)
        return calls(lambda: convert.convert(canvas, convert.SCHEMA)) / length

    assert per_node(3000) < 1.1 * per_node(300)
