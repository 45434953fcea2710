"""The closest peer of the engine's round on a GPU: all clients at once by torch.func.vmap, compiled as a whole by torch.compile.

The same network, local steps, pull and clip as `neural_torch.py`. Convolutions are unfolded into matrix products, because a
library convolution with weights of its own for every client becomes a grouped one, which is several times slower. With
`bits=16` activations and products are in float16 (gradients lifted as ours are), weights and sums in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.func import grad, vmap
from torch.nn import functional

STEPS, BATCH, CLASSES = 5, 16, 62
SHAPES = [(16, 9), (16,), (32, 144), (32,), (128, 1568), (128,), (CLASSES, 128), (CLASSES,)]
LIFT = 256.0


def layer(x, weights, bias):
    """Convolution, relu and pooling of (n, c, side, side)."""
    n, _, side, _ = x.shape
    x = weights @ functional.unfold(x, 3, padding=1) + bias[:, None]
    x = torch.relu(x).reshape(n, -1, side // 2, 2, side // 2, 2)
    return x.amax((3, 5))


def scores(parameters, rows, kind):
    w1, b1, w2, b2, w3, b3, w4, b4 = (w.to(kind) for w in parameters)
    x = layer(layer(rows.to(kind), w1, b1), w2, b2).flatten(1)
    return (torch.relu(x @ w3.T + b3) @ w4.T + b4).float()


def compiled_round(clients: int, bits: int = 32, tf32: bool = False, device: str = "cuda", **options) -> Callable[[], object]:
    """One round of `clients` clients: new models of all, clipped, summed."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    kind, lift = (torch.float16, LIFT) if bits == 16 else (torch.float32, 1.0)
    shared = [torch.empty(s, device=device).uniform_(-1, 1) / math.sqrt(s[-1]) for s in SHAPES]
    own = [w.expand(clients, *w.shape).clone() for w in shared]
    rows = torch.rand(clients, STEPS, BATCH, 1, 28, 28, device=device)
    labels = torch.randint(0, CLASSES, (clients, STEPS, BATCH), device=device)

    def loss(parameters, rows, labels):
        return lift * functional.cross_entropy(scores(parameters, rows, kind), labels)

    def client(own, rows, labels, pull=1.0, rate=0.1):
        for step in range(STEPS):
            gradient = grad(loss)(own, rows[step], labels[step])
            own = [(w - rate * (g / lift - pull * a)) / (1 + rate * pull) for w, g, a in zip(own, gradient, shared)]
        return own, [w - a for w, a in zip(own, shared)]

    def one_round(own, rows, labels, bound=1.0):
        own, change = vmap(client)(own, rows, labels)
        flat = torch.cat([c.flatten(1) for c in change], 1)
        scale = torch.clamp(bound / flat.norm(dim=1), max=1.0)
        return own, (scale[:, None] * flat).sum(0)

    fast = torch.compile(one_round, **options)
    return lambda: fast(own, rows, labels)
