import pickle

import pytest
import sluice

SUBCLASSES = [
    sluice.ConfigError,
    sluice.TaskError,
    sluice.ProtocolError,
    sluice.StallError,
    sluice.Aborted,
]


@pytest.mark.parametrize("error", SUBCLASSES)
def test_every_error_is_a_sluice_error(error):
    assert issubclass(error, sluice.Error)
    assert issubclass(error, RuntimeError)
    assert error.__module__ == "sluice"
    assert error.__doc__


def test_bad_input_is_a_value_error_that_names_the_field():
    with pytest.raises(ValueError) as caught:
        sluice.Pipeline.chain(stages=0, microbatches=4)
    assert isinstance(caught.value, sluice.ConfigError)
    assert caught.value.field == "stages"
    assert str(caught.value).startswith("stages: ")


def test_an_error_survives_pickling():
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.Hint("none")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.field) == (str(caught.value), "hint")
