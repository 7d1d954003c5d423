import pytest
import sluice
from hypothesis import given
from hypothesis import strategies as st

PIPELINES = {
    "gpipe": sluice.Pipeline.chain(4, 8),
    "1f1b": sluice.Pipeline.chain(4, 8),
    "interleaved": sluice.Pipeline.interleaved(4, 2, 8),
    "looped-bfs": sluice.Pipeline.interleaved(4, 2, 8),
    "zb-h1": sluice.Pipeline.chain(4, 8, split_backward=True),
    "zb-v": sluice.Pipeline.v_shape(4, 8, split_backward=True),
    "dualpipe-v": sluice.Pipeline.v_shape(4, 8, split_backward=True),
}


def orders(schedule):
    return [schedule.order(stage) for stage in range(schedule.stages)]


def test_every_name_has_a_pipeline_here():
    assert set(sluice.Schedule.names()) == set(PIPELINES)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_named_schedule_is_valid(name):
    schedule = sluice.Schedule.named(name, PIPELINES[name])
    schedule.validate()
    assert schedule.faults() == []
    assert schedule.name == name
    assert schedule.pipeline == PIPELINES[name]
    forwards = [task for order in orders(schedule) for task in order if task.pass_ == "F"]
    assert len(set(forwards)) == schedule.pipeline.chunks * 8
    assert name in repr(schedule)


@pytest.mark.parametrize(
    "name, generator",
    [
        ("gpipe", sluice.Schedule.gpipe),
        ("1f1b", sluice.Schedule.one_f_one_b),
        ("interleaved", sluice.Schedule.interleaved),
        ("looped-bfs", sluice.Schedule.looped_bfs),
        ("zb-h1", sluice.Schedule.zb_h1),
        ("zb-v", sluice.Schedule.zb_v),
        ("dualpipe-v", sluice.Schedule.dualpipe_v),
    ],
)
def test_a_generator_is_the_named_schedule(name, generator):
    assert orders(generator(PIPELINES[name])) == orders(sluice.Schedule.named(name, PIPELINES[name]))


def test_what_1f1b_is(chain):
    schedule = sluice.Schedule.one_f_one_b(chain)
    assert [(task.pass_, task.microbatch) for task in schedule.order(3)][:4] == [
        ("F", 0),
        ("B", 0),
        ("F", 1),
        ("B", 1),
    ]
    assert [schedule.peak_in_flight(stage) for stage in range(4)] == [4, 3, 2, 1]


@pytest.mark.parametrize("name", PIPELINES)
def test_csv_there_and_back(name, tmp_path):
    schedule = sluice.Schedule.named(name, PIPELINES[name])
    again = sluice.Schedule.from_csv(schedule.to_csv(), "again")
    assert orders(again) == orders(schedule)
    assert again.pipeline.placement == schedule.pipeline.placement
    schedule.save(tmp_path / "mine.csv")
    loaded = sluice.Schedule.load(tmp_path / "mine.csv")
    assert loaded.name == "mine"
    assert orders(loaded) == orders(schedule)


@given(stages=st.integers(1, 6), microbatches=st.integers(1, 12))
def test_csv_of_any_size(stages, microbatches):
    schedule = sluice.Schedule.one_f_one_b(sluice.Pipeline.chain(stages, microbatches))
    assert orders(sluice.Schedule.from_csv(schedule.to_csv())) == orders(schedule)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        sluice.Schedule.from_csv(text)
    except sluice.ConfigError as error:
        assert error.field == "schedule"


def test_a_fault_is_named(chain):
    order = sluice.Schedule.gpipe(chain).order(0)
    schedule = sluice.Schedule(
        "mine", [order[:-1]] + [sluice.Schedule.gpipe(chain).order(s) for s in (1, 2, 3)], chain
    )
    [(rank, position, reason)] = schedule.faults()
    assert (rank, position) == (0, 15)
    assert reason
    with pytest.raises(sluice.ConfigError, match="rank 0, position 15") as caught:
        schedule.validate()
    assert caught.value.field == "schedule"


@pytest.mark.parametrize(
    "make",
    [
        lambda: sluice.Schedule.named("none", PIPELINES["1f1b"]),
        lambda: sluice.Schedule.zb_v(PIPELINES["1f1b"]),
        lambda: sluice.Schedule.from_csv("0F0,1B"),
    ],
)
def test_what_is_refused(make):
    with pytest.raises(sluice.ConfigError) as caught:
        make()
    assert caught.value.field == "schedule"


def test_what_is_too_large_is_refused():
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.Schedule.gpipe(sluice.Pipeline.chain(1000, 2**24))
    assert caught.value.field == "microbatches"


@pytest.mark.parametrize("path", ["missing.csv", "."])
def test_a_file_that_cannot_be_read(path, tmp_path):
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.Schedule.load(tmp_path / path)
    assert caught.value.field == "path"


def test_ordered_accumulation_splits_what_is_out_of_turn():
    pipeline = sluice.Pipeline.interleaved(2, 2, 4, split_backward=True)
    ordered = sluice.Schedule.looped_bfs(pipeline).with_ordered_accumulation()
    weight_grads = [task.microbatch for task in ordered.order(0) if task.pass_ == "W" and task.chunk == 0]
    assert weight_grads == sorted(weight_grads) != []


def test_a_stage_that_is_not_there(chain):
    schedule = sluice.Schedule.gpipe(chain)
    for stage in (-1, 4):
        with pytest.raises(IndexError):
            schedule.order(stage)
        with pytest.raises(IndexError):
            schedule.peak_in_flight(stage)


def test_a_notebook_shows_the_schedule(chain):
    assert sluice.Schedule.one_f_one_b(chain)._repr_html_().startswith("<div><svg")


def test_every_hint_ranks_every_task_once(chain):
    split = chain.with_split(True)
    for name in sluice.Hint.names():
        hint = sluice.Hint(name)
        tasks = [task for tasks in hint.ranking(split, 1) for task in tasks]
        assert len(tasks) == len(set(tasks)) == 3 * 8
        assert name in repr(hint)


def test_a_schedule_as_a_hint(chain):
    schedule = sluice.Schedule.one_f_one_b(chain)
    hint = sluice.Hint.from_schedule(schedule)
    assert hint.name == "hint:1f1b"
    [ranking] = hint.ranking(chain, 2)
    assert ranking[:16] == schedule.order(2)
    # What the schedule does not have comes last.
    assert {task.pass_ for task in ranking[16:]} == {"W"}


def test_a_hint_that_is_none():
    with pytest.raises(sluice.ConfigError, match="'none' is not one of bf") as caught:
        sluice.Hint("none")
    assert caught.value.field == "hint"
    with pytest.raises(TypeError):
        sluice.Hint.from_schedule(None)
