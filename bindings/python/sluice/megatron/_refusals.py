"""What cannot run in another order than Megatron's, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

# Fields of the configuration, the values that are fine, and why others are not.
_GRAPHS = (
    "its graphs share buffers in the order they were recorded in; "
    "`sluice capture` captures graphs that run in any"
)
_OFF = (None, False)
_FIELDS: list[tuple[str, tuple[Any, ...], str]] = [
    ("cuda_graph_impl", (None, "none"), _GRAPHS),
    ("enable_cuda_graph", _OFF, _GRAPHS),
    ("external_cuda_graph", _OFF, _GRAPHS),
    (
        "overlap_moe_expert_parallel_comm",
        _OFF,
        "it mixes the layers of a forward with those of the backward that Megatron's schedule puts beside it",
    ),
    (
        "fine_grained_activation_offloading",
        _OFF,
        "it brings activations back in the order of Megatron's schedule",
    ),
    (
        "moe_paged_stash",
        _OFF,
        "it records the order of the passes once and expects Megatron's schedule from then on",
    ),
    (
        "defer_embedding_wgrad_compute",
        _OFF,
        "it pairs the last stage's k-th forward with its k-th backward, which may be of another microbatch",
    ),
    ("hybrid_context_parallel", _OFF, "it has a schedule of its own"),
]

_FSDP = frozenset({"FullyShardedDataParallel", "MegatronFSDP", "TorchFullyShardedDataParallel", "FSDPModule"})


def check_config(config: Any) -> None:
    """Raises ValueError naming the field of the configuration."""
    for field, fine, reason in _FIELDS:
        value = getattr(config, field, None)
        if value not in fine:
            raise ValueError(f"config.{field}={value!r} cannot be run by readiness: {reason}")


def check_model(model: Any) -> None:
    """Raises TypeError or ValueError naming what cannot be run."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: a chunk is a {type(model).__name__}, not a torch.nn.Module")
    kind = _attribute(model, "model_type")
    if getattr(kind, "name", None) == "encoder_and_decoder":
        raise ValueError(
            "model_type=encoder_and_decoder: only a chain of stages with one tensor between them is supported"
        )
    for each in model.modules():
        if any(base.__name__ in _FSDP for base in type(each).__mro__):
            raise ValueError(
                f"model: {type(each).__name__} gathers parameters among replicas in each pass, "
                f"in the order of Megatron's schedule; use DistributedDataParallel, a distributed optimizer too"
            )


def check_call(
    config: Any,
    models: Sequence[Any],
    data_iterators: Sequence[Any],
    num_microbatches: int,
    adjust_tensor_shapes_fn: Callable[..., Any] | None,
) -> None:
    """Raises ValueError naming the argument of the call."""
    virtual = getattr(config, "virtual_pipeline_model_parallel_size", None)
    if len(models) != (virtual or 1):
        raise ValueError(
            f"model: {len(models)} chunks, but config.virtual_pipeline_model_parallel_size is {virtual}"
        )
    if len(data_iterators) != len(models):
        raise ValueError(
            f"data_iterator: {len(data_iterators)} iterators for {len(models)} chunks of the model"
        )
    if not isinstance(num_microbatches, int) or num_microbatches < 1:
        raise ValueError(f"num_microbatches: must be a whole number of at least 1, not {num_microbatches!r}")
    if adjust_tensor_shapes_fn is not None and len(models) > 1:
        raise ValueError("adjust_tensor_shapes_fn: not supported with several model chunks a rank")


def _attribute(model: Any, name: str) -> Any:
    """Of the model or of what it wraps; None if there is none."""
    while model is not None:
        if hasattr(model, name):
            return getattr(model, name)
        model = getattr(model, "module", None)
    return None
