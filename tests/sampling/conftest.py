"""Values that the real ComfyUI fixed, with a Gaussian's posterior mean in place of a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from slipstream.executor.sampling.model import LatentFormat
from slipstream.executor.sampling.prediction import Discrete, DiscreteFlow

DATA = Path(__file__).parents[1] / "data" / "sampling"


@pytest.fixture(scope="session")
def golden():
    """`runs` (settings), `sigmas`, `tensors` of the captures."""
    settings = json.loads((DATA / "golden.json").read_text())
    return {**settings, "tensors": load_file(DATA / "golden.safetensors")}


@pytest.fixture
def golden_model(golden, gaussian_model):
    """kind ("eps" or "flow") -> the MODEL, its positive and its negative CONDITIONING."""

    def make(kind: str):
        case = golden["cases"][kind]
        model = gaussian_model(
            sampling=Discrete() if kind == "eps" else DiscreteFlow(shift=3.0),
            latent=LatentFormat(
                channels=case["latent_shape"][1],
                scale=case["latent_scale_factor"],
                shift=case["latent_shift_factor"],
            ),
            variance=golden["v"],
        )
        positive, negative = ([[golden["tensors"][f"{kind}/mean_{name}"], {}]] for name in ("cond", "uncond"))
        return model, positive, negative

    return make
