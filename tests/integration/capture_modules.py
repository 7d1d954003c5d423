"""Writes TorchScript modules, good and bad ones for a graph capture: `python capture_modules.py FOLDER`.

Each file is NAME.pt; `inputs.json` has the arguments of `sluice capture --check` for each name.
"""

import json
import pathlib
import sys
from typing import List, Optional

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 16


class Stage(nn.Module):
    """Three layers, of which the middle one is that under test, as `layers.1.inner`."""

    def __init__(self, inner):
        super().__init__()
        self.layers = nn.ModuleList([Residual(nn.Linear(WIDTH, WIDTH)), Residual(inner), Residual(nn.GELU())])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = inner

    def forward(self, x):
        return x + self.inner(self.norm(x))


# Good ones.


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(100, WIDTH)
        self.positions = nn.Embedding(64, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        positions = torch.arange(tokens.size(1), device=tokens.device)
        return self.norm(self.tokens(tokens) + self.positions(positions))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
        )  # fmt: skip

    def forward(self, x):
        return F.log_softmax(self.body(x), dim=-1)


class FlowOnNumbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.depth = 3
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, repeats: int = 2):
        for i in range(repeats):
            if x.size(1) > 2 and i % 2 == 0:
                x = self.linear(x)
            else:
                x = x * 2
        while repeats < self.depth:
            repeats += 1
            x = torch.where(x > 0, x, 0.1 * x)
        return x


class OwnDevice(nn.Module):
    """Makes tensors where its input is, and asks about the device."""

    def forward(self, x):
        mask = torch.ones(x.size(1), x.size(1), device=x.device).triu(1)
        scale = torch.full([1], 0.5, device=x.device)
        if not x.is_cuda:
            x = x.cpu()
        return (x.transpose(1, 2) @ mask).transpose(1, 2) * scale


class InPlaceOnOwn(nn.Module):
    """In-place operators on tensors of its own, and on a buffer."""

    steps: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(WIDTH))

    def forward(self, x):
        self.steps.add_(1)
        y = x * 2
        y.add_(1)
        y[:, 0].zero_()
        return y.masked_fill(y > 3, 3.0)


# Bad ones.


class Item(nn.Module):
    def forward(self, x):
        return x * x.abs().max().item()


class ToHost(nn.Module):
    def forward(self, x):
        return x + x.cpu().mean(dim=0).to(x.device)


class FlowOnValues(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            return x * 2
        return x.tanh()


class Equal(nn.Module):
    def forward(self, x):
        if torch.equal(x, x.clamp(min=0.0)):
            return x
        return -x


class NonZero(nn.Module):
    def forward(self, x):
        chosen = torch.nonzero(x > 0)
        return x + chosen.size(0)


class MaskedSelect(nn.Module):
    def forward(self, x):
        return x - torch.masked_select(x, x > 0).mean()


class BooleanIndex(nn.Module):
    def forward(self, x):
        return x * x[x > 0].mean()


class BooleanAssignment(nn.Module):
    def forward(self, x):
        y = x * 2
        y[y > 1] = y.mean().reshape(1)
        return y


class Unique(nn.Module):
    def forward(self, x):
        return x * torch.unique(x.round()).size(0)


class RepeatInterleave(nn.Module):
    def forward(self, x):
        counts = (x[:, :, 0] > 0).long().flatten() + 1
        return x + x.flatten(0, 1).repeat_interleave(counts, dim=0).mean()


class HostConstant(nn.Module):
    def forward(self, x):
        return x + torch.ones(x.size(-1))


class HostAttribute(nn.Module):
    """A tensor that is no buffer stays on the host."""

    def __init__(self):
        super().__init__()
        self.scale = torch.full([WIDTH], 0.5)

    def forward(self, x):
        return x * self.scale


class HostCopy(nn.Module):
    def forward(self, x):
        return x * torch.tensor([0.5, 2.0], device=x.device).mean()


class SliceAssignment(nn.Module):
    """TorchScript makes a tensor of the number on the host, and copies it."""

    def forward(self, x):
        y = x * 2
        y[:, 0] = 0.0
        return y


class HostRandom(nn.Module):
    def forward(self, x):
        return x + float(torch.rand(1))


class Cache(nn.Module):
    """Keeps a result for the next call."""

    last: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        y = x * 2
        self.last = y
        return y.exp()


class KeptList(nn.Module):
    kept: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x):
        self.kept.append(x.sum())
        return x


class KeepsInput(nn.Module):
    seen: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.seen = None
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        self.seen = x[0]
        return self.linear(x)


class Counter(nn.Module):
    """A number of the host that decides what runs."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls % 2 == 0:
            return x * 2
        return x.exp()


class ModifiesInput(nn.Module):
    def forward(self, x):
        x[:, 0].mul_(2.0)
        return x.exp()


class ModifiesAndReturnsInput(nn.Module):
    def forward(self, x):
        return x.add_(1.0)


class ReturnsInput(nn.Module):
    """Only a warning."""

    def forward(self, x):
        return x.exp(), x.transpose(0, 1)


STAGE = ["float32[2,8,16]"]

GOOD = {
    "mlp": (nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)), ["float32[8,16]"]),
    "attention": (Stage(Attention()), STAGE),
    "embedding": (Embedding(), ["int64[2,8]:100"]),
    "conv": (ConvNet(), ["float32[2,3,16,16]"]),
    "dropout": (Stage(nn.Dropout(0.3)), STAGE),
    "numbers": (FlowOnNumbers(), [*STAGE, "int=2"]),
    "own-device": (Stage(OwnDevice()), STAGE),
    "in-place": (Stage(InPlaceOnOwn()), STAGE),
}

BAD = {
    "item": Item(),
    "to-host": ToHost(),
    "flow-on-values": FlowOnValues(),
    "equal": Equal(),
    "nonzero": NonZero(),
    "masked-select": MaskedSelect(),
    "boolean-index": BooleanIndex(),
    "boolean-assignment": BooleanAssignment(),
    "unique": Unique(),
    "repeat-interleave": RepeatInterleave(),
    "host-constant": HostConstant(),
    "host-attribute": HostAttribute(),
    "host-copy": HostCopy(),
    "slice-assignment": SliceAssignment(),
    "host-random": HostRandom(),
    "cache": Cache(),
    "list": KeptList(),
    "counter": Counter(),
}

# What they do concerns the inputs of the whole module.
BAD_WITH_INPUTS = {
    "keeps-input": KeepsInput(),
    "modifies-input": ModifiesInput(),
    "modifies-and-returns-input": ModifiesAndReturnsInput(),
    "returns-input": ReturnsInput(),
}


class Wrapper(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.first = inner

    def forward(self, x):
        return self.first(x)


def modules():
    torch.manual_seed(1)
    yield from ((name, module, inputs) for name, (module, inputs) in GOOD.items())
    yield from ((name, Stage(inner), STAGE) for name, inner in BAD.items())
    yield from ((name, Wrapper(inner), STAGE) for name, inner in BAD_WITH_INPUTS.items())


def main(folder):
    inputs = {}
    for name, module, arguments in modules():
        torch.jit.script(module).save(str(folder / f"{name}.pt"))
        inputs[name] = arguments
    traced = torch.jit.trace(Stage(Attention()), torch.randn(2, 8, WIDTH), check_trace=False)
    traced.save(str(folder / "traced.pt"))
    inputs["traced"] = STAGE
    (folder / "inputs.json").write_text(json.dumps(inputs))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
