"""The alternative that `benchmarks/neural.py` is compared with: torch, one client after the other.

Runs in an interpreter that has torch (not ours). Reads one line per round from standard input and answers with the
seconds the round took. Same network, same local steps, same clipping; nothing is compiled or batched over clients.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import torch

STEPS, BATCH, CLASSES = 5, 16, 62


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.second = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.third = torch.nn.Linear(1568, 128)
        self.fourth = torch.nn.Linear(128, CLASSES)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.first(x)), 2)
        x = torch.max_pool2d(torch.relu(self.second(x)), 2)
        return self.fourth(torch.relu(self.third(x.flatten(1))))


def one_round(network, shared, rows, labels, pull=1.0, rate=0.1, bound=1.0):
    """E local steps per client on l_k + (pull/2)|w - shared|^2, clip, sum."""
    parameters = list(network.parameters())
    total = [torch.zeros_like(w) for w in shared]
    for client_rows, client_labels in zip(rows, labels):
        with torch.no_grad():
            for w, start in zip(parameters, shared):
                w.copy_(start)
        for step_rows, step_labels in zip(client_rows, client_labels):
            network.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(network(step_rows), step_labels).backward()
            with torch.no_grad():
                for w, start in zip(parameters, shared):
                    w -= rate * (w.grad + pull * (w - start))
        with torch.no_grad():
            change = [w - start for w, start in zip(parameters, shared)]
            norm = torch.sqrt(sum((c * c).sum() for c in change))
            scale = torch.clamp(bound / norm, max=1.0)
            for t, c in zip(total, change):
                t += scale * c
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processor", action="store_true", help="one thread, processor seconds instead of the clock's")
    options = parser.parse_args()
    clock = time.process_time if options.processor else time.perf_counter
    if options.processor:
        torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    network = Network().to(device)
    shared = [w.detach().clone() for w in network.parameters()]
    rows = torch.rand(options.clients, STEPS, BATCH, 1, 28, 28, device=device)
    labels = torch.randint(0, CLASSES, (options.clients, STEPS, BATCH), device=device)
    print(json.dumps({"device": device, "torch": torch.__version__, "threads": torch.get_num_threads()}), flush=True)
    for _ in sys.stdin:
        start = clock()
        one_round(network, shared, rows, labels)
        if device == "cuda":
            torch.cuda.synchronize()
        print(clock() - start, flush=True)


if __name__ == "__main__":
    main()
