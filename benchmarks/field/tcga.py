"""Fed-TCGA-BRCA at FLamby's split: survival in six regions, concordance. Scores are those of experiments/tcga_brca."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from benchmarks.field.setting import OURS, Bar, Entry, Published, Setting

STORED, MEASURED = Path(__file__).parents[2] / "experiments" / "tcga_brca" / "results.json", "2026-11-16"
FIXED = -1  # the seed that stands for FLamby's own split


def stored(key: str, seed: int) -> float:
    """Concordance of a row of results.json on one of 20 random splits, or on FLamby's."""
    found = json.loads(STORED.read_text())
    return float((found["FLamby's split"] if seed == FIXED else found["splits"][str(seed)])[key])


def _entry(what: str, key: str, epsilon: float | None = None, sees: str = "") -> Entry:
    return Entry(what, OURS, partial(stored, key), epsilon, sees, MEASURED)


SETTING = Setting(
    name="tcga",
    title="Fed-TCGA-BRCA",
    source="du Terrail et al. 2022, FLamby; owkin/FLamby edacf54, results/",
    measure="concordance, mean over the six regions, on FLamby's split",
    guarantee="one patient's row, replace-one, delta 1e-6",
    protocol="1,088 patients, six regions, 39 features, FLamby's fixed split, on which theirs has five seeds of the optimiser; ours is deterministic without noise. "
    "The same rows on 20 random splits are in docs/outcomes.md: there `together` has .743 ± .043 and alone .729 ± .034, so .8 is this split's luck for everybody.",
    seeds=(FIXED,),
    published=(
        Published("FedAdam", 0.815, None, 0.026),
        Published("FedAdagrad", 0.813),
        Published("FedAvg", 0.732, None, 0.181),
        Published("Scaffold", 0.687),
        Published("pooled", 0.676, None, 0.095),
    ),
    entries=(
        _entry("alone", "local"),
        _entry("pooled", "pooled"),
        _entry("mean", "mean"),
        _entry("together", "together"),
        *(_entry("mean", f"mean, record, epsilon {e:g}", e, "the other regions") for e in (3.0, 1.0)),
        *(
            _entry(
                "mean, billboard alone", f"mean, record, epsilon {e:g}, public model", e, "everybody, finished models included"
            )
            for e in (3.0, 1.0)
        ),
    ),
    bars=(Bar("`together` without noise reaches FedAdam's .815", lambda s: s["together"] >= 0.815),),
    remarks=("No private figure is published for this setting; ours with noise lose against FedAdam without.",),
    peers="No peer is re-run: FLamby asks for a package `hashlib`, which is for Python 2, and prints its figures for this very split.",
)
