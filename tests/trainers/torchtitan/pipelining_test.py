"""`sluice.torchtitan` through torchtitan's own split of a model, its stages, its way to make a schedule."""

import copy
import tempfile
import types
import unittest

import sluice
import sluice.torchtitan
import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule, ReadinessScheduleSingle
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed import ParallelDims, parallel_dims, pipeline_parallel
from torchtitan.protocols.model_spec import ModelSpec

WIDTH, WORDS, LENGTH, LAYERS = 16, 11, 5, 8
MICROBATCHES = 8

# torchtitan takes "cuda" where there is no accelerator.
parallel_dims.device_type = "cpu"


class Decoder(nn.Module):
    """What torchtitan splits: parts that a stage does not have are None or empty."""

    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleDict({str(index): nn.Linear(WIDTH, WIDTH) for index in range(LAYERS)})
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        hidden = words if self.tok_embeddings is None else self.tok_embeddings(words)
        for layer in self.layers.values():
            hidden = hidden + torch.tanh(layer(hidden))
        return hidden if self.lm_head is None else self.lm_head(self.norm(hidden))


def loss_of(output, target, *, global_valid_tokens):
    """As torchtitan's losses: a sum, divided by what is valid in the global batch, and figures beside it."""
    total = nn.functional.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="sum")
    return total / global_valid_tokens, {}


def parallelize(module, *, parallel_dims, **_):
    if parallel_dims.dp_shard_enabled:
        mesh = parallel_dims.get_mesh("dp_shard")
        for layer in module.layers.values():
            fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
    return module


def spec():
    config = types.SimpleNamespace(layers=[None] * LAYERS)
    return ModelSpec("decoder", "tiny", config, parallelize, pipeline_parallel.pipeline_llm, None, None)


def built(model_spec, dims, **options):
    """What torchtitan's trainer does with a spec."""
    torch.manual_seed(1)
    return model_spec.pipelining_fn(
        Decoder(),
        parallel_dims=dims,
        training=TrainingConfig(local_batch_size=MICROBATCHES),
        parallelism=ParallelismConfig(pipeline_parallel_degree=dims.pp, **options),
        compile_config=CompileConfig(),
        ac_config=None,
        dump_folder="",
        device=torch.device("cpu"),
        model_config=model_spec.model,
        parallelize_fn=model_spec.parallelize_fn,
        loss_fn=loss_of,
    )


def dims_of(replicas):
    ranks = dist.get_world_size()
    dims = ParallelDims(
        dp_replicate=1, dp_shard=replicas, cp=1, tp=1, pp=ranks // replicas, ep=1, world_size=ranks
    )
    replica = dims.get_mesh("dp_shard").get_local_rank() if replicas > 1 else 0
    return dims, replica


def trained(pipeline, replica, whole_batches):
    """Losses and gradients of two steps, after an evaluation.

    whole_batches: torch 2.13's way to call a schedule; torchtitan's trainer gives the microbatches.
    """
    schedule, parts, first, last = pipeline
    torch.manual_seed(2 + replica)
    words = torch.randint(WORDS, (2, MICROBATCHES, LENGTH))
    options = {
        "loss_kwargs": {"global_valid_tokens": torch.tensor(MICROBATCHES * LENGTH)},
        "return_outputs": False,
    }
    results = []
    for run in (schedule.eval, schedule.step, schedule.step):
        losses = [] if last else None
        if whole_batches:
            args = [words[0]] if first else []
            run(*args, target=words[1] if last else None, losses=losses, **options)
        else:
            run(
                arg_mbs=[(each,) for each in words[0].split(1)] if first else None,
                kwarg_mbs=[{} for _ in range(MICROBATCHES)],
                target_mbs=list(words[1].split(1)) if last else None,
                losses=losses,
                **options,
            )
        results += [each.detach().clone() for each in losses or []]
    for part in parts:
        for parameter in part.parameters():
            gradient = parameter.grad
            results.append(
                copy.deepcopy(gradient.full_tensor() if isinstance(gradient, DTensor) else gradient)
            )
    return results


