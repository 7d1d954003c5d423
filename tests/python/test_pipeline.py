import pickle

import pytest
import sluice
from hypothesis import given
from hypothesis import strategies as st


def test_a_chain():
    pipeline = sluice.Pipeline.chain(stages=3, microbatches=5)
    assert (pipeline.stages, pipeline.chunks, pipeline.microbatches) == (3, 3, 5)
    assert pipeline.edges == [(0, 1), (1, 2)]
    assert pipeline.placement == [0, 1, 2]
    assert not pipeline.split_backward
    assert pipeline.with_split(True).split_backward


def test_where_chunks_lie():
    assert sluice.Pipeline.interleaved(2, 3, 4).chunks_of(1) == [1, 3, 5]
    assert sluice.Pipeline.v_shape(3, 4).placement == [0, 1, 2, 2, 1, 0]
    joined = sluice.Pipeline.joined(encoders=[2, 1], decoder=2, microbatches=4)
    assert sorted(joined.edges) == [(0, 1), (1, 3), (2, 3), (3, 4)]


def test_a_pipeline_of_ones_own():
    pipeline = sluice.Pipeline([0, 1, 0], [(0, 1), (1, 2)], 6, unsplittable=[1])
    assert pipeline.chunks_of(0) == [0, 2]
    assert pipeline.unsplittable == [1]


@pytest.mark.parametrize(
    "field, make",
    [
        ("stages", lambda: sluice.Pipeline.chain(stages=-1, microbatches=4)),
        ("stages", lambda: sluice.Pipeline.chain(stages=1 << 20, microbatches=4)),
        ("microbatches", lambda: sluice.Pipeline.chain(stages=4, microbatches=0)),
        ("microbatches", lambda: sluice.Pipeline.chain(stages=4, microbatches=1 << 40)),
        ("chunks_per_stage", lambda: sluice.Pipeline.interleaved(4, 0, 4)),
        ("encoders", lambda: sluice.Pipeline.joined([0], 2, 4)),
        ("stage_of", lambda: sluice.Pipeline([-1], [], 4)),
        ("edges", lambda: sluice.Pipeline([0, 1], [(1, 0)], 4)),
        ("chunks", lambda: sluice.Pipeline([0], [], 4, split_backward=True, unsplittable=[0])),
        ("unsplittable", lambda: sluice.Pipeline([0, 1], [(0, 1)], 4, unsplittable=[2])),
    ],
)
def test_what_is_refused(field, make):
    with pytest.raises(sluice.ConfigError) as caught:
        make()
    assert caught.value.field == field


def test_wrong_types_are_type_errors():
    with pytest.raises(TypeError):
        sluice.Pipeline.chain("four", 4)
    with pytest.raises(TypeError):
        sluice.Pipeline.chain(4.5, 4)


@pytest.mark.parametrize("stage", [-1, 4, 1 << 40])
def test_a_stage_that_is_not_there(chain, stage):
    with pytest.raises(IndexError):
        chain.chunks_of(stage)


@given(
    stages=st.integers(1, 6),
    chunks=st.integers(1, 3),
    microbatches=st.integers(1, 2**24),
    split=st.booleans(),
)
def test_pickling_gives_the_same_pipeline(stages, chunks, microbatches, split):
    pipeline = sluice.Pipeline.interleaved(stages, chunks, microbatches, split_backward=split)
    copy = pickle.loads(pickle.dumps(pipeline))
    assert copy == pipeline
    assert copy != pipeline.with_split(not split)
    assert repr(copy) == repr(pipeline)


def test_a_pipeline_is_not_something_else(chain):
    assert chain != "chain"
    with pytest.raises(TypeError):
        hash(chain)


def test_tasks_are_values():
    task = sluice.Task("B", microbatch=5, chunk=2)
    assert (task.pass_, task.microbatch, task.chunk) == ("B", 5, 2)
    assert repr(task) == "B(chunk 2, microbatch 5)"
    assert task == pickle.loads(pickle.dumps(task))
    assert len({task, sluice.Task("B", 5, 2), sluice.Task("W", 5, 2)}) == 2
    assert sorted([task, sluice.Task("F", 6), sluice.Task("F", 5)])[0] == sluice.Task("F", 5)


@pytest.mark.parametrize(
    "field, arguments", [("pass", ("X", 0)), ("microbatch", ("F", -1)), ("chunk", ("F", 0, -1))]
)
def test_what_is_no_task(field, arguments):
    with pytest.raises(sluice.ConfigError) as caught:
        sluice.Task(*arguments)
    assert caught.value.field == field
