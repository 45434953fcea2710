"""Which files a call passes: four walks through the package, and the picture of one `fit` in docs/architecture.md.

    python -m tools.walk            count files and functions of the four walks
    python -m tools.walk --write    the same, and write the picture and its list again

A walk is traced with `sys.setprofile` after the same call was made once, so that imports and caches do not count. Compiled
loops and JAX's traced code do not show. The list is docs/pictures/walk-of-a-fit.json; tests/integration/test_architecture.py
compares it with a fresh trace and the picture with the list.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.walk_picture import draw

import taskveil as tv

ROOT = Path(__file__).parents[1]
SOURCE = f"{ROOT / 'src' / 'taskveil'}{os.sep}"
LIST, PICTURE = (ROOT / "docs" / "pictures" / f"walk-of-a-fit.{kind}" for kind in ("json", "svg"))
FUNCTION = 1  # CO_OPTIMIZED: set for functions, not for the bodies of modules and classes
Walk = list[tuple[str, str]]  # (file, function), in the order of the calls

STAGES = {  # title: the call with which it begins
    "check the options": ("estimators/base.py", "TaskEstimator.fit"),
    "read the rows": ("estimators/inputs.py", "tasks_of"),
    "prepare": ("estimators/common_units.py", "chosen_units"),
    "plan from public sizes": ("estimators/base.py", "TaskEstimator._public"),
    "reserve the budget": ("estimators/base.py", "TaskEstimator._run"),
    "task step": ("runtime/round.py", "task_step"),
    "clip, charge, add noise": ("runtime/round.py", "released"),
    "server step": ("methods/base.py", "ServerSide.step"),
    "each task finishes alone": ("methods/shared_prior.py", "WeighingTasks.finish"),
    "certify": ("estimators/base.py", "TaskEstimator._keep"),
}


def traced(call: Callable[[], object]) -> Walk:
    """Every call of a function of ours, in order; the second of two equal calls."""
    call()
    walk: Walk = []

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_flags & FUNCTION and code.co_filename.startswith(SOURCE):
            walk.append((code.co_filename[len(SOURCE) :].replace(os.sep, "/"), code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return walk


def counts(walk: Walk) -> dict[str, int]:
    named = {step for step in walk if "<" not in step[1].split(".")[-1]}  # without lambdas and comprehensions
    return {"files": len({file for file, _ in walk}), "functions": len(named)}


def by_stage(walk: Walk) -> dict[str, list[str]]:
    """The files passed in each stage of a fit."""
    begins, now = {call: title for title, call in STAGES.items()}, next(iter(STAGES))
    passed: dict[str, set[str]] = {}
    for step in walk:
        now = begins.get(step, now)
        passed.setdefault(now, set()).add(step[0])
    missing = [title for title in STAGES if title not in passed]
    if missing:
        raise SystemExit(f"no call begins the stage {missing[0]!r}: STAGES of tools/walk.py must follow the code")
    return {title: sorted(passed[title]) for title in STAGES}


def fit() -> Callable[[], object]:
    data = tv.get_synthetic("hospitals", seed=0).train
    names = [data.task_names[i] for i in data.task_of_row()]
    return lambda: tv.TaskRegressor("subspace", epsilon=5.0).fit(data.X, data.y, names)


def fit_with_ledger(folder: str) -> Callable[[], object]:
    """The command, from its arguments to what it prints."""
    import pandas as pd

    data, book = tv.get_synthetic("hospitals", n_tasks=10, seed=0).train, f"sqlite:///{folder}/ledger.db"
    table = pd.DataFrame(data.X, columns=data.feature_names)
    table["hospital"], table["days"] = [data.task_names[i] for i in data.task_of_row()], data.y
    table.to_csv(f"{folder}/visits.csv", index=False)
    _command("ledger", "set", "h", "--epsilon", "9", "--delta", "1e-2", "--ledger", book)
    asked = f"fit {folder}/visits.csv --task hospital --target days --epsilon 1 --ledger {book} --account h --json"
    return lambda: _command(*asked.split())


def site_message() -> Callable[[], object]:
    """From the packet a site gets to the packet it sends, noise included."""
    from tests.support.sites import make_site, question, run_of

    sites = [make_site(run_of(aggregation="local")) for _ in range(2)]
    packets = [question(site) for site in sites]
    return lambda: sites.pop().handle(packets.pop())


def neural_round() -> Callable[[], object]:
    """A fit of one round; shapes are compiled by the first call."""
    data = tv.get_synthetic("hospitals", n_tasks=10, seed=0).train
    method = tv.methods.get("mean", model="mlp", rounds=1)
    return lambda: tv.TaskRegressor(method, epsilon=1.0).fit(data)


def _command(*arguments: str) -> None:
    from taskveil.cli.main import run

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as words:
        try:
            run(list(arguments))
        except SystemExit as end:
            if end.code:
                raise RuntimeError(words.getvalue()) from None


def all_walks() -> dict[str, Walk]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "fit": traced(fit()),
            "fit --ledger": traced(fit_with_ledger(folder)),
            "one site message": traced(site_message()),
            "one neural round": traced(neural_round()),
        }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--write", action="store_true", help="write the picture and its list")
    asked.add_argument("--json", action="store_true", help="print counts and stages as JSON")
    options = asked.parse_args()
    walks = all_walks()
    stages, sums = by_stage(walks["fit"]), {name: counts(walk) for name, walk in walks.items()}
    if options.write:
        LIST.write_text(json.dumps(stages, indent=1) + "\n")
        PICTURE.write_text(draw(stages))
    if options.json:
        print(json.dumps({"stages": stages, "counts": sums}))
        return
    for name, numbers in sums.items():
        print(f"{name:18} {numbers['files']:4} files {numbers['functions']:5} functions")


if __name__ == "__main__":
    main()
