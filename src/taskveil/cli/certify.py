"""taskveil certify: does a saved guarantee follow from the run beside it, and who says so?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli.options import json_option, print_json
from taskveil.errors import OptionError

UNSIGNED = (
    "unsigned: evidence, not proof. The files fit together, but whoever can write all of them can write others. "
    "Sign with `taskveil fit --sign KEY`."
)
SIGNED = "signed by the key {0}: every file is as its holder left it"
SOMEBODY = "signed by the key {0}, which anybody may have made: compare it with the public key you were given (--key PUB)"
ALONE = "a certificate by itself: consistent with its own events; no run, signature or ledger was compared"


@click.command("certify", epilog="Example: taskveil certify model/ --key hospital.pub --ledger sqlite:///budget.db")
@click.argument("directory", type=click.Path(exists=True), required=False)
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Public key that must have signed the folder.")
@click.option("--ledger", help="Compare with the books too, for example sqlite:///budget.db.")
@click.option("--make-key", metavar="NAME", help="Write NAME.key (keep it) and NAME.pub (give it away), and stop.")
@json_option
def command(directory: str | None, key: str | None, ledger: str | None, make_key: str | None, as_json: bool) -> int:
    """Make the certificate in DIRECTORY again from its run and compare; exit 1 when it does not hold."""
    if make_key is not None:
        return _make_key(make_key, as_json)
    if directory is None:
        raise click.UsageError("Missing argument 'DIRECTORY' (or --make-key NAME).")
    path = Path(directory)
    if path.name == "certificate.json" and (path.parent / "model.json").exists():
        path = path.parent
    if not path.is_dir() and (key or ledger):
        raise OptionError("--key and --ledger need the folder of a run, not a certificate by itself")
    checked, notes, signer = _checked(path, key, ledger) if path.is_dir() else _alone(path)
    holds, problems = not checked.problems, list(checked.problems)
    if as_json:
        document = json.loads(checked.certificate.to_json())
        print_json({"holds": holds, "problems": problems, "signed_by": signer, "notes": notes, "certificate": document})
    else:
        click.echo(str(checked.certificate))
        click.echo("verified: every statement follows from the recorded run" if holds else "DOES NOT HOLD:")
        for text in [f"  {p}" for p in problems] + [f"note: {n}" for n in notes]:
            click.echo(text)
    return 0 if holds else 1


def _checked(folder: Path, key: str | None, ledger: str | None) -> tuple[Any, list[str], str | None]:
    """The folder's files against each other, the signature and the ledger."""
    from dataclasses import replace

    from taskveil.estimators.check_folder import check_folder
    from taskveil.privacy import signing

    public = signing.public_key(key) if key else None
    wrong, signer = signing.signature_problems(folder, public)
    checked = check_folder(folder, ledger)
    notes = list(checked.notes)
    if not wrong and not checked.problems:
        notes.append((UNSIGNED if signer is None else SIGNED if public else SOMEBODY).format(signer))
        later = signing.unsigned_files(folder) if signer is not None else []
        notes += [f"not covered by the signature: {', '.join(later[:5])}"] if later else []
    return replace(checked, problems=(*wrong, *checked.problems)), notes, signer


def _alone(path: Path) -> tuple[Any, list[str], None]:
    from taskveil.estimators import legacy
    from taskveil.estimators.check_folder import Checked
    from taskveil.privacy.certificate import Certificate
    from taskveil.saved import total

    with total(str(path)):
        certificate = Certificate.from_json(path.read_text())
    return Checked(certificate, (*legacy.certificate_problems(certificate), *certificate.verify().problems)), [ALONE], None


def _make_key(name: str, as_json: bool) -> int:
    from taskveil.privacy.signing import fingerprint, make_key, public_key

    private, public = make_key(name)
    if as_json:
        print_json({"private": str(private), "public": str(public), "fingerprint": fingerprint(public_key(public))})
    else:
        click.echo(f"wrote {private}, which signs and stays here, and {public} ({fingerprint(public_key(public))}) to give away")
    return 0
