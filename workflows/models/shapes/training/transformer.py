"""Stage 2: the Flux transformer and its text encoder, trained jointly on cached latents (rectified flow)."""

from __future__ import annotations

import math
import pickle
import time
from pathlib import Path

import data
import numpy as np
import torch
import torch.nn.functional as F
from autoencoder import build as build_autoencoder
from autoencoder import encode
from diffusers import FluxTransformer2DModel
from distributed import average_gradients, save
from optim import Average, Optimizers, plan
from torch import nn
from words import LENGTH, WIDTH, build_text_encoder, load_tokenizer

GRID = data.SIZE // 16  # tokens along a side
BACKGROUNDS = (*data.PLAIN, *data.SCENES)
LABELS = len(data.COLOURS) + len(data.SHAPES) + len(BACKGROUNDS)
LAYOUT_WEIGHT = 0.05
DROPOUT = 0.1  # captions left out, for guidance
SHARD = 1024


def build_transformer() -> FluxTransformer2DModel:
    return FluxTransformer2DModel(
        in_channels=64,
        num_layers=2,
        num_single_layers=6,
        num_attention_heads=4,
        attention_head_dim=64,
        joint_attention_dim=WIDTH,
        pooled_projection_dim=WIDTH,
        axes_dims_rope=(16, 24, 24),
        guidance_embeds=False,
    )


def pack(latent: torch.Tensor) -> torch.Tensor:
    """(B, C, H, W) to Flux's tokens (B, H/2 * W/2, 4 C)."""
    b, c, h, w = latent.shape
    return latent.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, 4 * c)


