"""`forward_backward_func`: Megatron's contract, run by readiness."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.utils import get_model_config

from sluice import Hint, Schedule
from sluice._process.arguments import check_limit, whole_backwards
from sluice.megatron._connection import Connection, Options
from sluice.megatron._data import filed
from sluice.megatron._groups import Groups, device_of, grid_of, groups_of
from sluice.megatron._microbatches import Call, Microbatches
from sluice.megatron._parameter_sync import ParameterSync
from sluice.megatron._refusals import check_call, check_config, check_model
from sluice.megatron._shapes import expected_output


class ForwardBackward:
    """A function of the contract of Megatron's pipeline schedules, with settings of its own.

    hint: ranks what is ready: 'bf', 'fb', 'b-priority', 'f-priority' or a `sluice.Hint`; or a
    `sluice.Schedule`, whose order is then kept.
    limit: most microbatches in flight on a rank; with several model chunks, each may hold one more.
    agree_replicas: data-parallel replicas run the same tasks in the same order, as tensor- and
    context-parallel ranks always do. For passes that communicate among replicas, such as a loss that is
    averaged for each microbatch; expert parallelism turns it on.
    delays: adds to the latency of messages, as `sluice.simulate` takes them; for experiments.
    stall_timeout: seconds without progress on any rank after which all raise. A rank that is late with its
    call, for it writes a checkpoint, lets the others wait.
    join_timeout: seconds that the first call waits for the other ranks.
    Raises ValueError naming the argument.
    """

    def __init__(
        self,
        *,
        hint: str | Hint | Schedule = "bf",
        limit: int = 32,
        agree_replicas: bool = False,
        delays: str = "j0",
        seed: int = 0,
        stall_timeout: float = 600.0,
        join_timeout: float = 300.0,
    ) -> None:
        check_limit(limit)
        method = whole_backwards(
            hint,
            "places weight gradients apart from input gradients, but Megatron's layers compute both in one pass",
        )
        self._options = Options(method, limit, delays, seed, stall_timeout, join_timeout)
        self._agree_replicas = agree_replicas
        self._connections: dict[Any, Connection] = {}
        self._checked: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self.last_step: dict[str, Any] = {}
        _functions.add(self)

    def __call__(
        self,
        *,
        forward_step_func: Callable[..., Any],
        data_iterator: Any,
        model: Any,
        num_microbatches: int,
        seq_length: int,
        micro_batch_size: int,
        decoder_seq_length: int | None = None,
        forward_only: bool = False,
        collect_non_loss_data: bool = False,
        first_val_step: bool | None = None,
        adjust_tensor_shapes_fn: Callable[..., Any] | None = None,
        p2p_communicator: Any = None,
        pg_collection: Any = None,
        force_all_reduce: bool | None = False,
    ) -> list[Any]:
        """As Megatron's functions, with or without interleaving: by the number of chunks in `model`.

        Returns what `loss_func` gave for each microbatch, in order, on the rank with the last chunk; else [].
        Raises ValueError or TypeError naming the argument or the field of the configuration; what the passes
        raised here; sluice.Aborted, sluice.StallError or sluice.ConfigError naming the rank at fault, counted
        in the pipeline. After an error that all ranks have raised, the function can be called again.
        """
        models = _several(model)
        with self._telling():
            config = self._check(models)
            groups = groups_of(p2p_communicator, pg_collection)
            if groups.stages == 1:
                raise ValueError("the pipeline has one stage: use Megatron's forward_backward_no_pipelining")

        def make_work() -> Microbatches:
            iterators = _several(data_iterator)
            check_call(config, models, iterators, num_microbatches, adjust_tensor_shapes_fn)
            length = seq_length if decoder_seq_length is None or len(models) > 1 else decoder_seq_length
            call = Call(
                forward_step_func=forward_step_func,
                config=config,
                models=models,
                data=filed(iterators),
                num_microbatches=num_microbatches,
                groups=groups,
                forward_only=forward_only,
                collect_non_loss_data=collect_non_loss_data,
                first_val_step=first_val_step,
                expected=expected_output(config, length, micro_batch_size, groups, adjust_tensor_shapes_fn),
                device=device_of(models[0]),
            )
            sync = ParameterSync(config, models, num_microbatches, groups.stage == 0, forward_only)
            return Microbatches(call, sync, torch.zeros([], dtype=torch.int, device=call.device))

        with _timed(config):
            work = self._run(self._connection(groups, config), make_work)
            if config.finalize_model_grads_func is not None and not forward_only:
                config.finalize_model_grads_func(
                    models,
                    work.tokens if config.calculate_per_token_loss else None,
                    pg_collection=groups.collection,
                    force_all_reduce=force_all_reduce,
                )
        return [work.data_store[microbatch] for microbatch in sorted(work.data_store)]

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """The ranks of earlier calls, which may wait for this one, hear of an error that keeps it away."""
        try:
            yield
        except Exception as error:
            for connection in self._connections.values():
                connection.give_up(f"{type(error).__name__}: {error}")
                connection.close()
            raise

    def _check(self, models: list[Any]) -> Any:
        """The configuration."""
        if not models:
            raise ValueError("model: has no chunks")
        for each in models:
            if each not in self._checked:
                check_model(each)
                self._checked.add(each)
        config = get_model_config(models[0])
        check_config(config)
        return config

    def _connection(self, groups: Groups, config: Any) -> Connection:
        share_experts = (getattr(config, "expert_model_parallel_size", 1) or 1) > 1
        with_replicas = self._agree_replicas or share_experts
        ranks = [tuple(dist.get_process_group_ranks(each)) for each in (groups.pp, groups.tp, groups.cp)]
        key = (*ranks, with_replicas)
        if key not in self._connections:
            grid = grid_of(groups, with_replicas, self._options.join_timeout)
            self._connections[key] = Connection(grid, groups.stages, self._options)
        return self._connections[key]

    def _run(self, connection: Connection, make_work: Callable[[], Microbatches]) -> Microbatches:
        try:
            work = make_work()
            work.sync.begin()
        except BaseException as error:
            connection.refuse(f"{type(error).__name__}: {error}")
            connection.close()
            raise
        try:
            call = work.call
            self.last_step = connection.run(work, call.num_microbatches, len(call.models), call.forward_only)
        except BaseException as error:
            connection.give_up(f"{type(error).__name__}: {error}")
            connection.close()
            raise
        finally:
            work.sync.end()
        return work

    def close(self) -> None:
        """Leaves the other ranks in order; all ranks do. A later call meets them again."""
        for connection in self._connections.values():
            connection.close()


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


@contextlib.contextmanager
def _timed(config: Any) -> Iterator[None]:
    if config.timers is None:
        yield
        return
    config.timers("forward-backward", log_level=1).start(barrier=config.barrier_with_L1_time)
    yield
    config.timers("forward-backward").stop()


_functions: weakref.WeakSet[ForwardBackward] = weakref.WeakSet()

forward_backward_func = ForwardBackward()


@atexit.register
def _close_all() -> None:
    for function in list(_functions):
        function.close()
