"""taskveil demo: synthetic hospitals, alone, pooled and private at several epsilons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli.flags import Given, flag
from taskveil.cli.options import answer, json_option, written_page
from taskveil.cli.progress import progress_bar

EPSILONS = (0.3, 1.0, 3.0, None)
NAMES = {
    "constant": "the mean for everybody", "local": "each hospital alone", "pooled": "all rows in one place, one model",
    "subspace": "together",
}  # fmt: skip
TRIALS = 300  # of each neighbour, for the audit of the saved run


@click.command("demo", epilog="Example: taskveil demo --out demo-report")
@click.option("--out", default="taskveil-demo", show_default=True, type=Given(), help="Folder for page and certificate.")
@click.option("--seed", type=flag("--seed"), default=0, show_default=True)
@click.option("--repeats", type=flag("--repeats"), default=5, show_default=True)
@json_option
def command(out: str, seed: int, repeats: int, as_json: bool) -> None:
    """Predict the length of stay in a hundred made-up hospitals: alone, pooled, and together in private."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    result = run(seed, repeats)
    (folder / "results.json").write_text(json.dumps(result, indent=1))
    estimator = private_run(seed, folder)
    (folder / "audit.json").write_text(json.dumps(attack(estimator, seed), indent=1))
    certificate = estimator.certificate_
    page = written_page(lambda report: report.write_comparison(result, folder, estimator))
    result["certificate"] = json.loads(certificate.to_json())
    lines = [words(result), "", table(result), "", "One run with real randomness was saved in full. Its certificate:"]
    lines += [str(certificate), "", *([f"page:         {page}"] if page else [])]
    lines += [f"certificate:  {folder / 'model' / 'certificate.json'}", f"check it:     taskveil certify {folder / 'model'}"]
    answer(as_json, result, "\n".join(lines))


def run(seed: int, repeats: int) -> dict[str, Any]:
    """Fresh hospitals every repeat; all figures on rows nobody trained on."""
    from taskveil import methods
    from taskveil.estimators.compare import compare
    from taskveil.tasks.synthetic import get_synthetic

    def draw(repeat: int) -> tuple[Any, Any]:
        data = get_synthetic("hospitals", seed=seed + repeat)
        return data.train, data.test

    chosen = [methods.get(name) for name in ("local", "pooled", "subspace")]
    with progress_bar("training") as progress:
        result = compare(draw, chosen, EPSILONS, repeats=repeats, metric="nmse", seed=seed, progress=progress)
    result["data"]["name"] = "synthetic:hospitals"
    result["title"] = f"Demo: {result['data']['tasks']} made-up hospitals predict the length of a stay"
    return result


def attack(estimator: Any, seed: int) -> dict[str, Any]:
    """The saved run's own configuration, attacked from its table on."""
    from taskveil.audits import audit_configured
    from taskveil.tasks.synthetic import get_synthetic

    table = get_synthetic("hospitals", seed=seed).train
    with progress_bar("attacking") as progress:
        return audit_configured(estimator, table, trials=TRIALS, seed=seed, progress=progress).to_dict()


def private_run(seed: int, folder: Path) -> Any:
    """One run with noise from the operating system, saved with its certificate."""
    from taskveil.estimators import TaskRegressor
    from taskveil.tasks.synthetic import get_synthetic

    estimator = TaskRegressor(method="subspace", epsilon=1.0, seed=seed).fit(get_synthetic("hospitals", seed=seed).train)
    estimator.save(folder / "model")
    return estimator


def table(result: dict[str, Any]) -> str:
    """One row per setting, in words."""
    lines = [f"{'':<34}{'epsilon for one whole hospital':<33}error on new patients"]
    for r in result["results"]:
        without = "- (nothing is shared)" if r["method"] == "local" else "- (no privacy)"
        epsilon = without if r["epsilon"] is None else f"{r['epsilon']:g}"
        lines.append(f"{NAMES[r['method']]:<34}{epsilon:<33}{r['mean']:.3f} +- {r['std']:.3f}")
    caption = "Each epsilon: all data of one hospital, replaced by any other, against all other hospitals together; delta 1e-05."
    return "\n".join(lines) + f"\n(mean +- spread over {result['repeats']} draws of the hospitals)\n{caption}"


def words(result: dict[str, Any]) -> str:
    """The table in one sentence a newcomer understands."""
    by = {(r["method"], r["epsilon"]): r["mean"] for r in result["results"]}
    alone, private = by[("local", None)], by[("subspace", 1.0)]
    return (
        f"{result['data']['tasks']} made-up hospitals predict the length of a stay from {result['data']['features']} columns.\n"
        f"Error on new patients (share of variance left): each hospital alone {alone:.3f}, together in private "
        f"(epsilon 1) {private:.3f}: {100 * (1 - private / alone):.0f} % lower."
    )
