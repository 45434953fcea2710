"""The alternative that `benchmarks/neural.py` is compared with: pfl 0.6 (Apple), simulated in one process.

Runs in an interpreter that has pfl and torch (not ours: pfl cannot share an environment with dp-accounting 0.6). Reads one line
per round from standard input and answers with the seconds of one central iteration: federated averaging over all clients,
norm clipping, the sum. No evaluation and no noise, because our round ends at the clipped sum as well.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.algorithm_utils import run_train_eval
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism, NormClippingOnly
from pfl.version import __version__

STEPS, BATCH, CLASSES = 5, 16, 62


class Network(torch.nn.Module):
    """The same network as in neural_torch.py, with the two methods pfl asks for."""

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

    def loss(self, x, y):
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {}


def simulation(clients: int):
    """A function that runs one central iteration over all clients."""
    torch.manual_seed(0)
    network = Network()
    data = {
        f"client-{k}": Dataset((torch.rand(STEPS * BATCH, 1, 28, 28), torch.randint(0, CLASSES, (STEPS * BATCH,))))
        for k in range(clients)
    }
    sampler = get_user_sampler("minimize_reuse", list(data))
    federated = FederatedDataset(lambda user: data[user], sampler)
    clip = CentrallyAppliedPrivacyMechanism(NormClippingOnly(order=2, clipping_bound=1.0))
    backend = SimulatedBackend(federated, None, postprocessors=[clip])
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0))
    algorithm = FederatedAveraging()
    never = 10**9
    settings = NNAlgorithmParams(
        central_num_iterations=never, evaluation_frequency=never, train_cohort_size=clients, val_cohort_size=0
    )
    training = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.1, local_batch_size=BATCH)
    number = [1]  # iteration 0 would evaluate

    def iteration() -> int:
        contexts, _, _ = algorithm.get_next_central_contexts(
            model, number[0], settings, training, NNEvalHyperParams(local_batch_size=None)
        )
        number[0] += 1
        ((statistics, _),) = run_train_eval(algorithm, backend, model, contexts)
        return int(statistics.num_parameters)

    return iteration


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processor", action="store_true", help="one thread, processor seconds instead of the clock's")
    options = parser.parse_args()
    clock = time.process_time if options.processor else time.perf_counter
    if options.processor:
        torch.set_num_threads(1)
    np.random.seed(0)
    iteration = simulation(options.clients)
    about = {"pfl": __version__, "torch": torch.__version__, "threads": torch.get_num_threads(), "parameters": iteration()}
    print(json.dumps(about), flush=True)
    for _ in sys.stdin:
        start = clock()
        iteration()
        print(clock() - start, flush=True)


if __name__ == "__main__":
    main()
