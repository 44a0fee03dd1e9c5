"""The text models of a TextEncoder as modules with one common call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from .files import Weights
from .modules import assemble
from .text_layout import build_clip, build_t5

# A prompt's tokens: ids, and vectors [width] in the place of some.
Tokens = Sequence[Sequence[int | torch.Tensor]]


@dataclass(frozen=True)
class Encoded:
    """`sequence` [B, L, W]; `pooled` [B, W] at the end token and `projected`, None where a model has none."""

    sequence: torch.Tensor
    pooled: torch.Tensor | None = None
    projected: torch.Tensor | None = None


class Tower(torch.nn.Module):
    """`layer` counts from the end: -1 is the last, None the last one's output as the model gives it."""

    width: int
    positions: int | None

    def embedding(self) -> torch.nn.Module:
        raise NotImplementedError

    def encode(self, tokens: Tokens, layer: int | None, normed: bool) -> Encoded:
        """`normed`: put the chosen layer's output through the final norm."""
        raise NotImplementedError

    def _run(self, model: torch.nn.Module, tokens: Tokens, layer: int | None) -> Any:
        device = self.embedding().weight.device
        # Vectors take the place of a first token, which no model treats specially.
        stand_in = next((token for row in tokens for token in row if not torch.is_tensor(token)), 0)
        ids = [[stand_in if torch.is_tensor(token) else token for token in row] for row in tokens]
        with self._vectors(tokens):
            return model(input_ids=torch.tensor(ids, device=device), output_hidden_states=layer is not None)

    @contextmanager
    def _vectors(self, tokens: Tokens) -> Iterator[None]:
        """Have the token embedding give those vectors where they stand."""
        given = [
            (row, column, token)
            for row, line in enumerate(tokens)
            for column, token in enumerate(line)
            if torch.is_tensor(token)
        ]

        def insert(_module: torch.nn.Module, _args: tuple, output: torch.Tensor) -> torch.Tensor:
            output = output.clone()
            for row, column, vector in given:
                output[row, column] = vector.to(output)
            return output

        if not given:
            yield
            return
        handle = self.embedding().register_forward_hook(insert)
        try:
            yield
        finally:
            handle.remove()


class ClipTower(Tower):
    def __init__(self, config: Mapping[str, Any], projection: tuple[int, ...] | None) -> None:
        """`projection`: the shape of the text projection, where there is one."""
        super().__init__()
        model = build_clip(config)
        self.model = getattr(model, "text_model", model)  # transformers 4 has one more level
        self.text_projection = torch.nn.Linear(*projection[::-1], bias=False) if projection else None
        self.width, self.positions = config["hidden_size"], config["max_position_embeddings"]

    def embedding(self) -> torch.nn.Module:
        return self.model.embeddings.token_embedding

    def encode(self, tokens: Tokens, layer: int | None, normed: bool) -> Encoded:
        output = self._run(self.model, tokens, layer)
        pooled = output.pooler_output
        return Encoded(
            sequence=_layer(output, layer, self.model.final_layer_norm if normed else None),
            pooled=pooled,
            projected=pooled if self.text_projection is None else self.text_projection(pooled),
        )


class T5Tower(Tower):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = build_t5(config)
        self.width, self.positions = config["d_model"], None

    def embedding(self) -> torch.nn.Module:
        return self.model.get_input_embeddings()

    def encode(self, tokens: Tokens, layer: int | None, normed: bool) -> Encoded:
        # Of the last layer transformers gives the normed output only.
        layer = None if layer == -1 else layer
        output = self._run(self.model, tokens, layer)
        return Encoded(_layer(output, layer, self.model.encoder.final_layer_norm if normed else None))


def _layer(output: Any, layer: int | None, norm: Callable | None) -> torch.Tensor:
    """A layer beyond the first counts as None, as in ComfyUI."""
    if layer is None or -layer >= len(output.hidden_states):
        return output.last_hidden_state
    hidden = output.hidden_states[layer]
    return norm(hidden) if norm else hidden


def assemble_clip(config: Mapping[str, Any], weights: Weights, dtype: torch.dtype, name: str) -> ClipTower:
    """`weights` without the part `text_model.`."""
    projection = weights.get("text_projection.weight")
    inner = {
        key if key.startswith("text_projection") else f"model.{key}": entry for key, entry in weights.items()
    }
    return assemble(lambda: ClipTower(config, projection and projection.shape), inner, dtype, name)


def assemble_t5(config: Mapping[str, Any], weights: Weights, dtype: torch.dtype, name: str) -> T5Tower:
    inner = {f"model.{key}": entry for key, entry in weights.items()}
    return assemble(lambda: T5Tower(config), inner, dtype, name)
