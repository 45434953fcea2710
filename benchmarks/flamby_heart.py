"""FLamby's own federated averaging (owkin/FLamby edacf54: flamby/strategies, with Opacus) on a split it is sent.

Runs in an interpreter that has torch and opacus (not ours) and finds a checkout of FLamby on its path. Reads a line for each run,
{"rows": an .npz of fit_X_0, fit_y_0, held_X_0 and so on, "epsilon": or null, "delta", "seed"}, and answers with the accuracy.
Numbers of rounds, batches, step and clip are those of flamby/dp_example.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import opacus
import torch
from flamby.datasets.fed_heart_disease import BATCH_SIZE, LR, NUM_CLIENTS, Baseline, BaselineLoss, get_nb_max_rounds, metric
from flamby.strategies import FedAvg
from torch.utils.data import DataLoader, TensorDataset

UPDATES, CLIP = 100, 1.1


def accuracy(rows: dict[str, np.ndarray], epsilon: float | None, delta: float, seed: int) -> float:
    torch.manual_seed(seed)
    arrays = [{part: torch.from_numpy(rows[f"{part}_{k}"]).float() for part in PARTS} for k in range(NUM_CLIENTS)]
    loaders = [DataLoader(TensorDataset(a["fit_X"], a["fit_y"][:, None]), batch_size=BATCH_SIZE, shuffle=True) for a in arrays]
    private = {} if epsilon is None else {"dp_target_epsilon": epsilon, "dp_target_delta": delta, "dp_max_grad_norm": CLIP}
    strategy = FedAvg(
        loaders, Baseline(), BaselineLoss(), torch.optim.SGD, LR, UPDATES, get_nb_max_rounds(UPDATES), seed=seed, **private
    )
    model = strategy.run()[0].eval()
    with torch.no_grad():
        return float(np.mean([metric(a["held_y"][:, None].numpy(), model(a["held_X"]).numpy()) for a in arrays]))


PARTS = ("fit_X", "fit_y", "held_X", "held_y")


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(json.dumps({"torch": torch.__version__, "opacus": opacus.__version__}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        with np.load(asked["rows"]) as rows:
            print(accuracy(dict(rows), asked["epsilon"], asked["delta"], asked["seed"]), flush=True)


if __name__ == "__main__":
    main()
