"""The tensor that Megatron says goes from stage to stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from sluice.megatron._groups import Groups


@dataclass(frozen=True)
class Expected:
    """What the caller's arguments say a stage sends. Sluice's messages carry their shapes anyway.

    shape: None where shapes may vary.
    """

    shape: tuple[int, ...] | None
    dtype: torch.dtype | None

    def check(self, output: Any, where: str) -> None:
        """Raises TypeError or ValueError naming the rank, for what Megatron would hang on or corrupt."""
        if not isinstance(output, torch.Tensor):
            raise TypeError(
                f"{where}: forward_step_func gave a {type(output).__name__} to send, not a tensor"
            )
        if self.dtype is not None and output.dtype != self.dtype:
            raise ValueError(f"{where}: the output is {output.dtype}, config.pipeline_dtype is {self.dtype}")
        if self.shape is not None and tuple(output.shape) != self.shape:
            raise ValueError(
                f"{where}: the output has shape {tuple(output.shape)}, but seq_length, micro_batch_size and "
                f"config.hidden_size say {self.shape}; config.variable_seq_lengths=True allows any"
            )


def expected_output(
    config: Any,
    seq_length: int,
    micro_batch_size: int,
    groups: Groups,
    adjust_tensor_shapes_fn: Callable[..., Any] | None,
) -> Expected:
    """What this rank's chunks send. Raises ValueError naming `adjust_tensor_shapes_fn`."""
    dtype = getattr(config, "pipeline_dtype", None)
    if config.variable_seq_lengths or getattr(config, "mtp_standalone", False):
        return Expected(None, dtype)
    length = seq_length // groups.cp.size()
    if config.sequence_parallel:
        length //= groups.tp.size()
    shape = (length, micro_batch_size, config.hidden_size)
    if adjust_tensor_shapes_fn is None:
        return Expected(shape, dtype)
    received, sent = adjust_tensor_shapes_fn([shape], [shape])
    if len(sent) > 1 or len(received) > 1:
        raise ValueError(
            f"adjust_tensor_shapes_fn: gives {len(received)} tensors to receive and {len(sent)} to send; "
            f"one of each at most is supported"
        )
    return Expected(tuple(sent[0]) if sent else None, dtype)
