"""Tensors on their way to and from the engine, without copies where they are contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

# DLPack has no name for these that all versions of torch know: they travel as bytes.
_AS_BYTES = frozenset(
    dtype
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if (dtype := getattr(torch, name, None)) is not None
)


def give(tensors: Sequence[torch.Tensor | None]) -> list[Any]:
    """Capsules of the tensors; None becomes what the engine takes for an absent gradient."""
    return [to_dlpack(_sendable(tensor)) for tensor in tensors]


def take(capsules: Sequence[Any], dtypes: Sequence[torch.dtype | None]) -> list[torch.Tensor | None]:
    """What `give` was given.

    dtypes: of each tensor, as the sender had it; None where nothing comes.
    """
    if len(capsules) != len(dtypes):
        raise ValueError(f"{len(capsules)} tensors arrived where {len(dtypes)} were expected")
    return [_received(from_dlpack(capsule), dtype) for capsule, dtype in zip(capsules, dtypes)]


def _sendable(tensor: torch.Tensor | None) -> torch.Tensor:
    if tensor is None:
        return torch.empty(0, dtype=torch.uint8)
    tensor = tensor.detach().contiguous()
    return tensor.view(torch.uint8) if tensor.dtype in _AS_BYTES else tensor


def _received(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor | None:
    if tensor.dtype == torch.uint8 and tensor.shape == (0,):
        return None
    return tensor.view(dtype) if dtype in _AS_BYTES else tensor
