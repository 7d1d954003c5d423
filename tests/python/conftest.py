"""What the tests of the Python package share. They test the package that is installed."""

import hypothesis
import pytest
import sluice

# The machine may be busy: a slow example is no failure.
hypothesis.settings.register_profile("sluice", deadline=None, max_examples=30, database=None)
hypothesis.settings.load_profile("sluice")

DURATIONS = "f=10ms,b=20ms,w=10ms"


@pytest.fixture
def chain():
    return sluice.Pipeline.chain(stages=4, microbatches=8)


@pytest.fixture
def recorded(chain):
    """A simulated run under 1F1B with late messages, as a trace."""
    return sluice.simulate(chain, "1f1b", durations=DURATIONS, delays="tail:0.3,10", record=True).trace