def unpack(tokens: torch.Tensor, height: int, width: int) -> torch.Tensor:
    b, _, d = tokens.shape
    tokens = tokens.view(b, height // 2, width // 2, d // 4, 2, 2).permute(0, 3, 1, 4, 2, 5)
    return tokens.reshape(b, d // 4, height, width)


def positions(height: int, width: int) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(height // 2), torch.arange(width // 2), indexing="ij")
    return torch.stack([torch.zeros_like(y), y, x], -1).reshape(-1, 3).float()


def layout(picture: data.Picture, covers: list[np.ndarray]) -> np.ndarray:
    """What every token shows, (GRID * GRID, LABELS): shares of each colour, shape and background."""
    out = np.zeros((GRID, GRID, LABELS), np.float32)
    shapes, backgrounds = len(data.COLOURS), len(data.COLOURS) + len(data.SHAPES)
    free = np.ones((GRID, GRID), np.float32)
    for o, cover in zip(picture.objects, covers, strict=True):
        share = cover.reshape(GRID, data.SIZE // GRID, GRID, data.SIZE // GRID).mean((1, 3))
        out[..., list(data.COLOURS).index(o.colour)] += share
        out[..., shapes + data.SHAPES.index(o.shape)] += share
        free -= share
    out[..., backgrounds + BACKGROUNDS.index(picture.background)] = free
    return out.clip(0, 1).reshape(GRID * GRID, LABELS)


class Model(nn.Module):
    """Transformer and text encoder as one thing to train: predicts noise - latent.

    `layout_head` reads off the tokens half-way what they are going to show. Its loss teaches the first
    blocks to bind words to places long before the flow loss would (after S. Yu et al., "Representation
    alignment for generation", 2024, with the renderer's knowledge in place of a vision model's features).
    It is not part of the exported model.
    """

    def __init__(self, tokenizer):
        super().__init__()
        self.transformer = build_transformer()
        self.text_encoder = build_text_encoder(tokenizer)
        width = self.transformer.inner_dim
        self.layout_head = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, LABELS)
        )
        self._half_way: torch.Tensor | None = None
        self.transformer.single_transformer_blocks[1].register_forward_hook(self._keep)

    def _keep(self, block: nn.Module, inputs: tuple, output: tuple[torch.Tensor, torch.Tensor]) -> None:
        self._half_way = output[1]

    def layout(self) -> torch.Tensor:
        """Of the last forward: logits (B, GRID * GRID, LABELS)."""
        tokens, self._half_way = self._half_way, None
        return self.layout_head(tokens)

    def forward(self, latent: torch.Tensor, sigma: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        text = self.text_encoder(ids)
        height, width = latent.shape[-2:]
        tokens = self.transformer(
            hidden_states=pack(latent),
            encoder_hidden_states=text.last_hidden_state,
            pooled_projections=text.pooler_output,
            timestep=sigma,
            img_ids=positions(height, width),
            txt_ids=torch.zeros(ids.shape[1], 3),
            return_dict=False,
        )[0]
        return unpack(tokens, height, width)


def tokenize(tokenizer, texts: list[str]) -> torch.Tensor:
    return tokenizer(
        texts, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt"
    ).input_ids


def write_latents(rank: int, world: int, folder: Path, pictures: int) -> None:
    """Draw `pictures` training pictures, encode them, and keep latents and what they show, in shards."""
    model = build_autoencoder()
    model.load_state_dict(torch.load(folder / "autoencoder_ema.pt", weights_only=True))
    model = model.to(memory_format=torch.channels_last)
    (folder / "latents").mkdir(exist_ok=True)
    for shard in range(rank, math.ceil(pictures / SHARD), world):
        path = folder / "latents" / f"{shard:04}.pkl"
        if path.exists():
            continue
        rng = np.random.default_rng((3, shard))
        shown, latents, layouts = [], [], []
        while len(shown) < SHARD:
            batch = []
            while len(batch) < 32:
                picture = data.sample(rng, blurry=0.03)
                if not picture.held_out:
                    batch.append(picture)
            drawn = [data.draw_parts(p, rng) for p in batch]
            layouts += [layout(p, covers) for p, (_, covers) in zip(batch, drawn, strict=True)]
            pixels = torch.from_numpy(np.stack([image for image, _ in drawn])).permute(0, 3, 1, 2) * 2 - 1
            with torch.no_grad():
                latents.append(encode(model, pixels.contiguous(memory_format=torch.channels_last)).half())
            shown += batch
        temporary = path.with_suffix(".partial")
        kept = (shown, torch.cat(latents).contiguous().numpy(), np.stack(layouts).astype(np.float16))
        temporary.write_bytes(pickle.dumps(kept))
        temporary.replace(path)
        print(f"latents: shard {shard} done", flush=True)


class Latents:
    """All cached pictures, standardised channel by channel."""

    def __init__(self, folder: Path):
        self.shown: list[data.Picture] = []
        shards, layouts = [], []
        for path in sorted((folder / "latents").glob("*.pkl")):
            shown, latents, layout = pickle.loads(path.read_bytes())  # written by write_latents
            self.shown += shown
            shards.append(torch.from_numpy(latents))
            layouts.append(torch.from_numpy(layout))
        self.values, self.layouts = torch.cat(shards), torch.cat(layouts)
        statistics = folder / "latent_statistics.pt"
        if not statistics.exists():
            first = self.values[:8192].float()
            save(statistics, {"mean": first.mean((0, 2, 3)), "std": first.std((0, 2, 3))})
        state = torch.load(statistics, weights_only=True)
        self.mean, self.std = (state[k].view(1, -1, 1, 1) for k in ("mean", "std"))

    def batch(self, rng: np.random.Generator, count: int) -> tuple[torch.Tensor, list[str], torch.Tensor]:
        """Standardised latents, captions (some left out), and layouts."""
        rows = rng.integers(0, len(self.shown), count)
        texts = [
            "" if rng.random() < DROPOUT and not self.shown[i].blurry else data.caption(self.shown[i], rng)
            for i in rows
        ]
        picked = torch.from_numpy(rows)
        return (self.values[picked].float() - self.mean) / self.std, texts, self.layouts[picked].float()


def train(rank: int, world: int, folder: Path, steps: int, batch: int) -> None:
    tokenizer = load_tokenizer(folder / "tokenizer")
    latents = Latents(folder)
    torch.manual_seed(4)
    model = Model(tokenizer)
    optimizers = Optimizers(
        model,
        muon_lr=0.015,
        adam_lr=1.5e-3,
        adam_names=("text_encoder", "embedder", "norm", "transformer.proj_out", "layout_head"),
        decay=0.01,
    )
    path, start = folder / "transformer.pt", 0
    begun = folder / "transformer_start.pt"
    if begun.exists() and not path.exists():
        model.load_state_dict(torch.load(begun, weights_only=True), strict=False)
    average = Average(model, 0.999)
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizers.load_state_dict(state["optimizers"])
        average.values, start = state["average"], state["step"]
    began, seen = time.time(), np.zeros(2)
    for step in range(start, steps):
        rng = np.random.default_rng((5, step, rank))
        latent, texts, shown = latents.batch(rng, batch)
        sigma = torch.from_numpy(1 / (1 + np.exp(-rng.normal(0.4, 1.1, batch)))).float()
        noise = torch.from_numpy(rng.standard_normal(latent.shape, np.float32))
        at = sigma.view(-1, 1, 1, 1)
        output = model((1 - at) * latent + at * noise, sigma, tokenize(tokenizer, texts))
        loss = (output - (noise - latent)).square().mean()
        layout_loss = F.binary_cross_entropy_with_logits(model.layout(), shown) * LABELS
        (loss + LAYOUT_WEIGHT * layout_loss).backward()
        average_gradients(model)
        optimizers.step(plan(step, steps, warmup=100))
        average.update(model, step)
        seen += loss.item(), layout_loss.item()
        if rank == 0 and (step + 1) % 50 == 0:
            flow, where = seen / 50
            took = time.time() - began
            print(
                f"transformer {step + 1}/{steps} loss {flow:.4f} layout {where:.4f} {took:.0f} s", flush=True
            )
            seen[:] = 0
        if rank == 0 and ((step + 1) % 250 == 0 or step + 1 == steps):
            state = {
                "model": model.state_dict(),
                "optimizers": optimizers.state_dict(),
                "average": average.values,
                "step": step + 1,
            }
            save(path, state)
