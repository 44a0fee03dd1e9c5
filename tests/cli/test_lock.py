"""`slipstream lock` and `run --locked`, on a host of trivial nodes with real model folders."""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path

import pytest
from slipstream.executor.hosts import bundled
from slipstream.executor.models import folders


class Load:
    CATEGORY, FUNCTION, RETURN_TYPES = "loaders", "run", ("MODEL",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"ckpt_name": (folders.names("checkpoints"),)}}

    def run(self, ckpt_name):
        return (ckpt_name,)


@pytest.fixture
def lockable(slipstream, workflow, canvas, monkeypatch):
    """A workflow on a single file, beside which a pipeline folder lies. Call it as the command line."""
    monkeypatch.setattr(bundled.host, "nodes", {**bundled.host.nodes, "Load": Load})
    weights = Path("m/checkpoints/one.safetensors")
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    pipeline = Path("m/checkpoints/pipe")
    (pipeline / "unet").mkdir(parents=True)
    (pipeline / "notes").mkdir()
    (pipeline / "model_index.json").write_text('{"_class_name": "P", "unet": ["diffusers", "U"]}')
    (pipeline / "unet" / "w.safetensors").write_bytes(b"u")
    (pipeline / "notes" / "readme.txt").write_bytes(b"not part of the model")
    canvas["nodes"][0]["widgets_values"] = ["one.safetensors"]
    workflow.write_text(json.dumps(canvas))
    return lambda *arguments: slipstream(*arguments, "--models", "m")


def test_a_lock_holds_what_the_workflow_uses(lockable):
    answer = lockable("lock", "flow.json")
    assert (answer.exit_code, answer.stdout) == (0, "flow.lock\n")
    lock = json.loads(Path("flow.lock").read_text())
    digest = hashlib.sha256(b"weights").hexdigest()
    assert lock["models"] == {"checkpoints/one.safetensors": {"size": 7, "sha256": digest}}
    assert lock["packs"] == {"slipstream": version("slipstream")}
    assert lock["libraries"]["python"] == platform.python_version()
    assert lock["libraries"]["torch"] == version("torch")
    assert lockable("run", "flow.json", "--locked", "--seed", "3").exit_code == 0


def test_of_a_pipeline_the_index_and_the_components(lockable, canvas):
    canvas["nodes"][0]["widgets_values"] = ["pipe"]
    Path("flow.json").write_text(json.dumps(canvas))
    lockable("lock", "flow.json")
    assert list(json.loads(Path("flow.lock").read_text())["models"]) == [
        "checkpoints/pipe/model_index.json",
        "checkpoints/pipe/unet/w.safetensors",
    ]


def test_other_weights_or_versions_are_refused_with_what_differs(lockable):
    lockable("lock", "flow.json")
    Path("m/checkpoints/one.safetensors").write_bytes(b"other weights")
    lock = json.loads(Path("flow.lock").read_text())
    lock["libraries"]["torch"] = "1.0"
    Path("flow.lock").write_text(json.dumps(lock))
    answer = lockable("run", "flow.json", "--locked")
    assert answer.exit_code == 6
    lines = answer.stderr.splitlines()
    assert lines[0].endswith("flow.json would not run as it was locked:")
    before, now = (hashlib.sha256(held).hexdigest()[:16] for held in (b"weights", b"other weights"))
    assert lines[1].startswith("  checkpoints/one.safetensors: locked 7 bytes")
    assert lines[1].endswith(f"of sha256 {before}..., here 13 bytes of sha256 {now}...")
    assert lines[2] == f"  torch: locked 1.0, here {version('torch')}"
    assert not Path("output").exists()
    assert lockable("run", "flow.json").exit_code == 0  # only where asked to


def test_another_model_is_refused_too(lockable):
    lockable("lock", "flow.json")
    answer = lockable("run", "flow.json", "--locked", "--set", "ckpt_name=pipe")
    assert answer.exit_code == 6
    assert "checkpoints/one.safetensors: locked 7 bytes" in answer.stderr
    assert "checkpoints/pipe/unet/w.safetensors: locked nothing, here 1 bytes" in answer.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "`slipstream lock flow.json` writes it"),
        ("{", "cannot be read"),
        ("{}", "no lock file of format 1"),
    ],
)
def test_no_lock_or_a_damaged_one(lockable, content, message):
    if content is not None:
        Path("flow.lock").write_text(content)
    answer = lockable("run", "flow.json", "--locked")
    assert answer.exit_code == 3
    assert message in answer.stderr


def test_a_missing_model_cannot_be_locked(lockable, canvas):
    canvas["nodes"][0]["widgets_values"] = ["gone.safetensors"]
    Path("flow.json").write_text(json.dumps(canvas))
    answer = lockable("lock", "flow.json")
    assert answer.exit_code == 1
    assert "gone.safetensors is missing" in answer.stderr
    assert not Path("flow.lock").exists()
