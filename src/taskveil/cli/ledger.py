"""taskveil ledger: budgets and spending over all runs."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import click
import rich_click

from taskveil.cli.flags import Given, check_output, choice, flag
from taskveil.cli.options import answer, json_option, put_out

ledger_url = click.option(
    "--ledger", "url", default="sqlite:///taskveil-ledger.db", show_default=True, envvar="TASKVEIL_LEDGER",
    help="sqlite:///file or postgresql://host/name.",
)  # fmt: skip
sentence = (
    choice("--unit", ["task", "record"]),
    choice("--neighbours", ["replace-one", "add-remove"]),
    choice("--observer", ["other-tasks", "server", "public"]),
)

NO_ACCOUNT = "no accounts yet; open one with: taskveil ledger set NAME --epsilon E --delta D"
EXPLAIN_PARALLEL = (
    "Accounts of disjoint sets of tasks do not add up: with unit 'task' or 'record', one person or task is in one of them "
    "only, so the most anybody has spent is the largest figure (parallel composition). This is true only if no task, "
    "and no person, is in two of the sets; nothing here can check that."
)


@click.group("ledger", cls=rich_click.RichGroup)
def command() -> None:
    """Manage budgets over several runs, processes and machines."""


@command.command("set", epilog="Example: taskveil ledger set hospitals-2026 --epsilon 3 --delta 1e-5")
@click.argument("name", type=flag("--account"))
@click.option("--epsilon", type=flag("--epsilon"), required=True)
@click.option("--delta", type=flag("--delta"), required=True)
@click.option(
    "--rule",
    type=click.Choice(["gaussian"]),
    help="How runs add up: 'gaussian' is exact, for unsampled Gaussian releases only; set once. Default: by the first run.",
)
@sentence[0]
@sentence[1]
@sentence[2]
@ledger_url
@json_option
def set_limit(
    name: str, epsilon: float, delta: float, rule: str | None, unit: str, neighbours: str, observer: str, url: str, as_json: bool
) -> None:
    """Open account NAME, or change its limit."""
    from taskveil.privacy.ledger import Book, Key

    key = Key(name, unit, neighbours, observer)
    Book(url).set_limit(key, epsilon, delta, rule)
    printed = {"account": name, "unit": unit, "neighbours": neighbours, "observer": observer, "epsilon": epsilon, "delta": delta}
    answer(as_json, printed, f"account {key}: at most epsilon {epsilon:g} at delta {delta:g} over all runs")


@command.command("show", epilog="Example: taskveil ledger show hospitals-2026")
@click.argument("names", nargs=-1)
@click.option("--disjoint", is_flag=True, help="Also show the total of accounts whose task sets are disjoint.")
@ledger_url
@json_option
def show(names: tuple[str, ...], disjoint: bool, url: str, as_json: bool) -> None:
    """Show what is spent and left, the runs, and what the next run would cost."""
    from taskveil.errors import UnknownName
    from taskveil.privacy.ledger import Book
    from taskveil.privacy.ledger.overview import describe

    book = Book(url)
    rows = [r for r in book.accounts() if not names or r.name in names]
    missing = sorted(set(names) - {r.name for r in rows})
    if missing:
        raise UnknownName(f"no account {missing[0]!r} in this ledger")
    described = [describe(book, row) for row in rows]
    result: dict[str, Any] = {"accounts": described}
    if disjoint:
        result["together"] = {"epsilon": max((d["spent"] or math.inf for d in described), default=0.0), "why": EXPLAIN_PARALLEL}
    lines = [words(d) for d in described] or [NO_ACCOUNT]
    lines += [f"\ntogether: epsilon {result['together']['epsilon']:.4g}. {EXPLAIN_PARALLEL}"] if disjoint else []
    answer(as_json, result, "\n".join(lines))


@command.command("export", epilog="Example: taskveil ledger export hospitals-2026 -o entries.json")
@click.argument("name", required=False)
@ledger_url
@click.option("-o", "--out", type=Given(dir_okay=False), help="File; default: stdout.")
@click.option("--json", is_flag=True, expose_value=False, help="Accepted, but not needed: the export is always JSON.")
def export(name: str | None, url: str, out: str | None) -> None:
    """Print all entries as JSON, with their hashes. A run has the same id in every account that it is charged to."""
    from taskveil.privacy.ledger import Book, Key

    check_output(out, url.removeprefix("sqlite:///"))
    book = Book(url)
    rows = [row for row in book.accounts() if name is None or row.name == name]
    names = Counter(row.name for row in rows)
    with book.database.errors():
        document = {
            row.name if names[row.name] == 1 else str(Key.of(row)): [
                {"number": e.number, "run": e.run, "kind": e.kind, "release": e.release, "body": json.loads(e.body),
                 "at": e.at, "previous": e.previous, "hash": e.hash}
                for e in book.rows(row.id)
            ]
            for row in rows
        }  # fmt: skip
        put_out(json.dumps(document, indent=1) + "\n", out)


@command.command("verify", epilog="Example: taskveil ledger verify --ledger sqlite:///budget.db")
@ledger_url
@json_option
def verify(url: str, as_json: bool) -> int:
    """Check the hash chain and recompute every column. Exit with 1 if something was changed."""
    from taskveil.privacy.ledger import Book
    from taskveil.privacy.ledger.database import check_there

    check_there(url)
    problems = Book(url).verify()
    lines = ["THE LEDGER WAS CHANGED:", *(f"  {problem}" for problem in problems)] if problems else ["the ledger is whole"]
    answer(as_json, {"ok": not problems, "problems": problems}, "\n".join(lines))
    return 1 if problems else 0


@command.command("report", epilog="Example: taskveil ledger report -o ledger.html")
@ledger_url
@click.option("-o", "--out", type=Given(dir_okay=False), help="File for a page with spending over time, or for the export.")
@click.option(
    "--export",
    "form",
    type=click.Choice(["nist", "registry", "mlbom"]),
    help="Write a NIST SP 800-226 check list, OpenDP registry records or a CycloneDX bill of all runs, not a page.",
)
@json_option
def report(url: str, out: str | None, form: str | None, as_json: bool) -> int:
    """Report all runs of an organisation: accounts, limits, spending over time, and which run will be refused next."""
    from taskveil.privacy.ledger import Book
    from taskveil.privacy.ledger.overview import report as accounts_of
    from taskveil.report import ledger_page

    check_output(out, url.removeprefix("sqlite:///"))
    accounts = accounts_of(Book(url))
    if form is not None:
        return export_books(form, url, accounts, out, as_json)
    if out is not None:
        put_out(ledger_page.page(accounts), out)
    lines = [f"{words(account)}\n  then   {ledger_page.words(account)}" for account in accounts] or [NO_ACCOUNT]
    answer(as_json, {"accounts": accounts, "page": out}, "\n".join(lines if out is None else [*lines, f"page: {out}"]))
    return 0


def export_books(form: str, url: str, accounts: list[dict[str, Any]], out: str | None, as_json: bool) -> int:
    """The books in another form, checked first; exit code 1 where they were changed, and the document says so too."""
    from datetime import UTC, datetime

    from taskveil.errors import OptionError
    from taskveil.privacy.ledger import Book
    from taskveil.report.exports import BOOKS, Books

    if as_json and out is None:
        raise OptionError("--export prints a document of its own; give -o FILE beside --json")
    problems = tuple(Book(url).verify())
    put_out(BOOKS[form](Books(accounts, problems, f"{datetime.now(UTC):%Y-%m-%d}")), out)
    if out is not None:
        answer(as_json, {"export": form, "file": out, "whole": not problems}, f"wrote {out} ({form})")
    return 1 if problems else 0


@command.command("close", epilog="Example: taskveil ledger close RUN --account hospitals-2026")
@click.argument("run")
@click.option("--account", type=flag("--account"), required=True)
@sentence[0]
@sentence[1]
@sentence[2]
@ledger_url
@json_option
def close(run: str, account: str, unit: str, neighbours: str, observer: str, url: str, as_json: bool) -> None:
    """End a run that was killed and will not be resumed. What it reserved and never used goes back."""
    from taskveil.privacy.ledger import Book, Key

    Book(url).finish(Key(account, unit, neighbours, observer), run)
    told = {"run": run, "account": account, "finished": True}
    answer(as_json, told, f"run {run} is finished; it can make no further release")


def words(d: dict[str, Any]) -> str:
    from taskveil.privacy.ledger.overview import amount

    lines = [
        f"{d['account']}: one {d['unit']} ({d['neighbours']} neighbours) against {d['observer']}",
        f"  limit  epsilon {d['limit']:g} at delta {d['delta']:g} (composed by {d['rule']})",
        f"  spent  epsilon {amount(d['spent'])} in {d['runs']} run(s), {d['releases']} release(s)",
        f"  left   epsilon {d['left']:.4g}",
    ]
    if d["next_run"] is not None:
        fits = "" if d["next_run_fits"] else ", which would be refused"
        lines.append(f"  next   a run like the last one would bring it to epsilon {amount(d['next_run'])}{fits}")
    if d["runs_not_counted"]:
        lines.append(f"  beside {d['runs_not_counted']} run(s) of {d['account']} promise nothing here and are not in it")
    if d["open_runs"]:
        lines.append(f"  open   {', '.join(d['open_runs'])} (running, or killed: resume it, or `ledger close` it)")
    return "\n".join(lines)
