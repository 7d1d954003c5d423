"""Data iterators give microbatches in order; forwards take them in any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class FiledData:
    """One data iterator, whose items are fetched in order and filed by microbatch.

    Nothing is fetched that `forward_step_func` does not ask for: an iterator that a rank never reads may be
    endless, empty or None.
    """

    def __init__(self, source: Any, chunk: int, readers: dict[int, int]) -> None:
        self._source = source
        self._chunk = chunk
        self._readers = readers
        self._fetched = 0
        self._items: dict[int, Any] = {}

    def of(self, microbatch: int) -> Any:
        """An iterator that gives the item of this microbatch, once."""
        return None if self._source is None else _OneItem(self, microbatch)

    def take(self, microbatch: int) -> Any:
        reader = self._readers.setdefault(id(self._source), self._chunk)
        if reader != self._chunk:
            raise ValueError(
                f"data_iterator: model chunks {reader} and {self._chunk} read the same iterator; "
                f"each needs its own"
            )
        while self._fetched <= microbatch:
            self._items[self._fetched] = next(self._source)
            self._fetched += 1
        try:
            return self._items.pop(microbatch)
        except KeyError:
            raise RuntimeError(
                f"data_iterator: forward_step_func took a second item for microbatch {microbatch}; "
                f"microbatches run in any order, so each must be one item"
            ) from None


class _OneItem:
    def __init__(self, data: FiledData, microbatch: int) -> None:
        self._data = data
        self._microbatch = microbatch

    def __iter__(self) -> _OneItem:
        return self

    def __next__(self) -> Any:
        return self._data.take(self._microbatch)


def filed(sources: Sequence[Any]) -> list[FiledData]:
    """One a model chunk. Two that read the same iterator would take each other's items: a ValueError."""
    readers: dict[int, int] = {}
    return [FiledData(source, chunk, readers) for chunk, source in enumerate(sources)]
