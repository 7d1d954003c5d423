"""Names for trainers that choose a schedule by its name."""

from __future__ import annotations

import functools
import sys
from typing import Any

from torch.distributed.pipelining import schedules

from sluice.torch._schedule import ReadinessSchedule, ReadinessScheduleSingle


def _with_hint(base: type, name: str, hint: str) -> type:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **{"hint": hint, **kwargs})

    return type(name, (base,), {"__init__": __init__, "__module__": __name__, "__doc__": base.__doc__})


_HINTS = {"": "bf", "BF": "bf", "BFW": "bfw", "FB": "fb"}
_CLASSES = {
    f"readiness{suffix.lower()}{single.lower()}": _with_hint(base, f"Readiness{suffix}{single}", hint)
    for suffix, hint in _HINTS.items()
    for single, base in (("", ReadinessSchedule), ("Single", ReadinessScheduleSingle))
}


def register() -> None:
    """Makes torch's `get_schedule_class` know 'Readiness', 'ReadinessBF', 'ReadinessBFW' and 'ReadinessFB'.

    Each also with 'Single' behind it, for one stage a rank. Modules that imported the function by name see it too.
    """
    known = schedules.get_schedule_class
    if getattr(known, "sluice", False):
        return

    @functools.wraps(known)
    def get_schedule_class(schedule_name: str) -> type:
        found = _CLASSES.get(schedule_name.lower())
        return found if found is not None else known(schedule_name)

    get_schedule_class.sluice = True  # type: ignore[attr-defined]
    for module in list(sys.modules.values()):
        if getattr(module, "get_schedule_class", None) is known:
            module.get_schedule_class = get_schedule_class
