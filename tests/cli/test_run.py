import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from PIL import Image
from slipstream.executor.workflow import files


def saved(folder="output"):
    return sorted(path.name for path in Path(folder).iterdir())


def saved_prompt(path):
    return json.loads(Image.open(path).text["prompt"])


def test_success_prints_the_path_and_one_line_of_timing(slipstream, workflow):
    answer = slipstream("run", workflow)
    assert answer.exit_code == 0
    assert answer.stdout.splitlines() == [str(Path("output", "out_00001_.png")), "a star 5"]
    (timing,) = answer.stderr.splitlines()
    assert timing.startswith("0.")
    assert "load " in timing
    assert "sample " in timing


def test_output_folder(slipstream, workflow):
    assert slipstream("run", workflow, "--output", "elsewhere").exit_code == 0
    assert saved("elsewhere") == ["out_00001_.png"]


def test_settings_by_parameter_id_and_title(slipstream, workflow):
    answer = slipstream(
        "run", workflow, "--set", "prompt=a = b", "--set", "My sampler.steps=4", "--set", "9.prefix=x"
    )
    assert answer.exit_code == 0
    inputs = saved_prompt("output/x_00001_.png")["3"]["inputs"]
    assert (inputs["text"], inputs["steps"]) == ("a = b", 4)


def test_a_saved_picture_runs_again_and_its_canvas_shows_what_ran(slipstream, workflow):
    assert slipstream("run", workflow, "--seed", "41", "--set", "prompt=first").exit_code == 0
    answer = slipstream("run", "output/out_00001_.png", "--set", "prompt=second")
    assert answer.exit_code == 0
    assert "second 41" in answer.stdout
    canvas = files.read(Path("output/out_00002_.png")).canvas
    assert canvas["nodes"][1]["widgets_values"] == [41, "randomize", 3, 4.0, "second", 0.0]


def test_seed_and_count(slipstream, workflow):
    answer = slipstream("run", workflow, "--seed", "100", "--count", "3", "--json")
    runs = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [run["seeds"] for run in runs] == [{"3.seed": 100}, {"3.seed": 101}, {"3.seed": 102}]
    assert [run["texts"][0]["text"] for run in runs] == ["a star 100", "a star 101", "a star 102"]
    assert all(Path(run["outputs"][0]["path"]).is_file() for run in runs)
    assert runs[1]["cached"] == ["1"]  # the model is loaded once
    assert runs[0]["status"] == "success"
    assert set(runs[0]["seconds"]) == {"total", "load", "sample"}


def test_without_a_seed_the_count_goes_on_from_the_file(slipstream, workflow):
    answer = slipstream("run", workflow, "--count", "2", "--json")
    assert [json.loads(line)["seeds"]["3.seed"] for line in answer.stdout.splitlines()] == [5, 6]


def test_alternatives_in_a_prompt_are_drawn_by_the_seed(slipstream, workflow, canvas):
    canvas["nodes"][1]["widgets_values"][4] = "{a|b|c|d} star"
    workflow.write_text(json.dumps(canvas))

    def texts():
        answer = slipstream("run", workflow, "--seed", "1", "--count", "8", "--json", "--set", "3.steps=1")
        return [json.loads(line)["texts"][0]["text"].split()[0] for line in answer.stdout.splitlines()]

    assert len(set(texts())) > 1
    assert texts() == texts()


def test_several_files(slipstream, workflow, canvas):
    canvas["nodes"][2]["widgets_values"] = ["second"]
    Path("second.json").write_text(json.dumps(canvas))
    assert slipstream("run", workflow, "second.json").exit_code == 0
    assert saved() == ["out_00001_.png", "second_00002_.png"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set", "prompt"], 2, "KEY=VALUE is needed"),
        (["--set", "promt=x"], 2, "did you mean prompt?"),
        (["--set", "3.stepz=1"], 2, 'node 3 "My sampler" (Sample) has no input "stepz"; did you mean steps?'),
        (["--set", "3.steps=many"], 2, "steps takes a whole number, not 'many'"),
        (["--cache", "huge"], 2, "--cache huge"),
        (["--count", "0"], 2, "--count"),
        (["--device", "abacus"], 2, "abacus"),
        (["--nonsense"], 2, "No such option"),
        (["--set", "3.steps=0"], 4, 'node 3 "My sampler" (Sample), input steps'),
        (
            ["--set", "1.ckpt_name=shape"],
            4,
            "'shape' is not one of the choices. Did you mean shapes? Searched",
        ),
        (["--set", "3.cfg=60"], 5, 'node 3 "My sampler" (Sample) failed: ValueError: cfg is too much'),
    ],
)
def test_errors_name_the_place_and_have_their_own_exit_code(slipstream, workflow, arguments, code, message):
    answer = slipstream("run", workflow, *arguments)
    assert answer.exit_code == code
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not answer.stdout


