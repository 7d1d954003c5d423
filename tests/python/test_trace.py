import json
import xml.etree.ElementTree as ElementTree

import numpy
import pytest
import sluice
from conftest import DURATIONS


def test_what_was_recorded(recorded, chain):
    assert recorded.method == "1f1b"
    assert recorded.pipeline == chain
    assert recorded.limits == [32] * 4
    assert (recorded.launch_ahead, recorded.lost) == (1, 0)
    assert list(recorded.iterations["iteration"]) == [1]
    assert recorded.total == pytest.approx(recorded.iterations["end"][0] - recorded.iterations["start"][0])
    assert repr(recorded).startswith("<sluice.Trace 1f1b: 4 stages, 1 iterations, ")


def test_tasks_and_messages(recorded):
    tasks, messages = recorded.tasks, recorded.messages
    assert {len(column) for column in tasks.values()} == {4 * 8 * 2}
    assert {len(column) for column in messages.values()} == {3 * 8 * 2}
    assert numpy.all(numpy.asarray(tasks["end"]) > numpy.asarray(tasks["start"]))
    for earlier, later in [("sent", "offered"), ("offered", "accepted"), ("accepted", "arrived")]:
        assert numpy.all(numpy.asarray(messages[earlier]) <= numpy.asarray(messages[later]))
    gradients = numpy.asarray(messages["direction"]) == "gradient"
    down = numpy.asarray(messages["sender"]) > numpy.asarray(messages["receiver"])
    assert numpy.array_equal(gradients, down)


def test_a_file_there_and_back(recorded, tmp_path):
    path = tmp_path / "run.json"
    recorded.save(path)
    loaded = sluice.Trace.load(path)
    assert loaded.tasks == recorded.tasks
    assert loaded.messages == recorded.messages
    assert loaded.pipeline == recorded.pipeline


def test_a_file_of_several_runs(chain, tmp_path):
    path = tmp_path / "runs.json"
    comparison = sluice.compare(chain, ["1f1b", "bf"], durations=DURATIONS, record=True)
    sluice.Trace.save_all([run.trace for run in comparison], path)
    assert [trace.method for trace in sluice.Trace.load_all(path)] == ["1f1b", "bf"]
    assert sluice.Trace.load(path).method == "1f1b"
    assert sluice.Trace.load(path, method="bf").method == "bf"
    assert sluice.Trace.load(f"{path}#bf").method == "bf"
    with pytest.raises(sluice.ConfigError, match="fb"):
        sluice.Trace.load(path, method="fb")


def test_the_parts_of_a_summary_add_up(recorded):
    summary = recorded.summary()
    assert summary["total_s"] == pytest.approx(recorded.total)
    for stage in summary["per_stage"]:
        parts = [
            stage[f"{part}_s"]
            for part in ("compute", "messages", "limit", "order", "agreement", "start", "idle")
        ]
        assert sum(parts) == pytest.approx(recorded.total)
    assert len(summary["edges"]) == 6


def test_a_difference_is_explained(chain, recorded):
    other = sluice.simulate(chain, "bf", durations=DURATIONS, delays="tail:0.3,10", record=True).trace
    diff = recorded.diff(other, top=3)
    assert diff["difference_s"] == pytest.approx(other.total - recorded.total)
    assert sum(part["difference_s"] for part in diff["parts"]) == pytest.approx(diff["difference_s"])
    assert len(diff["tasks"]) == 3


def test_runs_that_cannot_be_compared(recorded):
    other = sluice.simulate(sluice.Pipeline.chain(4, 9), "bf", durations=DURATIONS, record=True).trace
    with pytest.raises(sluice.ConfigError) as caught:
        recorded.diff(other)
    assert caught.value.field == "pipeline"


def test_what_if(recorded, chain):
    """On the recorded times the simulator gives what a simulation of the same draws gave."""
    own, bf, gpipe = recorded.what_if(["1f1b", sluice.Hint("bf"), sluice.Schedule.gpipe(chain)])
    assert own.total == pytest.approx(recorded.total)
    assert own.iterations == [own.total]
    simulated = sluice.simulate(chain, "bf", durations=DURATIONS, delays="tail:0.3,10")
    assert bf.total == pytest.approx(simulated.makespan)
    assert bf.bubble == pytest.approx(simulated.bubble)
    assert gpipe.method == "gpipe"
    assert max(recorded.what_if(["bf"], limit=2)[0].peak_in_flight) == 2
    assert "bf" in repr(bf)


@pytest.mark.parametrize(
    "field, arguments",
    [
        ("methods", {"methods": ["none"]}),
        ("limit", {"methods": ["bf"], "limit": 0}),
        ("rules", {"methods": ["bf"], "rules": "none"}),
        ("weight_grad_share", {"methods": ["bf"], "weight_grad_share": 2}),
    ],
)
def test_what_if_refuses(recorded, field, arguments):
    with pytest.raises(sluice.ConfigError) as caught:
        recorded.what_if(**arguments)
    assert caught.value.field == field


def test_pictures_and_tables(recorded):
    assert ElementTree.fromstring(recorded.timeline_svg()).tag.endswith("svg")
    assert recorded._repr_html_() == f"<div>{recorded.timeline_svg()}</div>"
    assert 'id="timeline-data"' in recorded.timeline_html()
    assert json.loads(recorded.chrome_trace())["traceEvents"]
    assert len(recorded.to_csv().splitlines()) == 1 + 4 * 8 * 2 + 3 * 8 * 2


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "sluice-recording"}', "\0"])
def test_files_that_are_refused(text, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.Trace.load(path)
    assert "bad.json" in caught.value.field


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.Trace.load(tmp_path / "missing.json")
    assert caught.value.field == "file"


def test_a_file_that_cannot_be_written(recorded, tmp_path):
    with pytest.raises(sluice.ConfigError) as caught:
        recorded.save(tmp_path / "missing" / "run.json")
    assert caught.value.field == "path"
    with pytest.raises(sluice.ConfigError):
        sluice.Trace.save_all([], tmp_path / "run.json")
