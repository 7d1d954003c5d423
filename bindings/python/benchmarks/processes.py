"""Ranks as forked processes of this machine, in a gloo group, that start each measured run at one moment."""

from __future__ import annotations

import gc
import mmap
import multiprocessing
import multiprocessing.connection
import os
import pickle
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from emulation import sharpen_sleeps

_fork = multiprocessing.get_context("fork")
_LEAD_SECONDS = 0.002
_MEET_SECONDS = 300
_PREFERRED = -20


class StartLine:
    """Ranks meet here, and all start when the first says. Made before the fork."""

    def __init__(self, ranks: int) -> None:
        self._barrier = _fork.Barrier(ranks)
        self._starts = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")

    def wait(self, rank: int) -> float:
        """The moment of the start, in the time of `time.monotonic`. It is now."""
        self._barrier.wait(_MEET_SECONDS)
        if rank == 0:
            self._starts[0] = time.monotonic() + _LEAD_SECONDS
        self._barrier.wait(_MEET_SECONDS)
        starts = self._starts[0]
        time.sleep(max(0.0, starts - time.monotonic()))
        return starts


def calm_gloo_threads() -> None:
    """gloo's own threads spin while a message is on its way; where cores are few they then hold others up.

    So they run when no thread of a rank wants the core, which makes the methods that use gloo faster here.
    """
    preferred = os.getpriority(os.PRIO_PROCESS, 0) == _PREFERRED
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as name:
                if not name.read().startswith("gloo_tcp_loop"):
                    continue
            if preferred:  # the idle policy would put them behind other processes too
                os.setpriority(os.PRIO_PROCESS, int(thread), _PREFERRED // 2)
            else:
                os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended


def prefer_this_process() -> None:
    """To all others of the machine, with those that it starts. Needs the right to."""
    os.setpriority(os.PRIO_PROCESS, 0, _PREFERRED)


def run_ranks(ranks: int, function: Callable[..., Any], *args: Any, timeout: float) -> list[Any]:
    """What `function(rank, *args)` returned on each rank. Ranks may print on standard error only.

    The caller must not have run a backward: autograd's threads do not survive the fork.
    Raises RuntimeError with a rank's own text, or naming one that did not end in `timeout` seconds.
    """
    # A collection would walk all that was imported, and copy every page of it that parent and ranks share.
    gc.collect()
    gc.freeze()
    # The store has threads, whose locks a fork would copy as they are: it has a process of its own.
    store, port_of_store = _start(_serve_store)
    if not port_of_store.poll(_MEET_SECONDS):
        raise RuntimeError("the store did not come up")
    port = port_of_store.recv()
    started = [_start(_run, rank, ranks, port, function, args) for rank in range(ranks)]
    ends = time.monotonic() + timeout
    try:
        waiting = {reader: rank for rank, (_, reader) in enumerate(started)}
        results: list[Any] = [None] * ranks
        while waiting:
            ready = multiprocessing.connection.wait(list(waiting), max(0.0, ends - time.monotonic()))
            if not ready:
                raise RuntimeError(f"ranks {sorted(waiting.values())} did not end in {timeout} s")
            for reader in ready:
                rank = waiting.pop(reader)
                results[rank] = _received(rank, reader)
        return results
    finally:
        for process, _ in started:
            process.join(0 if sys.exc_info()[0] else 30)
            if process.is_alive():
                process.kill()
                process.join()
        store.kill()
        store.join()


def _start(run: Callable[..., None], *args: Any) -> tuple[Any, Any]:
    """A forked process that runs `run(writer, *args)`, and the other end of its pipe."""
    reader, writer = _fork.Pipe(duplex=False)
    process = _fork.Process(target=run, args=(writer, *args), daemon=True)
    process.start()
    writer.close()
    return process, reader


def _serve_store(writer: Any) -> None:
    parent = os.getppid()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    writer.send(store.port)
    while os.getppid() == parent:
        time.sleep(1)


def _run(
    writer: Any, rank: int, ranks: int, port: int, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    sharpen_sleeps()
    # What libraries print and warn about themselves would hide the progress.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group(
        "gloo", store=dist.TCPStore("127.0.0.1", port, is_master=False), rank=rank, world_size=ranks
    )
    try:
        outcome = (True, function(rank, *args))
    except BaseException:  # noqa: BLE001 - it is told to the caller
        outcome = (False, traceback.format_exc())
    # Not `send`, through which torch would share its tensors' memory with a process that soon ends.
    writer.send_bytes(pickle.dumps(outcome))
    writer.close()
    dist.destroy_process_group()


def _received(rank: int, reader: Any) -> Any:
    try:
        good, result = pickle.loads(reader.recv_bytes())
    except EOFError:
        raise RuntimeError(f"rank {rank} ended without a result") from None
    if not good:
        raise RuntimeError(f"rank {rank}: {result}")
    return result
