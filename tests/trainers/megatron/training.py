"""Small Megatron models, and everything that comes out of a call of a forward-backward function."""

import functools
import types
import warnings

import torch
from megatron.core import parallel_state
from megatron.core.enums import ModelType
from megatron.core.pipeline_parallel import schedules
from megatron.core.transformer import TransformerConfig
from megatron.core.utils import make_viewless_tensor
from torch import nn

SEQUENCE = 6
BATCH = 2
HIDDEN = 16


class _TorchOnTheHost:
    """torch for a module that asks for tensors on 'cuda'."""

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def zeros(*args, device=None, **kwargs):
        return torch.zeros(*args, **kwargs)


def use_the_host():
    """Megatron's own functions need a device; these are all that they ask of it here."""
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = lambda: None
    torch.Tensor.cuda = lambda tensor, *args, **kwargs: tensor
    schedules.torch = _TorchOnTheHost()


def start(pipeline, chunks=1, tensor=1, context=1):
    """Megatron's groups; those ranks that are left make data-parallel replicas."""
    # Megatron's defaults warn of themselves, on each rank.
    warnings.simplefilter("ignore")
    use_the_host()
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=tensor,
        pipeline_model_parallel_size=pipeline,
        virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
        context_parallel_size=context,
    )


def configuration(chunks=1, **fields):
    fields = {
        "num_layers": 24,
        "hidden_size": HIDDEN,
        "num_attention_heads": 2,
        "pipeline_dtype": torch.float32,
        "pipeline_model_parallel_size": parallel_state.get_pipeline_model_parallel_world_size(),
        "virtual_pipeline_model_parallel_size": chunks if chunks > 1 else None,
        "tensor_model_parallel_size": parallel_state.get_tensor_model_parallel_world_size(),
        "context_parallel_size": parallel_state.get_context_parallel_world_size(),
        # Megatron's function is right with two ranks of several chunks only if it does not batch.
        "overlap_p2p_comm": chunks > 1,
        "batch_p2p_comm": chunks == 1,
        "use_cpu_initialization": True,
        **fields,
    }
    return TransformerConfig(**fields)


class Chunk(nn.Module):
    """A part of the model; the first takes the data."""

    def __init__(self, config, number, chunks, layer):
        super().__init__()
        self.config = config
        self.model_type = ModelType.encoder_or_decoder
        self.pre_process, self.post_process = number == 0, number == chunks - 1
        self.share_embeddings_and_output_weights = False
        self.layer = layer
        self.received = None
        # Megatron says here which microbatch runs.
        self.decoder = types.SimpleNamespace(layers=[types.SimpleNamespace(current_microbatch=None)])
        self.ran = []

    def set_input_tensor(self, tensors):
        self.received = tensors[0] if isinstance(tensors, list) else tensors

    def forward(self, data):
        self.ran.append(self.decoder.layers[0].current_microbatch)
        output = self.layer(data if self.pre_process else self.received)
        return make_viewless_tensor(output, requires_grad=True, keep_graph=True)


def layer():
    return nn.Sequential(
        nn.Linear(HIDDEN, HIDDEN), nn.LayerNorm(HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN)
    )


def layers(chunks, seed=1):
    """The same on every rank."""
    torch.manual_seed(seed)
    return [layer() for _ in range(chunks)]


def own_chunks(config, per_rank=1, wrap=lambda chunk: chunk, make=layers):
    """Of the model that all ranks make alike."""
    rank = parallel_state.get_pipeline_model_parallel_rank()
    ranks = parallel_state.get_pipeline_model_parallel_world_size()
    made = make(ranks * per_rank)
    chunks = []
    for place in range(per_rank):
        number = rank + place * ranks
        chunk = Chunk(config, number, len(made), made[number])
        if per_rank > 1:
            chunk.vp_stage = place
        chunks.append(wrap(chunk))
    return chunks


def batches(microbatches, seed=2, lengths=None):
    generator = torch.Generator().manual_seed(seed + 100 * parallel_state.get_data_parallel_rank())
    for microbatch in range(microbatches):
        length = SEQUENCE if lengths is None else lengths[microbatch % len(lengths)]
        data = torch.randn(2, length, BATCH, HIDDEN, generator=generator)
        yield microbatch, data[0], data[1]


def unwrapped(model):
    while not isinstance(model, Chunk):
        model = model.module
    return model


def mean_square(microbatch, target, output, non_loss_data=False):
    if non_loss_data:
        return microbatch, output.detach().clone()
    loss = ((output - target) ** 2).mean()
    return loss, {"microbatch": microbatch, "loss": loss.detach().clone()}


def forward_step(iterator, model):
    """Only the ends of the pipeline read data, as in Megatron's trainers."""
    chunk = unwrapped(model)
    microbatch, data, target = (
        next(iterator) if chunk.pre_process or chunk.post_process else (None, None, None)
    )
    return model(data), functools.partial(mean_square, microbatch, target)


def with_loss(loss):
    """A forward step with another loss function."""

    def step(iterator, model):
        output, standard = forward_step(iterator, model)
        return output, None if loss is None else functools.partial(loss, *standard.args)

    return step


def call(function, models, microbatches, step=forward_step, data=batches, **arguments):
    several = len(models) > 1
    iterators = [iter(data(microbatches)) for _ in models]
    return function(
        **{
            "forward_step_func": step,
            "data_iterator": iterators if several else iterators[0],
            "model": models if several else models[0],
            "num_microbatches": microbatches,
            "seq_length": SEQUENCE,
            "micro_batch_size": BATCH,
            **arguments,
        }
    )


def gradients(models):
    return [
        (parameter.main_grad if hasattr(parameter, "main_grad") else parameter.grad).clone()
        for model in models
        for parameter in model.parameters()
    ]


def trained(function, config, microbatches, per_rank=1, calls=2, models=None, **arguments):
    """What each call returned and the gradients after all of them; the order of the forwards."""
    models = own_chunks(config, per_rank) if models is None else models
    returned = [call(function, models, microbatches, **arguments) for _ in range(calls)]
    return {"returned": returned, "gradients": gradients(models)}, order_of(models)


def order_of(models):
    """Microbatches of the forwards of each chunk, in the order they ran."""
    return [unwrapped(model).ran for model in models]


def in_one_process(config, microbatches, per_rank=1, calls=2):
    """As `trained`, one microbatch after the other through all chunks."""
    ranks = parallel_state.get_pipeline_model_parallel_world_size()
    rank = parallel_state.get_pipeline_model_parallel_rank()
    made = layers(ranks * per_rank)
    returned = []
    for _ in range(calls):
        stored = []
        for microbatch, data, target in batches(microbatches):
            for each in made:
                data = each(data)
            loss, kept = mean_square(microbatch, target, data)
            loss /= microbatches
            loss.backward()
            stored.append(kept)
        returned.append(stored if rank == ranks - 1 else [])
    own = [made[rank + place * ranks] for place in range(per_rank)]
    return {"returned": returned, "gradients": gradients(own)}


def same(found, expected):
    """Bit for bit."""
    if isinstance(expected, torch.Tensor):
        return torch.equal(found, expected)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == expected


def raised_by(function):
    try:
        function()
    except Exception as error:  # noqa: BLE001 - which one it is, is what a test looks at
        return type(error).__name__, str(error)
    return None
