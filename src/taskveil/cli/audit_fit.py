"""taskveil audit fit: attack a configuration from the raw table, with the very options it is trained with."""

from __future__ import annotations

import json
import os
from contextlib import redirect_stderr
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli import fit
from taskveil.cli.flags import Given, flag
from taskveil.cli.options import LISTS, READING, answer
from taskveil.cli.progress import progress_bar
from taskveil.errors import OptionError

NOT_IN_A_REHEARSAL = ("ledger", "account", "insecure_noise_seed")  # accepted, so that a `fit` command can be pasted; not used
OWN_OPTIONS = (
    click.Option(["--observer"], type=click.Choice(["other-tasks", "server", "public"]), default="other-tasks",
                 show_default=True, help="The attacker."),
    click.Option(["--trials"], type=flag("--trials"), help="Runs with each of the two tables; default: about a minute of them."),
    click.Option(["--jobs"], type=flag("--jobs"), help="Number of processes; default: one per core."),
    click.Option(["--view"], type=click.Choice(["billboard", "releases"]), default="billboard", show_default=True,
                 help="What the attacker sees: the billboard, or the noisy sums behind it."),
    click.Option(["--canaries"], type=flag("--audit-canaries"), help="Rehearse one run with so many canary tasks, not many runs; "
                 "what that can show, and what it would cost a real run (fit --audit-canaries), is said first."),
)  # fmt: skip


def audit_fit(data: str, out: str | None, as_json: bool, **given: Any) -> int:
    """Attack what `fit DATA ...` does with the same options, from the raw table on; exit 1 when its claim is refuted.

    The table is trained on with and without a canary (a task, or a row) in its raw cells: with the same noise, to find what
    reaches others outside of releases, and many times with fresh noise, for a lower bound on epsilon. A rehearsal: no ledger is
    touched, nothing is saved but, with -o, the result. `refuted` by counting is wrong with probability at most 1e-6;
    `consistent` proves nothing.
    """
    looks = {name: given.pop(name) for name in ("trials", "view", "jobs", "canaries")}
    given |= dict.fromkeys(NOT_IN_A_REHEARSAL)
    estimator, tasks = fit.configured(data, None, given)
    many = looks["canaries"] is None
    attacked = _many_runs(estimator, data, given, looks) if many else _one_run(estimator, tasks, given, looks)
    if out is not None:
        keep(attacked.to_dict(), Path(out))
    answer(as_json, attacked.to_dict(), str(attacked))
    return 1 if attacked.refuted else 0


def _one_run(estimator: Any, tasks: Any, given: dict[str, Any], looks: dict[str, Any]) -> Any:
    from taskveil.audits import audit_one_run

    if looks["trials"] is not None:
        raise OptionError("--canaries makes one run; --trials is for the audit of many runs")
    return audit_one_run(
        estimator, tasks, canaries=looks["canaries"], seed=given["seed"], announce=lambda text: click.echo(text, err=True)
    )


def _many_runs(estimator: Any, data: str, given: dict[str, Any], looks: dict[str, Any]) -> Any:
    from taskveil.audits import audit_configured

    def quietly(source: Any, **_: Any) -> Any:
        with redirect_stderr(StringIO()):  # what reading announces was said once
            return fit.read(source, given)

    reading = {k: given[k] for k in READING} | {k: _listed(given[k]) for k in LISTS}
    with progress_bar(f"attacking {estimator._method().name}") as progress:
        return audit_configured(
            estimator, data, trials=looks["trials"], seed=given["seed"], view=looks["view"], progress=progress,
            jobs=looks["jobs"] or os.cpu_count() or 1, load=quietly, **reading,
        )  # fmt: skip


def _listed(names: str | None) -> list[str] | None:
    return [n.strip() for n in names.split(",")] if names else None


def keep(result: dict[str, Any], folder: Path) -> None:
    """Beside the model it is about, for its page; refused where the model there was configured differently."""
    from taskveil.audits.configuration import check_same, configuration
    from taskveil.estimators.storage import load

    if (folder / "model.json").exists():
        check_same(result, configuration(load(folder)), "this command")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.json").write_text(json.dumps(result, indent=1))


def _command() -> click.RichCommand:
    """The options of `fit`, whatever they are, and those of an audit."""
    assert fit.command.callback is not None
    of_fit_alone = signature(fit.command.callback).parameters  # folders, resuming, printing; what is left makes the estimator
    shared = [p for p in fit.command.params if p.name not in of_fit_alone]
    last = [
        click.Option(["-o", "--out"], type=Given(file_okay=False), help="Folder of the model, for audit.json."),
        next(p for p in fit.command.params if p.name == "as_json"),
    ]
    return click.RichCommand(
        name="audit fit", callback=audit_fit, params=[click.Argument(["data"]), *shared, *OWN_OPTIONS, *last],
        help=audit_fit.__doc__, epilog="Example: taskveil audit fit visits.csv --task hospital --target days --epsilon 1",
    )  # fmt: skip


command = _command()
