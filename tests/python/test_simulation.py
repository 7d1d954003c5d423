import array
import threading
import time
import xml.etree.ElementTree as ElementTree

import numpy
import pytest
import sluice
from conftest import DURATIONS
from hypothesis import given
from hypothesis import strategies as st


def test_three_lines():
    run = sluice.simulate(sluice.Pipeline.chain(8, 64), "bfw", durations=DURATIONS)
    assert run.makespan > 0.64 * 3


def test_a_makespan_that_can_be_worked_out(chain):
    """GPipe: M + N - 1 forwards and as many backwards."""
    run = sluice.simulate(chain, "gpipe", durations=sluice.Durations(forward=0.010, backward="20ms"))
    assert run.makespan == pytest.approx((8 + 4 - 1) * 0.030)
    assert run.bubble == pytest.approx(3 / 11)
    assert list(run.makespans) == [run.makespan]
    assert run.peak_in_flight == [8] * 4
    assert run.limits == [32] * 4
    assert run.trace is None
    assert repr(run) == "<sluice.SimulatedRun gpipe: makespan 0.33 s, bubble 27.3 %>"


def test_the_times_of_a_stage_add_up(chain):
    run = sluice.simulate(chain, "bf", durations=DURATIONS, delays="tail:0.3,10")
    stages = {name: numpy.asarray(column) for name, column in run.stages.items()}
    assert numpy.allclose(stages["compute"] + stages["blocked"] + stages["agreement"], run.makespan)
    assert numpy.allclose(stages["utilisation"], stages["compute"] / run.makespan)
    assert numpy.allclose(stages["utilisation"] + stages["bubble"], 1)
    assert run.bubble == pytest.approx(stages["bubble"].mean())
    assert list(stages["peak_in_flight"]) == run.peak_in_flight


@given(
    stages=st.integers(1, 4),
    microbatches=st.integers(1, 6),
    hint=st.sampled_from(sluice.Hint.names()),
    limit=st.integers(1, 6),
    delays=st.sampled_from(["j0", "j2", "tail:0.5,20"]),
    seed=st.integers(0, 2**64 - 1),
)
def test_every_task_runs_once_and_none_overlap(stages, microbatches, hint, limit, delays, seed):
    pipeline = sluice.Pipeline.chain(stages, microbatches)
    run = sluice.simulate(
        pipeline, hint, durations=DURATIONS + ",sigma=0.3", delays=delays, limit=limit, seed=seed
    )
    columns = run.tasks
    rows = list(zip(columns["stage"], columns["pass"], columns["microbatch"]))
    assert len(rows) == len(set(rows))
    for letter in "FB":
        assert sum(row[1] == letter for row in rows) == stages * microbatches
    assert sum(row[1] == "W" for row in rows) == sum(
        letter == "B" and not whole for letter, whole in zip(columns["pass"], columns["whole"])
    )
    for stage in range(stages):
        spans = sorted(
            (b, e) for s, b, e in zip(columns["stage"], columns["start"], columns["end"]) if s == stage
        )
        assert all(end <= start + 1e-9 for (_, end), (start, _) in zip(spans, spans[1:]))
    assert max(run.peak_in_flight) <= limit
    assert min(columns["start"]) == 0
    assert run.makespan == pytest.approx(max(columns["end"]))
    assert run.makespan >= run.bounds[0] - 1e-9


def test_columns_are_buffers(chain):
    tasks = sluice.simulate(chain, "bf", durations=DURATIONS).tasks
    assert list(tasks) == ["stage", "pass", "chunk", "microbatch", "whole", "start", "end"]
    start = numpy.asarray(tasks["start"])
    assert isinstance(tasks["start"], array.array)
    assert start.dtype == numpy.float64
    assert numpy.shares_memory(start, numpy.asarray(tasks["start"]))
    assert numpy.asarray(tasks["microbatch"]).dtype == numpy.int64
    assert {len(column) for column in tasks.values()} == {4 * 8 * 2}
    assert set(tasks["pass"]) == {"F", "B"}


def test_the_same_seed_gives_the_same_run(chain):
    def makespans(**settings):
        run = sluice.simulate(chain, "bf", durations=DURATIONS, delays="tail:0.3,10", draws=4, **settings)
        return list(run.makespans)

    assert makespans(threads=1) == makespans(threads=3) == makespans(seed=1)
    assert makespans(seed=2) != makespans()
    assert len(set(makespans())) == 4


