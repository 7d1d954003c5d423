"""Ranks of a process group as forked processes, which have torch imported already."""

import multiprocessing
import os
import pickle
import sys
import time
import traceback

import torch
import torch.distributed as dist

_fork = multiprocessing.get_context("fork")


class RankFailed(AssertionError):
    """A rank that raised, ended early or did not end in time; its text is the rank's own."""


def run_ranks(ranks, function, *args, timeout=120, dead=(), **kwargs):
    """What `function(*args, **kwargs)` returned on each rank, in a gloo group that is the default one.

    dead: ranks that are expected to end without a result, which is None then.
    The caller must not have run a backward: autograd's threads do not survive the fork.
    """
    store, port = _start_store()
    readers, processes = [], []
    for rank in range(ranks):
        reader, writer = _fork.Pipe(duplex=False)
        process = _fork.Process(target=_run, args=(rank, ranks, port, writer, function, args, kwargs))
        process.start()
        writer.close()
        readers.append(reader)
        processes.append(process)
    try:
        ends = time.monotonic() + timeout
        return [_result_of(rank, reader, ends, rank in dead) for rank, reader in enumerate(readers)]
    finally:
        for process in processes:
            process.join(0 if sys.exc_info()[0] else 30)
            if process.is_alive():
                process.kill()
                process.join()
        store.kill()
        store.join()


def _start_store():
    """A process that has the store, and its port.

    The process that forks may have no other threads: what their locks are at the fork, they stay in the child.
    """
    reader, writer = _fork.Pipe(duplex=False)
    process = _fork.Process(target=_have_store, args=(writer,), daemon=True)
    process.start()
    writer.close()
    if not reader.poll(60):
        process.kill()
        raise RankFailed("the store did not come up in time")
    return process, reader.recv()


def _have_store(writer):
    parent = os.getppid()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    writer.send(store.port)
    while os.getppid() == parent:
        time.sleep(1)


def _run(rank, ranks, port, writer, function, args, kwargs):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1")
    dist.init_process_group(
        "gloo", store=dist.TCPStore("127.0.0.1", port, is_master=False), rank=rank, world_size=ranks
    )
    try:
        outcome = (True, function(*args, **kwargs))
    except BaseException:  # noqa: BLE001 - it is told to the test
        outcome = (False, traceback.format_exc())
    writer.send_bytes(pickle.dumps(outcome))
    writer.close()
    dist.destroy_process_group()


def _result_of(rank, reader, ends, may_be_dead):
    if not reader.poll(max(0.0, ends - time.monotonic())):
        raise RankFailed(f"rank {rank} did not end in time")
    try:
        good, result = pickle.loads(reader.recv_bytes())
    except EOFError:
        if may_be_dead:
            return None
        raise RankFailed(f"rank {rank} ended without a result") from None
    if not good:
        raise RankFailed(f"rank {rank}: {result}")
    return result
