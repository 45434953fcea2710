"""taskveil certify: does a saved guarantee follow from the run beside it, and who says so?"""

from __future__ import annotations

import json
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli.flags import Given, flag
from taskveil.cli.options import answer, json_option, print_json, put_out
from taskveil.errors import CheckFailed, DataError, OptionError
from taskveil.privacy.fingerprint import same_code, short_code

UNSIGNED = (
    "unsigned: evidence, not proof. The files fit together, but whoever can write all of them can write others. "
    "Sign with `taskveil fit --sign KEY`."
)
SIGNED = "signed by the key {0}: every file is as its holder left it"
SOMEBODY = "signed by the key {0}, which anybody may have made: compare it with the public key you were given (--key PUB)"
ALONE = "a certificate by itself: consistent with its own events; no run, signature or ledger was compared"


@click.command("certify", epilog="Example: taskveil certify model/ --key hospital.pub --ledger sqlite:///budget.db")
@click.argument("directory", type=Given(exists=True), required=False)
@click.option("--key", type=Given(exists=True, dir_okay=False), help="Public key that the folder's signature must match.")
@click.option("--ledger", help="Also compare with this ledger, for example sqlite:///budget.db.")
@click.option("--make-key", type=Given(), metavar="NAME", help="Only write keys: NAME.key (keep it), NAME.pub (give it away).")
@click.option("--at-delta", type=flag("--at-delta"), metavar="D", help="Restate every guarantee at this delta, to compare runs.")
@click.option("--code", help="Short code of a printed page: check that it belongs to this certificate.")
@click.option(
    "--export",
    "form",
    type=click.Choice(["nist", "registry", "mlbom"]),
    help="Write the evidence as a NIST SP 800-226 check list, an OpenDP registry record or a CycloneDX model card.",
)
@click.option("-o", "--out", type=Given(dir_okay=False), help="File of --export; default: stdout.")
@click.option(
    "--with-figures",
    is_flag=True,
    help="In the nist export: also errors and bias. No epsilon covers these statistics of rows, so do not pass them on.",
)
@click.option(
    "--groups",
    type=Given(exists=True, dir_okay=False),
    metavar="FILE",
    help="With --with-figures: declared groups of tasks, {task: group} in JSON or TOML.",
)
@json_option
def command(
    directory: str | None, key: str | None, ledger: str | None, make_key: str | None, at_delta: float | None, code: str | None,
    form: str | None, out: str | None, with_figures: bool, groups: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Recompute the certificate in DIRECTORY from the recorded run and compare. Exit with 1 if it does not hold."""
    if make_key is not None and any((directory, key, ledger, at_delta, code, form, out, with_figures, groups)):
        raise OptionError("--make-key NAME makes a key and checks nothing: leave out all else but --json")
    if make_key is not None:
        return _make_key(make_key, as_json)
    if directory is None:
        raise click.UsageError("Missing argument 'DIRECTORY' (or --make-key NAME).")
    if out is not None and form is None:
        raise OptionError("-o is the file of --export FORM; without it nothing is written")
    if (with_figures and form != "nist") or (groups and not with_figures):
        raise OptionError("--with-figures goes with --export nist, and --groups with --with-figures")
    path = Path(directory)
    if path.name == "certificate.json" and (path.parent / "model.json").exists():
        path = path.parent
    if not path.is_dir() and (key or ledger):
        raise OptionError("--key and --ledger need the folder of a run, not a certificate by itself")
    checked, notes, signer = _checked(path, key, ledger) if path.is_dir() else _alone(path)
    own_code = short_code(checked.certificate.to_dict())
    if code is not None and not same_code(code, own_code):
        other = f"the code {code} is not this certificate's, which is {own_code}"
        checked = replace(checked, problems=(*checked.problems, other))
    holds, problems = not checked.problems, list(checked.problems)
    from taskveil.privacy import profile

    restated = profile.at_delta(checked.certificate, at_delta) if at_delta is not None else None
    if form is not None:
        rows = {"figures": with_figures, "groups": Path(groups) if groups else None}
        _export(form, path, out, checked, ledger, signer, as_json, rows)
    elif as_json:
        document = json.loads(checked.certificate.to_json())
        more = {} if restated is None else {"at_delta": restated}
        told = {"holds": holds, "problems": problems, "signed_by": signer, "code": own_code, "notes": notes, **more}
        print_json({**told, "profiles": curves(checked.certificate), "certificate": document})
    else:
        click.echo(str(checked.certificate))
        click.echo("\n".join(line for s in checked.certificate.statements for line in checked.certificate.profile(s).lines()))
        click.echo("\n".join(_restated(r) for r in restated or ()), nl=bool(restated))
        click.echo("verified: every statement follows from the recorded run" if holds else "DOES NOT HOLD:")
        notes = [*notes, f"code {own_code}"]
        for text in [f"  {p}" for p in problems] + [f"note: {n}" for n in notes]:
            click.echo(text)
    return 0 if holds else 1


def _checked(folder: Path, key: str | None, ledger: str | None) -> tuple[Any, list[str], str | None]:
    """The folder's files against each other, the signature and the ledger."""
    from taskveil.estimators.check_folder import check_folder, partly_readable
    from taskveil.privacy import signing

    public = signing.public_key(key) if key else None
    wrong, signer = signing.signature_problems(folder, public)
    try:
        checked = check_folder(folder, ledger)
    except DataError as unreadable:  # no slip of the reader's where a signature or another file says that it was readable
        if not wrong and not partly_readable(folder):
            raise
        raise CheckFailed("; ".join([*wrong[:1], str(unreadable)])) from None
    notes = list(checked.notes)
    if not wrong and not checked.problems:
        notes.append((UNSIGNED if signer is None else SIGNED if public else SOMEBODY).format(signer))
        later = signing.unsigned_files(folder) if signer is not None else []
        notes += [f"not covered by the signature: {', '.join(later[:5])}"] if later else []
    return replace(checked, problems=(*wrong, *checked.problems)), notes, signer


def curves(certificate: Any) -> list[dict[str, Any]]:
    """The curve of every statement; nothing that is not finite."""
    made = [certificate.profile(s).to_dict() for s in certificate.statements]
    return [{k: [p for p in v if isfinite(p[1])] if k == "epsilons" else v for k, v in c.items()} for c in made]


def _restated(r: dict[str, Any]) -> str:
    from taskveil.privacy.statement import up

    epsilon = "no finite epsilon" if r["epsilon"] is None else f"epsilon {up(r['epsilon'])}"
    one = f"one {r['unit']}" + (f" of the {r['tasks']} with epsilon {r['at_stated_delta']:g}" if "tasks" in r else "")
    void = "" if r["holds"] else " (the claim does not hold)"
    return f"Restated: {epsilon} at delta {r['delta']:g} for {one} ({r['neighbours']}) against {r['observer']}{void}."


def _export(
    form: str, path: Path, out: str | None, checked: Any, ledger: str | None, signer: str | None, as_json: bool,
    rows: dict[str, Any],
) -> None:  # fmt: skip
    """The evidence in another form, whatever it says; the exit code says whether it holds."""
    from taskveil.report.exports import EXPORTS, gather

    if not path.is_dir():
        raise OptionError("--export needs the folder of a run, not a certificate by itself")
    if as_json and out is None:
        raise OptionError("--export prints a document of its own; give -o FILE beside --json")
    if out is not None and Path(out).exists() and Path(out).resolve().parent == path.resolve():
        raise OptionError(f"{Path(out).name} is a file of the run that the export is about: write it somewhere else (-o FILE)")
    put_out(EXPORTS[form](gather(path, checked.certificate, checked.problems, ledger, signer, **rows)), out)
    if as_json:
        print_json({"export": form, "file": out, "holds": not checked.problems})
    elif out is not None:
        click.echo(f"wrote {out} ({form})" + ("" if not checked.problems else ": DOES NOT HOLD"))


def _alone(path: Path) -> tuple[Any, list[str], None]:
    from taskveil.estimators import legacy
    from taskveil.estimators.check_folder import Checked
    from taskveil.privacy.certificate import Certificate
    from taskveil.saved import read_bytes, total

    with total(str(path)):
        certificate = Certificate.from_json(read_bytes(path).decode())
    return Checked(certificate, (*legacy.certificate_problems(certificate), *certificate.verify().problems)), [ALONE], None


def _make_key(name: str, as_json: bool) -> int:
    from taskveil.privacy.signing import fingerprint, make_key, public_key

    private, public = make_key(name)
    digits = fingerprint(public_key(public))
    made = {"private": str(private), "public": str(public), "fingerprint": digits}
    answer(as_json, made, f"wrote {private}, which signs and stays here, and {public} ({digits}) to give away")
    return 0