def equal(replicas, theirs, options):
    """Whether one more line in a config gives what torch's schedule gives, and the class that ran it."""
    dims, replica = dims_of(replicas)
    expected = trained(built(spec(), dims, **theirs), replica, whole_batches=True)
    ours = sluice.torchtitan.readiness_first(spec(), delays="tail:0.3,3", seed=replica, **options)
    pipeline = built(ours, dims, **theirs)
    found = trained(pipeline, replica, whole_batches=False)
    pipeline[0].close()
    same = len(found) == len(expected) > 0 and all(map(torch.equal, found, expected))
    return same, isinstance(pipeline[0], ReadinessScheduleSingle), isinstance(pipeline[0], ReadinessSchedule)


def kinds():
    """The class for each way to name one, and the error for a V."""
    dims, _ = dims_of(1)
    by_name = [
        built(spec(), dims, pipeline_parallel_schedule=name)[0]
        for name in ("ReadinessBFWSingle", "Readiness")
    ]
    ours = sluice.torchtitan.pipelining(sluice.torchtitan.pipeline_parallel.pipeline_llm, limit=4)
    model_spec = spec()
    model_spec.pipelining_fn = ours
    per_stage = [
        built(model_spec, dims, pipeline_parallel_schedule=name, pipeline_parallel_layers_per_stage=layers)[0]
        for name, layers in (("Readiness", 5), ("1F1B", 3))
    ]
    model_spec.pipelining_fn = sluice.torchtitan.pipeline_llm
    try:
        built(model_spec, dims, pipeline_parallel_schedule="ZBVZeroBubble")
        refused = ""
    except ValueError as error:
        refused = str(error)
    return [isinstance(each, ReadinessScheduleSingle) for each in by_name + per_stage], refused


def from_file():
    """Whether a file that names an order for torch's runtime is the hint, and a step with it."""
    dims, _ = dims_of(1)
    order = sluice.Schedule.interleaved(
        sluice.Pipeline([0, 1, 0, 1], [(chunk, chunk + 1) for chunk in range(3)], MICROBATCHES)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/order.csv"
        order.save(path)
        pipeline = built(
            sluice.torchtitan.readiness_first(spec()),
            dims,
            pipeline_parallel_schedule="PipelineScheduleMulti",
            pipeline_parallel_schedule_csv=path,
        )
        expected = trained(built(spec(), dims, pipeline_parallel_schedule="Interleaved1F1B"), 0, True)
        found = trained(pipeline, 0, whole_batches=False)
    return type(pipeline[0]).options == {"hint": path}, all(map(torch.equal, found, expected))


class Pipelining(unittest.TestCase):
    def test_one_line_in_a_config_gives_the_gradients_of_torchs_schedule(self):
        for ranks, replicas, theirs, options in [
            (2, 1, {"pipeline_parallel_schedule": "GPipe"}, {}),
            (4, 1, {"pipeline_parallel_schedule": "GPipe"}, {"hint": "bfw", "limit": 4}),
            (2, 1, {"pipeline_parallel_schedule": "Interleaved1F1B"}, {}),
            (4, 2, {"pipeline_parallel_schedule": "Interleaved1F1B"}, {"hint": "fb"}),
        ]:
            with self.subTest(ranks=ranks, replicas=replicas, theirs=theirs, options=options):
                single = theirs["pipeline_parallel_schedule"] == "GPipe"
                for found in run_ranks(ranks, equal, replicas, theirs, options):
                    self.assertEqual(found, (True, single, not single))

    def test_names_and_numbers_of_layers_choose_the_class(self):
        for single, refused in run_ranks(2, kinds):
            self.assertEqual(single, [True, False, True, False])
            self.assertIn("pipeline_parallel_schedule", refused)

    def test_a_file_is_the_hint(self):
        self.assertEqual(run_ranks(2, from_file), [(True, True)] * 2)

    def test_a_model_without_pipelining_is_refused(self):
        model_spec = spec()
        model_spec.pipelining_fn = None
        with self.assertRaisesRegex(ValueError, "model_spec: decoder"):
            sluice.torchtitan.readiness_first(model_spec)


if __name__ == "__main__":
    unittest.main()
