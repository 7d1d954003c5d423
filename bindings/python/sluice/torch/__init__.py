"""Readiness-first schedules for torch.distributed.pipelining.

>>> from sluice.torch import ReadinessSchedule
>>> schedule = ReadinessSchedule(stage, n_microbatches=16, loss_fn=loss_fn, hint="bfw")
>>> schedule.step(x, target=y)

The stages, `step` and `eval` are torch's; what runs next on a rank is whatever is ready there, as the hint
ranks it.
"""

from sluice.torch._registry import register
from sluice.torch._schedule import ReadinessSchedule, ReadinessScheduleSingle

__all__ = ["ReadinessSchedule", "ReadinessScheduleSingle", "register"]
