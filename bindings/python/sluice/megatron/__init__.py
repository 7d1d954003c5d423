"""Readiness-first pipelines for Megatron-Core.

>>> import sluice.megatron
>>> sluice.megatron.install(hint="bf")

After that, `get_forward_backward_func()` gives trainers a function of the same contract as Megatron's
pipeline schedules, which runs whatever is ready, ranked by the hint. Megatron's own code runs each pass.
"""

from sluice.megatron._function import ForwardBackward, forward_backward_func
from sluice.megatron._install import install, uninstall

__all__ = ["ForwardBackward", "forward_backward_func", "install", "uninstall"]
