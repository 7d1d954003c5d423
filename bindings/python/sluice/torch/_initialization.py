"""torch's initialisation of stages, its words between ranks exchanged through a meeting.

torch blocks in receives there, which neither end with another rank's failure nor name who is missing.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.distributed.pipelining._utils import InferenceMode
from torch.distributed.pipelining.stage import PipelineStage, _PipelineStageBase

from sluice.torch._meeting import Meeting

_VERBS = {True: "trains", False: "evaluates"}


def vote(stages: Sequence[_PipelineStageBase], has_backward: bool, meeting: Meeting) -> None:
    """Shapes come from examples where every stage of the pipeline has them, else from running the stages."""
    manual = [stage for stage in stages if isinstance(stage, PipelineStage)]
    static = not any(InferenceMode.needs_dynamic(stage._user_meta, has_backward) for stage in manual)
    votes = [pickle.loads(each) for each in meeting.all_gather(pickle.dumps((static, has_backward)))]
    for rank, (_, other) in enumerate(votes):
        if other != has_backward:
            raise RuntimeError(
                f"rank {rank} {_VERBS[other]} while rank {meeting.rank} {_VERBS[has_backward]}: all ranks "
                "call step, or all call eval"
            )
    mode = InferenceMode.STATIC if all(each for each, _ in votes) else InferenceMode.DYNAMIC
    for stage in manual:
        stage._inference_mode = mode


@contextlib.contextmanager
def metadata_through(meeting: Meeting, stages: Sequence[_PipelineStageBase]) -> Iterator[None]:
    """Inside, stages on different ranks send each other what they know of shapes through the meeting."""

    def put(source: int, meta: Any, target: int) -> None:
        meeting.put(f"meta/{source}/{target}", pickle.dumps(meta))

    def take(stage: _PipelineStageBase, source: int) -> Any:
        sender = stage.stage_index_to_group_rank[source]
        return pickle.loads(meeting.take(f"meta/{source}/{stage.stage_index}", sender))

    for stage in stages:
        stage._send_meta = functools.partial(put, stage.stage_index)
        stage._recv_meta = functools.partial(take, stage)
    try:
        yield
    finally:
        for stage in stages:
            del stage._send_meta, stage._recv_meta


def spread(stage: _PipelineStageBase, microbatches: int) -> None:
    """From what torch prepared for one microbatch to all of them, without memory for what is to come."""
    stage.chunks = microbatches
    for known in (stage.args_recv_info, stage.grad_recv_info):
        if 0 not in known:
            continue
        drop_buffers(known[0])
        for microbatch in range(1, microbatches):
            known[microbatch] = tuple(copy.copy(info) for info in known[0])


def drop_buffers(infos: Sequence[Any]) -> None:
    """Lets go of what was received, or of what torch allocated ahead for it."""
    for info in infos:
        if not info.is_root_arg and info.buffer is not None:
            info.buffer = torch.empty(0, dtype=info.buffer.dtype, device=info.buffer.device)


def sent_outputs(stage: _PipelineStageBase) -> list[int]:
    """Which of the stage's outputs the next stage takes. Raises RuntimeError for one that goes elsewhere."""
    places = []
    for place, targets in stage.act_send_info.items():
        for target in targets:
            if target is None:
                continue
            if target != stage.stage_index + 1:
                raise RuntimeError(
                    f"stage {stage.stage_index}: output {place} goes to stage {target}; a stage can only feed the "
                    "next one"
                )
            places.append(place)
    return places
