"""The curve behind the certificate's widest statement: delta over epsilon, and an attacker's misses over false alarms.

The Kaplan-Meier curve of one owner's own rows. It is made of nothing but them, so only their owner's page has it.
"""

from __future__ import annotations

import math

import numpy as np

from taskveil.privacy.profile import Profile
from taskveil.report.chart import Chart, axis, line, number
from taskveil.report.records import Run

ROWS = 12


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
    trace = line([e for e, _ in points], [d for _, d in points], "@blue", "epsilon %{x:.3g}: delta %{y:.2e}<extra></extra>")
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
    hover = "false alarms %{x:.0%}: misses at least %{y:.0%}<extra></extra>"
    trace = line([a for a, _ in shares], [m for _, m in shares], "@blue", hover, name="at least missed")
    guess = line([0, 1], [1, 0], "@muted", "", "lines", name="tossing a coin", dash="dash", width=1.5)
    return Chart(
        "trade-off", "What an attacker can be right about", p.words(), [trace, guess],
        {"xaxis": axis("false alarms", range=[0, 1]), "yaxis": axis("true cases missed", range=[0, 1])},
        ("false alarms", "missed at least"), [(f"{a:.0%}", f"{m:.1%}") for a, m in p.trade_off],
        f"For {_sentence(p)}.",
    )  # fmt: skip


def survival(run: Run) -> list[Chart]:
    """For one owner: the share of its own rows free of the event, over time."""
    if len(run.task_names) != 1 or len(run.survival) != 1:
        return []
    ((name, curves),) = run.survival.items()
    times, where = np.unique(curves["times"], return_index=True)
    share = curves["kaplan_meier"][where]
    x, y = [0.0, *map(float, times)], [1.0, *map(float, share)]
    trace = line(x, y, "@blue", "%{x:.4g}: %{y:.1%}<extra></extra>", "lines", shape="hv", width=2)
    shown = sorted({round(k) for k in np.linspace(0, len(x) - 1, ROWS)})
    return [
        Chart(
            "survival",
            f"Your rows over time: {name}",
            "Share free of the event (Kaplan-Meier), from your own rows, none left out.",
            [trace],
            {"xaxis": axis("time", rangemode="tozero"), "yaxis": axis("share free of the event", range=[0, 1.02])},
            ("time", "share"),
            [(number(x[k]), number(y[k])) for k in shown],
            "Yours alone: every step is an event among your rows.",
            360,
        )
    ]
