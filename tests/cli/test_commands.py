import json
import subprocess
import sys
from importlib.metadata import version

import pytest


def test_nodes_by_category(slipstream):
    answer = slipstream("nodes")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines() == [
        "image",
        "  Save",
        "loaders",
        "  Load    Load Checkpoint",
        "sampling",
        "  Sample",
        "3 node classes",
    ]


def test_one_node(slipstream):
    lines = slipstream("nodes", "Sample").stdout.splitlines()
    assert "  steps  INT, default 3, 1 to 10000" in lines
    assert "  model  MODEL" in lines
    assert lines[lines.index("optional inputs") + 1] == "  pause  FLOAT, default 0.0"
    assert lines[lines.index("outputs") + 1] == "  LATENT"
    assert "  ckpt_name  one of shapes, other" in slipstream("nodes", "Load").stdout


def test_nodes_as_json_and_unknown(slipstream):
    assert set(json.loads(slipstream("nodes", "--json").stdout)) == {"Load", "Sample", "Save"}
    assert set(json.loads(slipstream("nodes", "Save", "--json").stdout)) == {"Save"}
    answer = slipstream("nodes", "Laod")
    assert answer.exit_code == 2
    assert "did you mean Load?" in answer.stderr


def test_models_with_folders_from_the_command_line_and_from_yaml(slipstream, tmp_path):
    (tmp_path / "mine" / "loras").mkdir(parents=True)
    (tmp_path / "mine" / "loras" / "a.safetensors").write_bytes(b"x" * 1500)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "b.safetensors").write_bytes(b"x")
    (tmp_path / "extra_model_paths.yaml").write_text("any:\n  loras: theirs\n")
    answer = slipstream("models", "loras", "--models", "mine")
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert lines[1].split() == ["a.safetensors", "1.5", "KB", str(tmp_path / "mine" / "loras")]
    assert lines[2].split() == ["b.safetensors", "1", "B", str(tmp_path / "theirs")]
    assert lines[3].startswith("searched: ")
    assert "a.safetensors" not in slipstream("models").stdout


def test_models_of_an_unknown_kind_and_a_damaged_yaml(slipstream, tmp_path):
    answer = slipstream("models", "lora")
    assert answer.exit_code == 2
    assert "loras" in answer.stderr
    (tmp_path / "bad.yaml").write_text("- a list")
    answer = slipstream("models", "--extra-model-paths", "bad.yaml")
    assert answer.exit_code == 2
    assert "bad.yaml" in answer.stderr


def test_inspect(slipstream, workflow, canvas):
    canvas["nodes"][0]["widgets_values"] = ["gone"]
    workflow.write_text(json.dumps(canvas))
    lines = slipstream("inspect", workflow).stdout.splitlines()
    assert lines[0].endswith("canvas, 3 nodes")
    assert lines[1:5] == ["nodes (core)", "  Load", "  Sample", "  Save"]
    assert '  prompt  = "a star"  what' in lines
    assert '  3.seed  = 5  node 3 "My sampler" (Sample)' in lines
    at = lines.index("  checkpoints/gone  MISSING")
    assert lines[at + 1] == "    put it into DIR/checkpoints and give --models DIR"
    assert lines[-1] == "  node 9 (Save)"
    assert slipstream("inspect", "none.json").exit_code == 3


def test_bench_lists_and_refuses_unknown_names(slipstream):
    assert {"engine", "hello"} <= set(json.loads(slipstream("bench", "--list", "--json").stdout))
    assert slipstream("bench", "nope").exit_code == 2


def test_help_tells_the_exit_codes(slipstream):
    for code in ("  1 ", "  2 ", "  3 ", "  4 ", "  5 ", "  6 ", "  130 "):
        assert code in slipstream("--help").stdout
    assert slipstream("--version").stdout.strip().endswith(version("slipstream"))


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["models"]])
def test_what_runs_nothing_is_quick_and_imports_no_torch(arguments, tmp_path):
    program = f"""
import sys, time
from slipstream.executor import cli
sys.argv = ["slipstream", *{arguments!r}]
try:
    cli.main()
finally:
    heavy = {{"torch", "diffusers", "transformers", "numpy"}} & set(sys.modules)
    assert not heavy, heavy
    assert time.process_time() < 1, time.process_time()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
