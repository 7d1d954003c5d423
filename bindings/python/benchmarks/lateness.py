"""Late messages for methods that use torch.distributed: the engine's delays on somebody else's transport.

A sender notes when it hands a message over, in memory that all ranks share (they are processes of one
machine, with one monotonic clock), and is not held up. The receiver has the message at the later of two
times: when it is really there, and the sender's time plus the delay that the engine's own model draws for
this iteration, edge, direction and microbatch. In between, its wait sleeps.
"""

from __future__ import annotations

import itertools
import mmap
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Tuple

import torch.distributed as dist

from sluice._engine import MessageDelays

ACTIVATION, GRADIENT = 0, 1
Message = Tuple[int, int, int]
"""Direction, edge (from chunk `edge` to the next), microbatch."""

_BYTES = 8


class Lateness:
    """edges: at most; microbatches: at most. Made before the ranks are forked."""

    def __init__(self, edges: int, microbatches: int) -> None:
        self._edges, self._microbatches = edges, microbatches
        memory = mmap.mmap(-1, max(1, 2 * edges * microbatches) * _BYTES)
        self._handed_over = memoryview(memory).cast("d")
        self._delays: MessageDelays | None = None
        self.iteration = 0

    def draw_from(self, delays: MessageDelays) -> None:
        self._delays = delays

    def sends(self, message: Message) -> None:
        self._handed_over[self._place(message)] = time.monotonic()

    def received(self, message: Message) -> None:
        """Returns when the message counts as received."""
        direction, edge, microbatch = message
        delay = self._delays.draw(self.iteration, edge, direction == GRADIENT, microbatch)
        if delay == 0:
            return
        left = self._handed_over[self._place(message)] + delay - time.monotonic()
        if left > 0:
            time.sleep(left)

    def _place(self, message: Message) -> int:
        direction, edge, microbatch = message
        return (direction * self._edges + edge) * self._microbatches + microbatch


class LateWork:
    """A receive whose message may be late."""

    def __init__(self, work: Any, late: Lateness, message: Message) -> None:
        self._work, self._late, self._message = work, late, message

    def wait(self, *args: Any) -> Any:
        done = self._work.wait(*args)
        self._late.received(self._message)
        return done


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` is what `make` makes of it."""
    kept = getattr(owner, name)
    setattr(owner, name, make(kept))
    try:
        yield
    finally:
        setattr(owner, name, kept)


@contextmanager
def late_in_torch(late: Lateness) -> Iterator[None]:
    """All messages of torch's schedules go through `_batch_p2p`; the stages' methods know which is which."""
    from torch.distributed.pipelining import schedules, stage

    def named(direction: int, edge_before: bool) -> Callable[[Any], Any]:
        def make(get_ops: Any) -> Any:
            def named_ops(self: Any, microbatch: int) -> list[Any]:
                ops = get_ops(self, microbatch)
                for op in ops:
                    op.message = (direction, self.stage_index - int(edge_before), microbatch)
                return ops

            return named_ops

        return make

    def make_batch(batch_p2p: Any) -> Any:
        def late_batch(ops: list[Any], desc: str | None = None) -> list[Any]:
            for op in ops:
                if op.op is dist.isend:
                    late.sends(op.message)
            works = batch_p2p(ops, desc)
            return [
                LateWork(work, late, op.message) if op.op is dist.irecv else work
                for work, op in zip(works, ops)
            ]

        return late_batch

    base = stage._PipelineStageBase
    with ExitStack() as undone:
        for owner, name, make in (
            (base, "get_fwd_recv_ops", named(ACTIVATION, True)),
            (base, "get_fwd_send_ops", named(ACTIVATION, False)),
            (base, "get_bwd_recv_ops", named(GRADIENT, False)),
            (base, "get_bwd_send_ops", named(GRADIENT, True)),
            (schedules, "_batch_p2p", make_batch),
        ):
            undone.enter_context(replaced(owner, name, make))
        yield


@contextmanager
def late_in_megatron(late: Lateness, rank: int, ranks: int, chunks: int, microbatches: int) -> Iterator[None]:
    """All messages go through two functions of `p2p_communication`, in the order of the schedule table.

    chunks: on each rank.
    """
    from megatron.core.pipeline_parallel import p2p_communication

    def order(direction: int, sender: int) -> Iterator[Message]:
        """What a rank sends, of the messages that leave it."""
        last = ranks * chunks - 1
        for place in range(microbatches * chunks):
            group, within = divmod(place, ranks * chunks)
            chunk, microbatch = within // ranks, group * ranks + within % ranks
            if chunks == 1:
                chunk, microbatch = 0, place
            if direction == ACTIVATION and (index := chunk * ranks + sender) != last:
                yield ACTIVATION, index, microbatch
            if direction == GRADIENT and (index := (chunks - 1 - chunk) * ranks + sender) != 0:
                yield GRADIENT, index - 1, microbatch

    before, after = (rank - 1) % ranks, (rank + 1) % ranks
    orders = {
        "send_next": order(ACTIVATION, rank),
        "send_prev": order(GRADIENT, rank),
        "recv_prev": order(ACTIVATION, before),
        "recv_next": order(GRADIENT, after),
    }
    # The order in which `_batched_p2p_ops` returns what it started.
    names = ("send_prev", "recv_prev", "send_next", "recv_next")

    def make(start: Any) -> Any:
        def late_start(**kwargs: Any) -> Any:
            started = [name for name in names if kwargs[f"tensor_{name}"] is not None]
            messages = {name: next(orders[name]) for name in started}
            for name in started:
                if name.startswith("send"):
                    late.sends(messages[name])
            works = start(**kwargs)

            def wrapped(name: str, work: Any) -> Any:
                return LateWork(work, late, messages[name]) if name.startswith("recv") else work

            if isinstance(works, dict):
                return {name: wrapped(name, work) for name, work in works.items()}
            return [wrapped(name, work) for name, work in zip(started, works)]

        return late_start

    with replaced(p2p_communication, "_batched_p2p_ops", make), replaced(p2p_communication, "_p2p_ops", make):
        yield


@contextmanager
def late_in_deepspeed(late: Lateness, rank: int) -> Iterator[None]:
    """All messages go through `p2p.send` and `p2p.recv`, in microbatch order, but for integers: shapes."""
    from deepspeed.runtime.pipe import p2p

    counts: dict[tuple[str, int], Iterator[int]] = defaultdict(itertools.count)

    def message(way: str, other: int) -> Message:
        direction = ACTIVATION if (other > rank) == (way == "send") else GRADIENT
        return direction, min(rank, other), next(counts[way, other])

    def make_send(send: Any) -> Any:
        def late_send(tensor: Any, stage: int, async_op: bool = False) -> Any:
            if tensor.is_floating_point():
                late.sends(message("send", stage))
            return send(tensor, stage, async_op)

        return late_send

    def make_receive(receive: Any) -> Any:
        def late_receive(tensor: Any, stage: int, async_op: bool = False) -> Any:
            done = receive(tensor, stage, async_op)
            if tensor.is_floating_point():
                late.received(message("recv", stage))
            return done

        return late_receive

    with replaced(p2p, "send", make_send), replaced(p2p, "recv", make_receive):
        yield
