"""Building modules around weights that are already in memory, without allocating or initialising twice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .files import BadFile, Weights

log = logging.getLogger(__name__)


class _Unallocated(TorchFunctionMode):
    """Within it, `torch.empty` (from which layers make their parameters) takes no memory.

    Buffers, which are computed rather than left empty, become real as usual. That is why this is not
    `torch.device("meta")`.
    """

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None):
        kwargs = kwargs or {}
        if func is torch.empty and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": "meta"}
        return func(*args, **kwargs)


def assemble(
    build: Callable[[], torch.nn.Module], weights: Weights, dtype: torch.dtype, name: str
) -> torch.nn.Module:
    """The module that `build` makes, holding `weights` (its own tensor names) in `dtype`, for inference.

    Tensors that have the type already stay where they are (mapped from the file). Raises `BadFile` naming
    `name` where tensors are missing or have another shape; superfluous ones are logged and left out.
    """
    with _Unallocated():
        module = build()
    expected = module.state_dict()
    missing = [key for key in expected if key not in weights]
    if missing:
        raise BadFile(f"{name}: {len(missing)} tensors of this model are missing, such as {missing[0]!r}")
    for key, tensor in expected.items():
        if tuple(tensor.shape) != weights[key].shape:
            found, wanted = list(weights[key].shape), list(tensor.shape)
            raise BadFile(f"{name}: {key!r} has the shape {found}, this model has {wanted}")
    superfluous = [key for key in weights if key not in expected]
    if superfluous:
        log.info("%s: %d tensors are not used, such as %r", name, len(superfluous), superfluous[0])

    def held(key: str) -> torch.Tensor:
        tensor = weights[key].read()
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    module.load_state_dict({key: held(key) for key in expected}, assign=True)
    return module.eval().requires_grad_(False)
