"""taskveil certify: recompute a guarantee from its recorded events."""

from __future__ import annotations

import json
from pathlib import Path

import rich_click as click

from taskveil.cli.options import json_option, print_json
from taskveil.errors import DataError


@click.command("certify", epilog="Example: taskveil certify model/")
@click.argument("directory", type=click.Path(exists=True))
@json_option
def command(directory: str, as_json: bool) -> int:
    """Recompute the guarantee in DIRECTORY (or a certificate file); exit 1 when it does not hold."""
    from taskveil.privacy.certificate import Certificate
    from taskveil.saved import total

    path = Path(directory)
    path = path / "certificate.json" if path.is_dir() else path
    if not path.exists():
        raise DataError(f"{path} is missing: expected a folder written by fit, or a certificate file")
    with total(str(path)):
        certificate = Certificate.from_json(path.read_text())
    verification = certificate.verify()
    holds, problems = verification.ok, list(verification.problems)
    if as_json:
        print_json({"holds": holds, "problems": problems, "certificate": json.loads(certificate.to_json())})
    else:
        click.echo(str(certificate))
        click.echo("verified: every statement follows from the recorded events" if holds else "DOES NOT HOLD:")
        for problem in problems:
            click.echo(f"  {problem}")
    return 0 if holds else 1
