"""Names for trainers that choose a schedule by its name."""

from __future__ import annotations

import functools
import sys
from typing import Any

from torch.distributed.pipelining import schedules

from sluice.torch._schedule import ReadinessSchedule, ReadinessScheduleSingle

_HINTS = {
    "": "bf",
    "BF": "bf",
    "BFW": "bfw",
    "FB": "fb",
    "BPriority": "b-priority",
    "FPriority": "f-priority",
    "Pace": "pace",
}
_classes: dict[str, type] = {}


def named(name: str, single: bool, options: dict[str, Any]) -> type:
    """A schedule class that `get_schedule_class` finds by this name.

    single: for one stage a rank.
    options: keyword arguments that it is made with unless it is given others; its attribute `options`.
    """
    base = ReadinessScheduleSingle if single else ReadinessSchedule

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **{**options, **kwargs})

    members = {"__init__": __init__, "__module__": __name__, "__doc__": base.__doc__, "options": options}
    found = _classes[name.lower()] = type(name, (base,), members)
    return found


def register() -> None:
    """Makes torch's `get_schedule_class` know 'Readiness', and 'ReadinessBFW' and its like for each hint.

    Each also with 'Single' behind it, for one stage a rank. Modules that imported the function by name see it
    too.
    """
    known = schedules.get_schedule_class
    if getattr(known, "sluice", False):
        return

    @functools.wraps(known)
    def get_schedule_class(schedule_name: str) -> type:
        found = _classes.get(schedule_name.lower())
        return found if found is not None else known(schedule_name)

    get_schedule_class.sluice = True  # type: ignore[attr-defined]
    for module in list(sys.modules.values()):
        if getattr(module, "get_schedule_class", None) is known:
            module.get_schedule_class = get_schedule_class  # type: ignore[attr-defined]


for _suffix, _hint in _HINTS.items():
    named(f"Readiness{_suffix}", False, {"hint": _hint})
    named(f"Readiness{_suffix}Single", True, {"hint": _hint})
