"""Readiness-first pipeline-parallel training.

>>> import sluice
>>> model = sluice.Pipeline.chain(stages=8, microbatches=64)
>>> sluice.simulate(model, "bfw", durations="f=10ms,b=20ms,w=10ms", delays="tail:0.3,10").makespan
2.04...

Times are seconds, or texts such as '10ms'; errors are subclasses of `sluice.Error`.
"""

from sluice._comparison import Comparison, compare
from sluice._engine import (
    Aborted,
    ConfigError,
    Durations,
    Error,
    Hint,
    Pipeline,
    Prediction,
    ProtocolError,
    Scenario,
    Schedule,
    SimulatedRun,
    StallError,
    Task,
    TaskError,
    Trace,
    build_info,
    simulate,
)

__version__: str = build_info()["version"]

__all__ = [
    "Aborted",
    "Comparison",
    "ConfigError",
    "Durations",
    "Error",
    "Hint",
    "Pipeline",
    "Prediction",
    "ProtocolError",
    "Scenario",
    "Schedule",
    "SimulatedRun",
    "StallError",
    "Task",
    "TaskError",
    "Trace",
    "__version__",
    "build_info",
    "compare",
    "simulate",
]
