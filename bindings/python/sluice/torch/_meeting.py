"""How the ranks of a process group find each other: through the store that the group was made with."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

_meetings = itertools.count()
_ANY_PORT = 9  # connecting a datagram socket picks the interface only


def all_gather(group: dist.ProcessGroup) -> Callable[[bytes], list[bytes]]:
    """An all-gather of bytes among the group's ranks. All ranks of the group make it at the same time."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    name = "-".join(str(each) for each in dist.get_process_group_ranks(group))
    store = dist.PrefixStore(f"sluice/{name}/{next(_meetings)}", _get_default_store())
    calls = itertools.count()

    def gather(own: bytes) -> list[bytes]:
        call = next(calls)
        store.set(f"{call}/{rank}", own)
        return [store.get(f"{call}/{each}") for each in range(ranks)]

    return gather


def host_of_rank_zero(gather: Callable[[bytes], list[bytes]]) -> str:
    """An address of rank 0's host that the group's ranks can connect to."""
    hosts = [each.decode().split("\n") for each in gather(f"{socket.gethostname()}\n{_own_address()}".encode())]
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
