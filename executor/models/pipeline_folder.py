"""Models in diffusers' folder layout: model_index.json, and a subfolder for each part."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..sampling.parametrisation import Epsilon, Velocity
from ..sampling.prediction import Discrete, DiscreteFlow, FluxFlow, ModelSampling
from . import denoiser, text_files, tokenizers, vae, vae_layout
from .denoiser import Denoiser
from .families.registry import FAMILIES
from .files import BadFile, Entry, open_sharded, open_weights
from .text import USES, TextEncoder, TextModel, Use

PREVIEW = "preview.json"
STEMS = ("diffusion_pytorch_model", "model", "pytorch_model")
# Subfolders of text models and tokenizers, in the order of a family's text models.
ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3")
TOKENIZERS = ("tokenizer", "tokenizer_2", "tokenizer_3")
# Keys of a text model's config.json that say how it was saved, not what it is.
SAVED = ("architectures", "dtype", "torch_dtype", "transformers_version")


def load(folder: Path) -> tuple[Denoiser, TextEncoder | None, vae.VAE | None]:
    """MODEL, CLIP and VAE of a folder; None for parts that it does not have. Raises `BadFile`."""
    part = next((folder / name for name in ("transformer", "unet") if (folder / name).is_dir()), None)
    if part is None:
        raise BadFile(f"{folder}: there is no transformer or unet in this folder")
    model = _denoiser(part)
    picture = None
    if (folder / "vae").is_dir():
        picture = _vae(folder / "vae")
        about = {**_scale(folder / "vae"), **_preview(folder / "vae")}
        latent = replace(model.latent, spatial_ratio=picture.ratio, **about)
        model = replace(model, latent=latent)
    scheduler = folder / "scheduler" / "scheduler_config.json"
    if scheduler.is_file():
        model = model.with_sampling(_scheduled(model.sampling, scheduler))
    return model, _text(folder, model), picture


def weights_in(folder: Path) -> dict[str, Entry]:
    """The tensors of one part, whole or in shards, safetensors first."""
    for variant in ("", ".fp16", ".bf16"):
        for stem in STEMS:
            index = folder / f"{stem}.safetensors.index{variant}.json"
            if index.is_file():
                return open_sharded(index)
            for ending in (".safetensors", ".bin"):
                file = folder / f"{stem}{variant}{ending}"
                if file.is_file():
                    return open_weights(file)
    raise BadFile(f"{folder}: there are no weights in this folder")


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path}: not a readable configuration: {error}") from error


def _config(folder: Path) -> tuple[str, dict[str, Any]]:
    """Class name, and what the class is made with."""
    config = _json(folder / "config.json")
    own = {key: value for key, value in config.items() if not key.startswith("_")}
    return config.get("_class_name", ""), own


def _denoiser(folder: Path) -> Denoiser:
    kind, config = _config(folder)
    weights = weights_in(folder)
    family = next((f for f in FAMILIES if f.module_class == kind and f.owns(weights)), None)
    if family is None:
        raise BadFile(f"{folder}: models of the class {kind} are not supported")
    return denoiser.load(weights, family, str(folder), config=config)


def _vae(folder: Path) -> vae.VAE:
    kind, config = _config(folder)
    weights = weights_in(folder)
    if vae_layout.is_kl(weights):
        weights = vae_layout.kl_to_diffusers(weights)  # older files call the attention's tensors otherwise
    return vae.from_config(kind, config, weights, str(folder))


def _scale(folder: Path) -> dict[str, float]:
    """How latents of this autoencoder are scaled for the denoiser, where its config says."""
    _, config = _config(folder)
    if config.get("scaling_factor") is None:
        return {}
    return {"scale": config["scaling_factor"], "shift": config.get("shift_factor") or 0.0}


def _preview(folder: Path) -> dict[str, Any]:
    """How latents are mixed into colours for previews, where a file beside the autoencoder says."""
    if not (folder / PREVIEW).is_file():
        return {}
    mix = _json(folder / PREVIEW)
    factors, bias = mix.get("rgb_factors"), mix.get("rgb_bias")
    if not isinstance(factors, list) or not isinstance(bias, list):
        raise BadFile(f"{folder / PREVIEW}: rgb_factors and rgb_bias are needed")
    return {"rgb_factors": tuple(map(tuple, factors)), "rgb_bias": tuple(bias)}


def _scheduled(default: ModelSampling, file: Path) -> ModelSampling:
    """The family's sampling with what the scheduler's configuration says."""
    config = _json(file)
    if not isinstance(default, Discrete):
        if config.get("use_dynamic_shifting"):
            return FluxFlow(shift=config.get("max_shift", FluxFlow.shift))
        multiplier = default.multiplier if isinstance(default, DiscreteFlow) else 1.0
        return DiscreteFlow(shift=config.get("shift", 1.0), multiplier=multiplier)
    stated = {
        "beta_start": config.get("beta_start"),
        "beta_end": config.get("beta_end"),
        "beta_schedule": config.get("beta_schedule"),
        "timesteps": config.get("num_train_timesteps"),
        "zero_snr": config.get("rescale_betas_zero_snr"),
    }
    if stated["beta_schedule"] not in (None, "linear", "scaled_linear"):
        raise BadFile(f"{file}: the beta schedule {stated['beta_schedule']!r} is not supported")
    kind = Velocity() if config.get("prediction_type") == "v_prediction" else Epsilon()
    known = {name: value for name, value in stated.items() if value is not None}
    return replace(default, parametrisation=kind, **known)


def _text(folder: Path, model: Denoiser) -> TextEncoder | None:
    present = [place for place in ENCODERS if (folder / place).is_dir()]
    if not present:
        return None
    family = model.family
    alone = present == [ENCODERS[0]]
    models = []
    for name, place, vocabulary in zip(family.text_prefixes, ENCODERS, TOKENIZERS, strict=False):
        if place in present:
            # A single text model gives sequence and pooled vector as it is: so do diffusers' pipelines.
            use = Use() if alone else USES[family.text][name]
            models.append(_text_model(name, folder / place, folder / vocabulary, use))
    return TextEncoder("single" if alone else family.text, tuple(models))


def _text_model(name: str, folder: Path, vocabulary: Path, use: Use) -> TextModel:
    config = _json(folder / "config.json")
    kind = next(iter(config.get("architectures") or [""]))
    if not kind.startswith("T5" if name == "t5xxl" else "CLIPText"):
        raise BadFile(f"{folder}: text encoders of the class {kind} are not supported in this place")
    own = {key: value for key, value in config.items() if key not in SAVED and not key.startswith("_")}
    tower = text_files.tower_of(name, weights_in(folder), str(folder), config=own)
    find = partial(tokenizers.from_folder, vocabulary)
    if not vocabulary.is_dir():
        find = tokenizers.t5 if name == "t5xxl" else tokenizers.clip
    # The folder's own tokenizer knows how it pads; its class says which pooled vector pipelines take.
    projected = use.projected or kind.endswith("WithProjection")
    return TextModel(name, tower, find, replace(use, pad=None, projected=projected))
