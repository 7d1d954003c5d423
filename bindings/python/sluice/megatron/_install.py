"""Trainers get Sluice's function where they ask Megatron for its."""

from __future__ import annotations

import functools
import sys
from typing import Any

from megatron.core.pipeline_parallel import schedules

from sluice import Hint, Schedule
from sluice.megatron._function import ForwardBackward

_NAME = "get_forward_backward_func"


def install(
    hint: str | Hint | Schedule = "bf",
    limit: int = 32,
    *,
    agree_replicas: bool = False,
    delays: str = "j0",
    seed: int = 0,
    stall_timeout: float = 600.0,
    join_timeout: float = 300.0,
) -> ForwardBackward:
    """Makes Megatron's `get_forward_backward_func()` return what this returns, for more than one stage.

    Modules that imported that name see it too; a trainer that has called it already keeps what it got.
    Installed again, the new settings count.
    The arguments are those of `ForwardBackward`. Raises ValueError naming the argument.
    """
    function = ForwardBackward(
        hint=hint,
        limit=limit,
        agree_replicas=agree_replicas,
        delays=delays,
        seed=seed,
        stall_timeout=stall_timeout,
        join_timeout=join_timeout,
    )
    uninstall()
    original = schedules.get_forward_backward_func

    @functools.wraps(original)
    def get_forward_backward_func(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        return found if found is schedules.forward_backward_no_pipelining else function

    get_forward_backward_func.sluice = original  # type: ignore[attr-defined]
    _replace(original, get_forward_backward_func)
    return function


def uninstall() -> None:
    """Puts Megatron's own function back, wherever `install` has replaced it."""
    installed = schedules.get_forward_backward_func
    original = getattr(installed, "sluice", None)
    if original is not None:
        _replace(installed, original)


def _replace(old: Any, new: Any) -> None:
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(_NAME) is old:
            setattr(module, _NAME, new)
