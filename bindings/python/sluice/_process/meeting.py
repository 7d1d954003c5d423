"""How ranks of torch.distributed find each other: through the store that its default group was made with."""

from __future__ import annotations

import collections
import itertools
import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

# By who meets, as ranks may have met others in between.
_meetings: collections.Counter[str] = collections.Counter()
_ANY_PORT = 9  # connecting a datagram socket picks the interface only

Gather = Callable[[bytes], "list[bytes]"]


def all_gather(group: dist.ProcessGroup, timeout: float = 300.0) -> Gather:
    """An all-gather of bytes among the group's ranks. All ranks of the group make it at the same time."""
    return all_gather_among(dist.get_process_group_ranks(group), timeout)


def all_gather_among(ranks: Sequence[int], timeout: float = 300.0) -> Gather:
    """As `all_gather`, among these ranks of the default group, in this order.

    timeout: seconds that a call waits for the last rank; it then raises TimeoutError naming the missing.
    """
    if len(ranks) == 1:
        return lambda own: [own]
    place = list(ranks).index(dist.get_rank())
    name = "-".join(str(each) for each in ranks)
    meeting = _meetings[name]
    _meetings[name] += 1
    store = dist.PrefixStore(f"sluice/{name}/{meeting}", _get_default_store())
    calls = itertools.count()

    def gather(own: bytes) -> list[bytes]:
        call = next(calls)
        store.set(f"{call}/{place}", own)
        ends = time.monotonic() + timeout
        keys = [f"{call}/{each}" for each in range(len(ranks))]
        missing = [rank for rank, key in zip(ranks, keys) if not _comes(store, key, ends)]
        if missing:
            raise TimeoutError(
                f"ranks {missing} of {list(ranks)} did not come to the meeting within {timeout:g} s"
            )
        return [store.get(key) for key in keys]

    return gather


def _comes(store: dist.Store, key: str, ends: float) -> bool:
    try:
        store.wait([key], timedelta(seconds=max(0.001, ends - time.monotonic())))
    except dist.DistError:
        return store.check([key])
    return True


def host_of_rank_zero(gather: Gather) -> str:
    """An address of the first rank's host that the others can connect to."""
    hosts = [
        each.decode().split("\n") for each in gather(f"{socket.gethostname()}\n{_own_address()}".encode())
    ]
    if all(name == hosts[0][0] for name, _ in hosts):
        return "127.0.0.1"
    return hosts[0][1]


def _own_address() -> str:
    """This host's address on the way to where the ranks met."""
    master = os.environ.get("MASTER_ADDR", "")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((master, _ANY_PORT))
            return str(way.getsockname()[0])
    except OSError:
        return socket.gethostbyname(socket.gethostname())
