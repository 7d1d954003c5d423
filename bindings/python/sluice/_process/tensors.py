"""Tensors on their way to and from the engine, without copies if contiguous and in host memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

# DLPack has no name for these that all versions of torch know: they travel as bytes.
_AS_BYTES = frozenset(
    dtype
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if (dtype := getattr(torch, name, None)) is not None
)


def give(tensors: Iterable[torch.Tensor | None]) -> list[Any]:
    """Capsules of the tensors; None becomes what the engine takes for an absent gradient.

    A tensor in device memory is copied to the host, which waits until it is computed.
    """
    return [to_dlpack(_sendable(tensor)) for tensor in tensors]


def take(
    capsules: Sequence[Any],
    dtypes: Sequence[torch.dtype | None],
    device: torch.device | None = None,
    *,
    maybe_absent: bool = True,
) -> list[torch.Tensor | None]:
    """What `give` was given.

    dtypes: of each tensor, as the sender had it; None where nothing comes.
    device: where the tensors are wanted; None for host memory.
    maybe_absent: they are gradients, none of which is of bytes; False for tensors that are all there.
    """
    if len(capsules) != len(dtypes):
        raise ValueError(f"{len(capsules)} tensors arrived where {len(dtypes)} were expected")
    tensors = [
        _received(from_dlpack(capsule), dtype, maybe_absent) for capsule, dtype in zip(capsules, dtypes)
    ]
    return [tensor if tensor is None or device is None else tensor.to(device) for tensor in tensors]


def _sendable(tensor: torch.Tensor | None) -> torch.Tensor:
    if tensor is None:
        return torch.empty(0, dtype=torch.uint8)
    tensor = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return tensor.view(torch.uint8) if tensor.dtype in _AS_BYTES else tensor


def _received(tensor: torch.Tensor, dtype: torch.dtype | None, maybe_absent: bool) -> torch.Tensor | None:
    if maybe_absent and tensor.dtype == torch.uint8 and tensor.shape == (0,):
        return None
    return tensor.view(dtype) if dtype in _AS_BYTES else tensor