def test_methods_in_every_form(chain):
    schedule = sluice.Schedule.one_f_one_b(chain)

    def makespan(method):
        return sluice.simulate(chain, method, durations=DURATIONS, delays="tail:0.3,10").makespan

    assert makespan("1f1b") == makespan(schedule)
    assert makespan("hint:1f1b") == makespan(sluice.Hint.from_schedule(schedule))
    assert makespan("bf") == makespan(sluice.Hint("bf"))
    assert makespan("bf") < makespan("1f1b")


def test_a_schedule_from_a_file(chain, tmp_path):
    path = tmp_path / "zb.csv"
    sluice.Schedule.zb_h1(chain.with_split(True)).save(path)
    by_name = sluice.simulate(chain, "zb-h1", durations=DURATIONS)
    assert sluice.simulate(chain, f"csv:{path}", durations=DURATIONS).makespan == by_name.makespan
    assert (
        sluice.simulate(chain, sluice.Schedule.load(path), durations=DURATIONS).makespan == by_name.makespan
    )


def test_durations():
    times = sluice.Durations("10ms", 0.02, sigma=0.1, spread="normal")
    assert (times.forward, times.backward, times.weight_grad, times.sigma) == pytest.approx(
        (0.01, 0.02, 0.01, 0.1)
    )
    assert sluice.Durations.parse("f=1ms,b=3ms,w=1ms").weight_grad == pytest.approx(0.001)
    assert "forward 0.01 s" in repr(times)


def test_durations_of_each_chunk(chain):
    fast, slow = sluice.Durations(0.001, 0.002), sluice.Durations(0.010, 0.020)
    run = sluice.simulate(chain, "bf", durations=[fast, fast, fast, slow])
    assert list(run.stages["compute"]) == pytest.approx([0.024] * 3 + [0.240])


def test_durations_of_a_stage_are_divided_among_its_chunks():
    run = sluice.simulate(sluice.Pipeline.interleaved(2, 2, 4), "bf", durations="f=2ms,b=4ms")
    assert list(run.stages["compute"]) == pytest.approx([0.024] * 2)


@pytest.mark.parametrize("limit", [2, [4, 3, 2, 1], "total:10", "4,3,2,1"])
def test_limits(chain, limit):
    run = sluice.simulate(chain, "bf", durations=DURATIONS, limit=limit)
    assert all(peak <= most for peak, most in zip(run.peak_in_flight, run.limits))
    assert run.limits == ([2] * 4 if limit == 2 else [4, 3, 2, 1])


def test_latency_counts(chain):
    def makespan(latency):
        return sluice.simulate(chain, "gpipe", durations=DURATIONS, latency=latency).makespan

    assert makespan("1ms") == makespan(0.001) == pytest.approx(makespan(0) + 6 * 0.001)


def test_rules(chain):
    run = sluice.simulate(chain, "bf", durations=DURATIONS, rules="paper", accumulate="any", launch_ahead=2)
    assert run.makespan > 0


@pytest.mark.parametrize(
    "field, settings",
    [
        ("durations", {"durations": None}),
        ("durations", {"durations": "f=10ms"}),
        ("durations", {"durations": [sluice.Durations(1, 2)]}),
        ("delays", {"delays": "j9"}),
        ("latency", {"latency": -1}),
        ("latency", {"latency": float("nan")}),
        ("latency", {"latency": "10 parsecs"}),
        ("limit", {"limit": 0}),
        ("limit", {"limit": -5}),
        ("limit", {"limit": [1, 2]}),
        ("limit", {"limit": "many"}),
        ("limit", {"method": "1f1b", "limit": 2}),
        ("rules", {"rules": "none"}),
        ("accumulate", {"accumulate": "sometimes"}),
        ("launch_ahead", {"launch_ahead": 0}),
        ("draws", {"draws": 0}),
        ("threads", {"threads": -1}),
        ("methods", {"method": "none"}),
        ("schedule", {"method": "zb-v"}),
        ("schedule", {"method": sluice.Schedule.gpipe(sluice.Pipeline.chain(4, 9))}),
        ("schedule", {"method": "csv:missing.csv"}),
    ],
)
def test_what_is_refused(chain, field, settings):
    arguments = {"method": "bf", "durations": DURATIONS, **settings}
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.simulate(chain, **arguments)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "field, arguments",
    [("forward", (-1, 1)), ("backward", (1, 1e9)), ("weight-grad", (1, 1, 2)), ("sigma", (1, 1, 1, 3)),
     ("spread", (1, 1, 1, 0, "wide"))],
)  # fmt: skip
def test_durations_that_are_refused(field, arguments):
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.Durations(*arguments)
    assert caught.value.field == field


