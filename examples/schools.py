"""Schools share what they have in common, with a budget that holds over several runs.

    python examples/schools.py [FOLDER]       uses the School data where it is on this machine, made-up schools otherwise
"""

from __future__ import annotations

import sys
from pathlib import Path

import taskveil as tv
from taskveil.errors import BudgetExceeded, EnvironmentMissing
from taskveil.privacy.ledger import Book, Key


def schools() -> tv.TaskSet:
    try:
        return tv.load_tasks("school")
    except EnvironmentMissing:
        print("The School data is not here (`taskveil data fetch school`); using made-up schools.")
        return tv.get_synthetic("tiny", seed=0, n_train=20).train


def main(folder: Path, tasks: tv.TaskSet | None = None) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    tasks = schools() if tasks is None else tasks
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    Book(ledger).set_limit(Key("schools", "task", "replace-one", "other-tasks"), 1.7, 1e-5)

    said = []
    for year in (1985, 1986, 1987):
        est = tv.TaskRegressor(method="mean", epsilon=1.0, ledger=ledger, account="schools")
        try:
            est.fit(tasks)
            said.append(f"{year}: trained; every school is protected with epsilon 1 in this run")
        except BudgetExceeded as refused:
            said.append(f"{year}: refused, nothing was released. {refused}")
    print("\n".join(said))
    return said


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "schools-example"))
