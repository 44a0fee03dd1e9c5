"""How well the model obeys captions it never saw: `python evaluate.py [MODEL] [--sheet sheet.png]`.

Plain diffusers and transformers classes only: what is measured is the model, not a host.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import check
import data
import numpy as np
import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel
from PIL import Image
from transformer import positions, tokenize, unpack
from transformers import CLIPTextModel, CLIPTokenizer


class Generator:
    """The exported pipeline folder, in float32."""

    def __init__(self, folder: Path):
        self.transformer = FluxTransformer2DModel.from_pretrained(
            folder / "transformer", torch_dtype=torch.float32
        )
        self.text_encoder = CLIPTextModel.from_pretrained(folder / "text_encoder", dtype=torch.float32)
        self.tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
        self.vae = AutoencoderKL.from_pretrained(folder / "vae", torch_dtype=torch.float32)

    @torch.no_grad()
    def __call__(
        self,
        prompts: list[str],
        seed: int = 0,
        steps: int = 20,
        guidance: float = 3.5,
        shift: float = 1.0,
        negative: str = "",
        size: int = data.SIZE,
    ) -> np.ndarray:
        """Pictures (B, size, size, 3) in 0..1, by Euler's method with classifier-free guidance."""
        count, side = len(prompts), size // 8
        text = self.text_encoder(tokenize(self.tokenizer, prompts + [negative] * count))
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(count, (side // 2) ** 2, 64, generator=generator)
        sigmas = torch.linspace(1, 0, steps + 1)
        sigmas = shift * sigmas / (1 + (shift - 1) * sigmas)
        ids, words = positions(side, side), torch.zeros(text.last_hidden_state.shape[1], 3)
        for now, after in pairwise(sigmas):
            good, bad = self.transformer(
                hidden_states=torch.cat([x, x]),
                encoder_hidden_states=text.last_hidden_state,
                pooled_projections=text.pooler_output,
                timestep=now.expand(2 * count),
                img_ids=ids,
                txt_ids=words,
                return_dict=False,
            )[0].chunk(2)
            x = x + (after - now) * (bad + guidance * (good - bad))
        image = self.vae.decode(unpack(x, side, side)).sample
        return (image / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).numpy()


def _collect(
    count: int, objects: int, wanted: Callable[[data.Picture], bool], seed: int
) -> list[data.Picture]:
    rng, out = np.random.default_rng(seed), []
    while len(out) < count:
        picture = data.sample(rng, objects)
        if wanted(picture):
            out.append(picture)
    return out


def _rare(picture: data.Picture) -> bool:
    return any((o.colour, o.shape) in data.HELD_OUT_PAIRS for o in picture.objects)


def held_out_sets(count: int) -> dict[str, list[data.Picture]]:
    """The three sets: one object, two objects (compositions not trained on), and pairs never seen."""
    return {
        "one object": _collect(count, 1, lambda p: p.held_out and not _rare(p), 101),
        "two objects": _collect(count, 2, lambda p: p.held_out and not _rare(p), 102),
        "unseen pairs": _collect(count, 1, _rare, 103),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=3.5)
    parser.add_argument("--shift", type=float, default=1.0)
    parser.add_argument("--sheet", type=Path, help="also save the pictures on one sheet")
    args = parser.parse_args()
    generate = Generator(args.model)
    rows = []
    for name, pictures in held_out_sets(args.count).items():
        images = np.concatenate(
            [
                generate(
                    [data.caption(p) for p in pictures[i : i + 20]], i, args.steps, args.guidance, args.shift
                )
                for i in range(0, args.count, 20)
            ]
        )
        verdicts = [check.judge(i, p) for i, p in zip(images, pictures, strict=True)]
        parts = {k: sum(getattr(v, k) for v in verdicts) for k in ("passed", "colour", "shape", "place")}
        print(f"{name:13}", "  ".join(f"{k} {v}/{args.count}" for k, v in parts.items()), flush=True)
        rows.append(np.concatenate(list(images[:10]), 1))
    if args.sheet:
        Image.fromarray((np.concatenate(rows) * 255).round().astype(np.uint8)).save(args.sheet)


if __name__ == "__main__":
    main()
