"""Calls of ComfyUI's own nodes (0.3.64), with the inputs and outputs recorded there."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from slipstream.executor.hosts import bundled

DATA = Path(__file__).parents[1] / "data" / "nodes"
INPUTS = load_file(DATA / "golden.safetensors")
NODES = bundled.host().nodes


def calls():
    for part in ("golden", "more"):
        expected = load_file(DATA / f"{part}.safetensors")
        for index, case in enumerate(json.loads((DATA / f"{part}.json").read_text())["cases"]):
            values = [str(value) for value in case["inputs"].values() if not str(value).startswith("$")]
            yield pytest.param(case, expected, id="-".join([part, str(index), case["class_type"], *values]))


def argument(value):
    if not (isinstance(value, str) and value.startswith("$")):
        return value
    tensor = INPUTS[f"in/{value[1:]}"].clone()
    return {"samples": tensor} if value.startswith("$latent") else tensor


@pytest.mark.parametrize(("case", "expected"), list(calls()))
def test_same_as_comfyui(case, expected):
    node = NODES[case["class_type"]]
    inputs = {key: argument(value) for key, value in case["inputs"].items()}
    before = [tensor.clone() for tensor in tensors(inputs)]
    results = getattr(node(), node.FUNCTION)(**inputs)
    for result, output in zip(results, case["outputs"], strict=True):
        if "value" in output:
            assert result == output["value"]
        if "latent" in output:
            same(result["samples"], expected[output["latent"]])
        if "noise_mask" in output:
            same(result["noise_mask"], expected[output["noise_mask"]])
        if "tensor" in output:
            same(result, expected[output["tensor"]])
    assert all(map(torch.equal, before, tensors(inputs))), "an input was changed"


def tensors(inputs):
    values = [value["samples"] if isinstance(value, dict) else value for value in inputs.values()]
    return [value for value in values if isinstance(value, torch.Tensor)]


def same(actual, expected):
    """Up to what float32 costs when it is added up in another order."""
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-6)
