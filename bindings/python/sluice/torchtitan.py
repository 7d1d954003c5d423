"""Readiness-first pipelines in torchtitan, whose files stay as they are.

In a config module of one's own, which `--module` finds:

>>> import sluice.torchtitan
>>> from torchtitan.models.llama3.config_registry import llama3_8b
>>> def llama3_8b_readiness():
...     config = llama3_8b()
...     config.model_spec = sluice.torchtitan.readiness_first(config.model_spec, hint="bf", limit=16)
...     return config

Importing this module also makes 'Readiness', 'ReadinessBFW' and the other names of `sluice.torch.register`
known to `parallelism.pipeline_parallel_schedule`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

from torch.distributed.pipelining import ScheduleDualPipeV, ScheduleZBVZeroBubble, schedules
from torch.distributed.pipelining.schedules import PipelineScheduleSingle
from torchtitan.distributed import pipeline_parallel

from sluice.torch import register
from sluice.torch._registry import named

__all__ = ["pipeline_llm", "pipeline_vlm", "pipelining", "readiness_first"]

_PLACED_IN_A_V = (ScheduleZBVZeroBubble, ScheduleDualPipeV)

Spec = TypeVar("Spec")

register()


def pipelining(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A `pipelining_fn` that splits the model as this one does and runs it readiness-first.

    The stages of a rank follow from `config.parallelism` as ever. A schedule that
    `parallelism.pipeline_parallel_schedule` names only tells how many they are by default: one, or two with
    'Interleaved1F1B' and its like; its order is not kept. The file of `pipeline_parallel_schedule_csv`
    becomes the hint.
    options: of `sluice.torch.ReadinessSchedule`: hint, limit, stall_timeout, join_timeout. They go before the
    hint of a name such as 'ReadinessBFW'.
    Calling the function raises ValueError for a schedule whose stages are placed in a V.
    """

    @functools.wraps(function)
    def run(model: Any, *, parallel_dims: Any, parallelism: Any, model_config: Any, **rest: Any) -> Any:
        return function(
            model,
            parallel_dims=parallel_dims,
            parallelism=_with_readiness(parallelism, parallel_dims.pp, model_config, options),
            model_config=model_config,
            **rest,
        )

    return run


def readiness_first(model_spec: Spec, **options: Any) -> Spec:
    """A copy of a torchtitan `ModelSpec` whose pipeline runs readiness-first.

    options: as `pipelining` has them.
    Raises ValueError for a model that torchtitan has no pipelining for.
    """
    if model_spec.pipelining_fn is None:  # type: ignore[attr-defined]
        raise ValueError(f"model_spec: {model_spec.name} has no pipelining_fn")  # type: ignore[attr-defined]
    run = pipelining(model_spec.pipelining_fn, **options)  # type: ignore[attr-defined]
    return dataclasses.replace(model_spec, pipelining_fn=run)  # type: ignore[type-var]


pipeline_llm = pipelining(pipeline_parallel.pipeline_llm)
pipeline_vlm = pipelining(pipeline_parallel.pipeline_vlm)


def _with_readiness(parallelism: Any, ranks: int, model_config: Any, options: dict[str, Any]) -> Any:
    asked = schedules.get_schedule_class(parallelism.pipeline_parallel_schedule)
    if asked in _PLACED_IN_A_V:
        raise ValueError(
            f"pipeline_parallel_schedule: {parallelism.pipeline_parallel_schedule} places stages in a V, and "
            "torchtitan knows that of this name only; use Interleaved1F1B, or ReadinessBFW to split backwards"
        )
    options = {**getattr(asked, "options", {"hint": "bf"}), **_of_file(parallelism), **options}
    single = _stages_per_rank(parallelism, ranks, model_config, asked) == 1
    described = ",".join(f"{name}={value}" for name, value in options.items())
    name = f"Readiness{'Single' if single else ''}({described})"
    named(name, single, options)
    return dataclasses.replace(
        parallelism, pipeline_parallel_schedule=name, pipeline_parallel_schedule_csv=""
    )


def _of_file(parallelism: Any) -> dict[str, Any]:
    path = parallelism.pipeline_parallel_schedule_csv
    return {"hint": path} if path else {}


def _stages_per_rank(parallelism: Any, ranks: int, model_config: Any, asked: type) -> float:
    """As torchtitan counts them, to know which of the two classes it will take them for."""
    if parallelism.module_fqns_per_model_part is not None:
        return float(len(parallelism.module_fqns_per_model_part) / ranks)
    per_stage = parallelism.pipeline_parallel_layers_per_stage
    if per_stage is None:
        return 1 if issubclass(asked, PipelineScheduleSingle) else 2
    layers = (
        len(model_config.layers)
        + parallelism.pipeline_parallel_first_stage_less_layers
        + parallelism.pipeline_parallel_last_stage_less_layers
    )
    return float(math.ceil(layers / per_stage) / ranks)