def test_tracebacks_only_when_asked_for(slipstream, workflow):
    answer = slipstream("run", workflow, "--set", "3.cfg=60", "-v")
    assert answer.exit_code == 5
    assert "in run" in answer.stderr


def test_json_tells_the_error(slipstream, workflow):
    answer = slipstream("run", workflow, "--set", "3.cfg=60", "--json")
    assert answer.exit_code == 5
    told = json.loads(answer.stdout)
    assert told["status"] == "error"
    assert told["error"]["node"] == "3"
    assert told["error"]["exception_type"] == "ValueError"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense", "not JSON"),
        (
            '{"nodes": [{"id": 5, "type": "workflow>Mine"}], "links": []}',
            "lacks the nodes that node 5 (workf",
        ),
    ],
)
def test_bad_files(slipstream, tmp_path, content, message):
    (tmp_path / "bad.json").write_text(content)
    answer = slipstream("run", "bad.json")
    assert answer.exit_code == 3
    assert "bad.json" in answer.stderr
    assert message in answer.stderr


def test_missing_file(slipstream):
    answer = slipstream("run", "none.json")
    assert answer.exit_code == 3
    assert "none.json" in answer.stderr


@pytest.mark.parametrize(
    "content",
    [
        '{"7": {"class_type": "Nobody", "inputs": {}}}',
        '{"nodes": [{"id": 7, "type": "Nobody"}], "links": []}',
    ],
)
def test_unknown_node_class_in_a_prompt_and_on_a_canvas(slipstream, tmp_path, content):
    (tmp_path / "api.json").write_text(content)
    answer = slipstream("run", "api.json")
    assert answer.exit_code == 4
    assert "Nobody is elsewhere" in answer.stderr


def test_a_link_to_nowhere(slipstream, tmp_path):
    """Also where the node at fault is not the output itself."""
    sample = {"model": ["77", 0], "seed": 1, "steps": 1, "cfg": 1.0, "text": ""}
    nodes = {
        "4": {"class_type": "Sample", "inputs": sample},
        "6": {"class_type": "Save", "inputs": {"latent": ["4", 0], "prefix": "x"}},
    }
    (tmp_path / "api.json").write_text(json.dumps(nodes))
    answer = slipstream("run", "api.json")
    assert answer.exit_code == 4
    message = "node 4 (Sample), input model: linked to node 77, which is not in the file"
    assert answer.stderr.splitlines() == ["Error: api.json is not valid:", f"  {message}"]


def test_an_output_that_cannot_run_is_warned_of_and_the_others_run(slipstream, workflow, canvas):
    canvas["nodes"].append({"id": 12, "type": "Save", "title": "Loose", "widgets_values": ["no"]})
    workflow.write_text(json.dumps(canvas))
    answer = slipstream("run", workflow)
    assert answer.exit_code == 0
    assert "Warning: " in answer.stderr
    assert 'node 12 "Loose" (Save), input latent' in answer.stderr
    assert saved() == ["out_00001_.png"]


def test_nothing_runs_when_a_later_file_is_wrong(slipstream, workflow):
    assert slipstream("run", workflow, "none.json").exit_code == 3
    assert not Path("output").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_stops_within_a_step_and_leaves_no_file(workflow, presses):
    """One press ends the run at the next step; with steps of ten seconds a second one does not wait."""
    pause = 0.2 if presses == 1 else 10
    program = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from conftest import Host
        from slipstream.executor import cli
        from slipstream.executor.hosts import bundled
        bundled.host = Host
        settings = ["--set", "3.steps=1000", "--set", "3.pause={pause}"]
        sys.argv = ["slipstream", "run", "flow.json", "-v", *settings]
        cli.main()
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    first = process.stderr.readline()  # the loader has finished: the sampler runs
    assert "Load" in first
    time.sleep(0.3)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    if presses == 2:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert time.monotonic() - started < 5
    assert process.returncode == (130 if presses == 1 else -signal.SIGINT)
    assert "Stopping" in stderr
    assert ('interrupted at node 3 "My sampler" (Sample)' in stderr) is (presses == 1)
    assert not Path("output").exists()
