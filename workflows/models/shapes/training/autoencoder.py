"""Stage 1: the AutoencoderKL (8x smaller, 16 channels).

Trained on crops around objects, where the detail is, in turn with whole pictures, so that group
normalisation meets the statistics that it will see in use; whole pictures alone at the end of the run.
"""

from __future__ import annotations

import time
from pathlib import Path

import data
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from distributed import average_gradients, save
from optim import Average, Optimizers, plan

CHANNELS = (24, 48, 96, 160)
LATENT = 16
NOISE = 0.1  # added to unit-variance latents, so that the decoder forgives an imperfect denoiser
CROP = 64
COOLDOWN = 0.8  # share of the run, as is the next
WHOLE_FROM = 0.8
OBJECTS = 3.0  # how much more objects count than the rest


def build() -> AutoencoderKL:
    return AutoencoderKL(
        block_out_channels=CHANNELS,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        norm_num_groups=8,
        latent_channels=LATENT,
        mid_block_add_attention=False,
        sample_size=data.SIZE,
        scaling_factor=1.0,
        shift_factor=0.0,
    )


def encode(model: AutoencoderKL, pixels: torch.Tensor) -> torch.Tensor:
    """Pixels (B, 3, H, W) in -1..1 to the posterior's mean."""
    return model.encode(pixels).latent_dist.mean


def standardise(latent: torch.Tensor) -> torch.Tensor:
    mean = latent.mean((0, 2, 3), keepdim=True)
    return (latent - mean) / (latent.std((0, 2, 3), keepdim=True) + 1e-4)


def loss_of(output: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """L1, plus L1 of the gradients: edges are what shapes are read from. `weight` is (B, 1, H, W)."""
    difference = output - target
    across = ((difference[..., 1:] - difference[..., :-1]).abs() * weight[..., 1:]).mean()
    down = ((difference[..., 1:, :] - difference[..., :-1, :]).abs() * weight[..., 1:, :]).mean()
    return (difference.abs() * weight).mean() + across + down + 2.0 * (difference.square() * weight).mean()


def pictures(rng: np.random.Generator, count: int, whole: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` crops around objects, or as many pixels in whole pictures; (B, 3, side, side) in -1..1.

    Also the weights of their pixels, (B, 1, side, side): objects and what is close to them count more.
    """
    side = data.SIZE if whole else CROP
    images, covers = [], []
    for _ in range(count * CROP**2 // side**2):
        image, shown = data.draw_parts(data.sample(rng, blurry=0.04), rng)
        ys, xs = np.nonzero(shown[rng.integers(len(shown))] > 0.5)
        corner = (np.array([ys.mean(), xs.mean()]) - CROP / 2 + rng.integers(-20, 21, 2)) // 8 * 8
        y, x = corner.clip(0, data.SIZE - side).astype(int)
        images.append(image[y : y + side, x : x + side])
        covers.append(np.maximum.reduce(shown)[y : y + side, x : x + side])
    batch = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2) * 2 - 1
    near = F.max_pool2d(torch.from_numpy(np.stack(covers))[:, None], 7, 1, 3)
    return batch.contiguous(memory_format=torch.channels_last), 1 + OBJECTS * near


def psnr(model: AutoencoderKL, count: int = 24) -> float:
    rng = np.random.default_rng(99)
    images = np.stack([data.draw(data.sample(rng), rng) for _ in range(count)])
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2) * 2 - 1
    with torch.no_grad():
        output = model.decode(standardise(encode(model, pixels))).sample.clamp(-1, 1)
    error = ((output - pixels) / 2).square().mean((1, 2, 3))
    return float((-10 * error.log10()).mean())


def train(rank: int, world: int, folder: Path, steps: int, batch: int, decoder_only: bool) -> None:
    torch.manual_seed(1)
    model = build().to(memory_format=torch.channels_last)
    average = Average(model, 0.998)
    path = folder / ("decoder.pt" if decoder_only else "autoencoder.pt")
    start = 0
    if decoder_only and not path.exists():
        model.load_state_dict(torch.load(folder / "autoencoder_ema.pt", weights_only=True))
        average = Average(model, 0.998)
    if decoder_only:
        model.encoder.requires_grad_(False)
        model.quant_conv.requires_grad_(False)
        statistics = torch.load(folder / "latent_statistics.pt", weights_only=True)
        mean, std = (statistics[k].view(1, -1, 1, 1) for k in ("mean", "std"))
    optimizers = Optimizers(
        model, muon_lr=0.02, adam_lr=2e-3, adam_names=("conv_in", "conv_out", "quant_conv")
    )
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizers.load_state_dict(state["optimizers"])
        average.values, start = state["average"], state["step"]
    began, seen = time.time(), 0.0
    for step in range(start, steps):
        rng = np.random.default_rng((2 if decoder_only else 1, step, rank))
        whole = step % 3 == 2 or step >= WHOLE_FROM * steps
        pixels, weight = pictures(rng, batch, whole)
        torch.manual_seed(step * world + rank)
        if decoder_only:
            with torch.no_grad():
                latent = (encode(model, pixels) - mean) / std
        else:
            latent = standardise(encode(model, pixels))
        output = model.decode(latent + NOISE * torch.randn_like(latent)).sample
        loss = loss_of(output, pixels, weight)
        loss.backward()
        average_gradients(model)
        optimizers.step(plan(step, steps, warmup=30, cooldown=COOLDOWN))
        average.update(model, step)
        seen += loss.item()
        if rank == 0 and (step + 1) % 25 == 0:
            print(
                f"autoencoder {step + 1}/{steps} loss {seen / 25:.4f} {(time.time() - began):.0f} s",
                flush=True,
            )
            seen = 0.0
        if rank == 0 and ((step + 1) % 200 == 0 or step + 1 == steps):
            save(
                path,
                {
                    "model": model.state_dict(),
                    "optimizers": optimizers.state_dict(),
                    "average": average.values,
                    "step": step + 1,
                },
            )
            smooth = build()
            smooth.load_state_dict(average.values)
            save(folder / f"{path.stem}_ema.pt", smooth.state_dict())
            print(f"autoencoder {step + 1} psnr {psnr(smooth):.2f} dB", flush=True)