def test_none_is_refused(chain):
    with pytest.raises(sluice.ConfigError):
        sluice.simulate(chain, None, durations=DURATIONS)
    with pytest.raises(TypeError):
        sluice.simulate(None, "bf", durations=DURATIONS)


def test_pictures(chain):
    run = sluice.simulate(chain, "bf", durations=DURATIONS)
    assert ElementTree.fromstring(run.timeline_svg()).tag.endswith("svg")
    assert run._repr_html_() == f"<div>{run.timeline_svg()}</div>"
    assert 'id="timeline-data"' in run.timeline_html()
    assert '"traceEvents"' in run.chrome_trace()


def test_a_run_too_large_to_draw():
    run = sluice.simulate(sluice.Pipeline.chain(64, 160), "bf", durations=DURATIONS)
    assert run._repr_html_() == "<p>20480 tasks are too many to draw here: see timeline_html().</p>"


def test_a_comparison(chain):
    comparison = sluice.compare(
        chain, ["1f1b", sluice.Hint("bf")], durations=DURATIONS, delays="tail:0.3,10", draws=3
    )
    assert [run.method for run in comparison] == ["1f1b", "bf"]
    assert comparison[1] is comparison["bf"]
    assert len(comparison[:1]) == 1
    figures = comparison.figures
    assert figures["speed_up"][0] == 1
    assert figures["speed_up"][1] == comparison[0].makespan / comparison[1].makespan > 1
    assert list(comparison["1f1b"].bounds) == list(comparison["bf"].bounds)
    alone = sluice.simulate(chain, "bf", durations=DURATIONS, delays="tail:0.3,10", draws=3)
    assert list(alone.makespans) == list(comparison["bf"].makespans)
    with pytest.raises(KeyError, match="1f1b, bf"):
        comparison["fb"]
    with pytest.raises(IndexError):
        comparison[2]


def test_a_notebook_shows_the_comparison(chain, tmp_path):
    path = tmp_path / "<b>.csv"
    sluice.Schedule.gpipe(chain).save(path)
    page = sluice.compare(chain, ["bf", f"csv:{path}"], durations=DURATIONS)._repr_html_()
    assert page.startswith("<table><tr><th>method</th>")
    assert "<b>" not in page
    assert page.count("<svg") == 1


@pytest.mark.parametrize("methods", [[], ["bf", "bf"], ["bf", sluice.Hint("bf")]])
def test_methods_that_are_refused(chain, methods):
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.compare(chain, methods, durations=DURATIONS)
    assert caught.value.field == "methods"


SCENARIO = """
name = "Two ranks a stage"
microbatches = 6
limit = [3, 2]
[pipeline]
stages = 2
[times]
forward = "1ms"
backward = "2ms"
[group]
size = 2
latency = "60us"
"""


def test_a_scenario(tmp_path):
    scenario = sluice.Scenario.parse(SCENARIO)
    assert (scenario.name, scenario.pipeline, scenario.limits) == (
        "Two ranks a stage",
        sluice.Pipeline.chain(2, 6),
        [3, 2],
    )
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    run = sluice.simulate(sluice.Scenario.load(tmp_path / "scenario.toml"), "bf")
    assert run.makespan == sluice.simulate(scenario, "bf").makespan
    assert sum(run.stages["agreement"]) > 0
    assert sluice.simulate(scenario, "bf", limit=5).limits == [5, 5]
    assert "Two ranks a stage" in repr(scenario)


def test_scenarios_that_are_refused(tmp_path):
    with pytest.raises(sluice.ConfigError, match="line 10"):
        sluice.Scenario.parse(SCENARIO.replace("size", "sise"))
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.Scenario.load(tmp_path / "missing.toml")
    assert caught.value.field == "scenario"
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.simulate(sluice.Scenario.parse(SCENARIO), "bf", durations=DURATIONS)
    assert caught.value.field == "durations"


def ticks_while_simulating(ticks):
    """How many ticks of another thread fall into the middle of a call: none unless the lock is released."""
    model = sluice.Pipeline.chain(32, 256)
    begin = time.monotonic()
    sluice.simulate(model, "bf", durations=DURATIONS, draws=4, threads=1)
    quarter = (time.monotonic() - begin) / 4
    return sum(begin + quarter < tick < begin + 3 * quarter for tick in list(ticks))


def test_other_threads_run_while_it_simulates():
    """A busy machine may not run the other thread at once: it is tried again."""
    finished = threading.Event()
    ticks = []

    def tick():
        while not finished.wait(0.0005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        assert any(ticks_while_simulating(ticks) for _ in range(50))
    finally:
        finished.set()
        thread.join()
