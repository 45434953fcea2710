"""What an export is made of: the certificate, whether it was made again from its run, its curve, the books, the attacks."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taskveil.privacy.certificate import Certificate, Statement
from taskveil.privacy.fingerprint import short_code
from taskveil.privacy.ledger.overview import described
from taskveil.privacy.profile import Profile
from taskveil.privacy.statement import up
from taskveil.report.audience import Audience, cut
from taskveil.report.records import Run, read, read_groups
from taskveil.report.words import bound_of


@dataclass(frozen=True)
class Evidence:
    """Public facts about one run; `problems` is empty if everything was recomputed and holds."""

    certificate: Certificate
    problems: tuple[str, ...]
    run: Run
    profiles: tuple[Profile, ...]
    accounts: tuple[Mapping[str, Any], ...] | None  # None: no ledger was given
    signer: str | None
    date: str
    name: str
    figures: Mapping[str, Mapping[str, Any]] | None = None  # of every task, from its rows; only where somebody asked for them
    metric: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def code(self) -> str:
        return short_code(self.certificate.to_dict())

    @property
    def holds(self) -> bool:
        return not self.problems and self.certificate.holds

    @property
    def verdict(self) -> str:
        if self.holds:
            return "holds, every statement was recomputed from the recorded run"
        return "DOES NOT HOLD: " + "; ".join(self.problems or ("no statement is made",))

    def widest(self) -> Statement | None:
        """The statement against the strongest observer, which is the last."""
        return self.certificate.statements[-1] if self.certificate.statements else None


def gather(
    folder: Path, certificate: Certificate, problems: tuple[str, ...], ledger: str | None = None, signer: str | None = None,
    figures: bool = False, groups: Path | None = None,
) -> Evidence:  # fmt: skip
    """Everything an export may use of a checked folder; `figures`: statistics of rows too, for readers entitled to them."""
    from taskveil.privacy.ledger import Book

    run = read(folder)
    own: dict[str, Any] = {}
    if figures:
        declared = read_groups(groups, run.task_names) if groups is not None else {}
        own = {"figures": run.gain, "metric": run.gain_metric, "groups": declared}
    if run.certificate is None:  # a comparison beside nothing
        run = Run(certificate=certificate)
    written = datetime.datetime.fromtimestamp((folder / "certificate.json").stat().st_mtime, tz=datetime.UTC)
    return Evidence(
        certificate, tuple(problems), cut(run, Audience("public")), tuple(certificate.profile(s) for s in certificate.statements),
        None if ledger is None else tuple(described(Book(ledger))), signer, written.date().isoformat(),
        _printable(folder.resolve().name), **own,
    )  # fmt: skip


def _printable(name: str) -> str:
    """A folder may have any name; in a document it stays on its line."""
    return "".join(c if c.isprintable() else "?" for c in name)


def parameters(s: Statement) -> str:
    """epsilon never without delta, unit, neighbours and observer."""
    tail = "" if s.holds else f" DOES NOT HOLD: {s.reason}"
    return (
        f"epsilon {up(s.epsilon)}, delta {up(s.delta)}, for {s.protected()} ({s.neighbours}) against {s.against()}, "
        f"accountant {s.accountant}.{tail}"
    )


def releases(certificate: Certificate) -> list[str]:
    """Every recorded release with its own parameters."""
    lines = []
    for e in certificate.events:
        mechanism, contribution, event = e.get("mechanism", {}), e.get("contribution", {}), e.get("event", {})
        scale = f", scale {mechanism['scale']:.6g}" if isinstance(mechanism.get("scale"), (int, float)) else ""
        rate = f", each unit with probability {e['rate']:g}" if e.get("rate") else ""
        multiplier = f", noise multiplier {event['noise_multiplier']:.6g}" if "noise_multiplier" in event else ""
        lines.append(
            f"{e.get('name')}: {e.get('count')} time(s), {contribution.get('kind')} clipped to {bound_of(e)}, mechanism "
            f"{mechanism.get('name')}{scale}{multiplier}{rate}"
        )
    return lines


def aggregation(certificate: Certificate) -> str:
    return str(certificate.events[0].get("aggregation", "curator")) if certificate.events else "none: nothing is shared"


def audit_lines(evidence: Evidence) -> list[str]:
    return [
        f"{a.get('target')}: attacked at claimed epsilon {a.get('claimed_epsilon', 0.0):.4g}, delta {a.get('delta', 0.0):.3g}, "
        f"one {a.get('unit')} ({a.get('neighbours')}) against {a.get('observer')}: lower bound {a.get('lower_bound', 0.0):.4g} "
        f"with {100 * a.get('confidence', 0.0):.4g} % confidence: {a.get('verdict')}"
        for a in evidence.run.audits
    ]


def account_line(a: Mapping[str, Any]) -> str:
    spent = "unbounded" if a["spent"] is None else up(a["spent"], 4)
    return (
        f"account {a['account']}: epsilon {spent} spent of {a['limit']:g} at delta {a['delta']:g} in {a['runs']} run(s), one "
        f"{a['unit']} ({a['neighbours']}) against {a['observer']}"
    )
