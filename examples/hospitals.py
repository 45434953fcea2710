"""A hundred hospitals predict the length of a stay; a whole hospital is protected against all others together.

    python examples/hospitals.py [FOLDER]       writes models, certificate and three pages
"""

from __future__ import annotations

import sys
from pathlib import Path

import taskveil as tv
from taskveil.report import report_folder, write_report
from taskveil.report.audience import Audience


def main(folder: Path) -> dict[str, float]:
    data = tv.get_synthetic("hospitals", seed=7)
    ids = [data.test.task_names[i] for i in data.test.task_of_row()]

    errors = {}
    for name, epsilon in (("local", None), ("subspace", 1.0), ("subspace", 5.0)):
        est = tv.TaskRegressor(method=name, epsilon=epsilon).fit(data.train)
        errors[f"{name} {epsilon}"] = 1 - est.score(data.test.X, data.test.y, task=ids)

    est.save(folder)
    write_report(est, folder)  # for someone entitled to all rows
    report_folder(folder, Audience("owner", "hospital-001"))  # that hospital's own figures only
    report_folder(folder, Audience("public"))  # what everybody saw anyway

    print(est.certificate_)
    for name, error in errors.items():
        print(f"{name:<16} share of variance left {error:.3f}")

    # A hospital that was not there at training: from the public billboard and its own rows; nothing is sent.
    late = tv.get_synthetic("hospitals", seed=8).train
    rows = late.rows(0)
    adapted = est.adapt(late.X[rows], late.y[rows], name="late-hospital")
    print("late hospital, first predictions:", adapted.predict(late.X[rows][:3], task=["late-hospital"] * 3).round(1))
    return errors


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "hospitals-example"))
