"""The peer of `hello`: the same model, prompt and steps with diffusers alone. Run as a script."""

import json
import sys

import torch
from diffusers import FluxPipeline
from transformers import CLIPTextModel, CLIPTokenizer


def main(folder: str, picture: str, settings: dict) -> None:
    # Flux has two text encoders; this model uses its only one as both.
    encoder = CLIPTextModel.from_pretrained(folder, subfolder="text_encoder", torch_dtype=torch.float32)
    tokenizer = CLIPTokenizer.from_pretrained(folder, subfolder="tokenizer")
    pipeline = FluxPipeline.from_pretrained(
        folder,
        text_encoder=encoder,
        tokenizer=tokenizer,
        text_encoder_2=encoder,
        tokenizer_2=tokenizer,
        torch_dtype=torch.float32,
    )
    result = pipeline(
        settings["prompt"],
        negative_prompt=settings["negative_prompt"],
        true_cfg_scale=settings["cfg"],
        num_inference_steps=settings["steps"],
        width=settings["width"],
        height=settings["height"],
        max_sequence_length=tokenizer.model_max_length,
        generator=torch.Generator().manual_seed(settings["seed"]),
    )
    result.images[0].save(picture)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
