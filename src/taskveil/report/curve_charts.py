"""The curve behind the certificate's widest statement: delta over epsilon, and an attacker's misses over false alarms."""

from __future__ import annotations

import math

from taskveil.privacy.profile import Profile
from taskveil.report.chart import Chart, axis, number
from taskveil.report.records import Run


def curve(run: Run) -> list[Chart]:
    """Both charts of the last statement, where it holds and something was released."""
    certificate = run.certificate
    if certificate is None or not certificate.statements or not certificate.events:
        return []
    profile = certificate.profile(certificate.statements[-1])
    return [_profile(profile), _trade_off(profile)] if profile.holds else []


def _sentence(p: Profile) -> str:
    return f"one {p.unit} ({p.neighbours}) against {p.observer}"


def _profile(p: Profile) -> Chart:
    points = sorted({(e, d) for d, e in p.epsilons if math.isfinite(e)} | {(e, d) for e, d in p.deltas if d > 1e-12})
    trace = {
        "type": "scatter", "mode": "lines+markers", "x": [e for e, _ in points], "y": [d for _, d in points],
        "line": {"color": "@blue", "width": 2.5}, "hovertemplate": "epsilon %{x:.3g}: delta %{y:.2e}<extra></extra>",
    }  # fmt: skip
    forms = [f"mu = {p.mu:.4g}"] if p.mu is not None else []
    forms += [f"rho = {p.rho:.4g}"] if p.rho is not None else []
    return Chart(
        "profile", "The whole curve: delta at every epsilon",
        f"Stated: epsilon {p.epsilon:.4g} at delta {p.delta:.2g}, {_sentence(p)}. " + (f"{', '.join(forms)}." if forms else ""),
        [trace], {"xaxis": axis("epsilon", rangemode="tozero"), "yaxis": axis("delta", type="log", exponentformat="power")},
        ("epsilon", "delta"), [(number(e), f"{d:.2e}") for e, d in points],
        "Every point of the curve holds; two runs compare only at the same delta (taskveil certify --at-delta).",
    )  # fmt: skip


def _trade_off(p: Profile) -> Chart:
    shares = [(0.0, 1.0), *p.trade_off, (1.0, 0.0)]
    trace = {
        "type": "scatter", "mode": "lines+markers", "x": [a for a, _ in shares], "y": [m for _, m in shares],
        "name": "at least missed", "line": {"color": "@blue", "width": 2.5},
        "hovertemplate": "false alarms %{x:.0%}: misses at least %{y:.0%}<extra></extra>",
    }  # fmt: skip
    guess = {
        "type": "scatter", "mode": "lines", "x": [0, 1], "y": [1, 0], "name": "tossing a coin",
        "line": {"color": "@muted", "dash": "dash", "width": 1.5}, "hoverinfo": "skip",
    }  # fmt: skip
    return Chart(
        "trade-off", "What an attacker can be right about", p.words(), [trace, guess],
        {"xaxis": axis("false alarms", range=[0, 1]), "yaxis": axis("true cases missed", range=[0, 1])},
        ("false alarms", "missed at least"), [(f"{a:.0%}", f"{m:.1%}") for a, m in p.trade_off],
        f"For {_sentence(p)}.",
    )  # fmt: skip
