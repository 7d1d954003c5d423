"""How the ranks of a process group find each other: through the store that the group was made with.

Every wait is bounded, and ends at once when a rank has told that it failed.
"""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Callable

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from sluice import Aborted

_FAILED = "failed"
_SHORTEST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.05

# How many of its meeting places each group has taken, and how often each place was left after a failure.
_taken: collections.Counter[str] = collections.Counter()
_left: collections.Counter[str] = collections.Counter()


class Meeting:
    """What the ranks of a group exchange at one place.

    All ranks make the same calls in the same order.
    """

    def __init__(self, group: dist.ProcessGroup, name: str, timeout: float) -> None:
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        # One rank has nobody to tell, and its group may have no store that keeps anything.
        store = _get_default_store() if self.ranks > 1 else dist.HashStore()
        self._store = dist.PrefixStore(f"sluice/{name}", store)
        self._timeout = timeout
        self._calls = 0
        self.failure: Callable[[], str | None] = self._told

    def all_gather(self, own: bytes) -> list[bytes]:
        """The bytes of all ranks, in order. Raises TimeoutError naming the ranks that did not come."""
        call, self._calls = self._calls, self._calls + 1
        self._store.set(f"{call}/{self.rank}", own)
        keys = [f"{call}/{rank}" for rank in range(self.ranks)]
        ends = time.monotonic() + self._timeout
        if not all(self._comes(key, ends) for key in keys):
            absent = [str(rank) for rank, key in enumerate(keys) if not self._store.check([key])]
            raise TimeoutError(
                f"{'ranks' if len(absent) > 1 else 'rank'} {', '.join(absent)} of {self.ranks} did not come "
                f"within {self._timeout:g} s (join_timeout)"
            )
        gathered = [self._store.get(key) for key in keys]
        if call > 0:  # everybody has read it
            self._store.delete_key(f"{call - 1}/{self.rank}")
        return gathered

    def put(self, key: str, value: bytes) -> None:
        """For one `take` by another rank."""
        self._store.set(key, value)

    def take(self, key: str, sender: int) -> bytes:
        """What the sender has `put` there. Raises TimeoutError naming it."""
        if not self._comes(key, time.monotonic() + self._timeout):
            raise TimeoutError(f"rank {sender} sent nothing within {self._timeout:g} s (join_timeout)")
        value = self._store.get(key)
        self._store.delete_key(key)
        return value

    def fail(self, cause: str) -> None:
        """Ends the waits of all ranks that are here or will come."""
        self._store.set(_FAILED, f"rank {self.rank}: {cause}")

    def _told(self) -> str | None:
        return self._store.get(_FAILED).decode() if self._store.check([_FAILED]) else None

    def _comes(self, key: str, ends: float) -> bool:
        pause = _SHORTEST_PAUSE
        while not self._store.check([key]):
            cause = self.failure()
            # Who failed over what all have said had heard it: this rank is to find the same.
            if cause is not None and not self._store.check([key]):
                raise Aborted(cause)
            if time.monotonic() > ends:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True


class MeetingPlace:
    """Where the ranks that share a schedule meet: for the first step, and anew after a failure.

    The n-th schedule of a group that is stepped meets at the n-th place, so ranks use them in one order.
    """

    def __init__(self, group: dist.ProcessGroup | None, timeout: float) -> None:
        self._group = group
        self._timeout = timeout
        self._name: str | None = None

    def meeting(self) -> Meeting:
        group = self._group if self._group is not None else dist.group.WORLD
        if self._name is None:
            ranks = "-".join(map(str, dist.get_process_group_ranks(group)))
            self._name = f"{ranks}/{_taken[ranks]}"
            _taken[ranks] += 1
        return Meeting(group, f"{self._name}/{_left[self._name]}", self._timeout)

    def leave(self, cause: str | None) -> None:
        """After a failure, of which all ranks hear; the next meeting is another one.

        cause: what the others are told, None if they know.
        """
        if cause is not None and dist.is_available() and dist.is_initialized():
            with contextlib.suppress(RuntimeError):  # a store that is gone: so are the others
                self.meeting().fail(cause)
        if self._name is not None:
            _left[self._name] += 1

    def refuse(self, cause: str) -> None:
        """This rank has no schedule to come with: the others are told. Its next one meets them there."""
        self.leave(cause)
        if self._name is not None:
            _taken[self._name.rpartition("/")[0]] -= 1
