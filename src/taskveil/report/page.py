"""Render: records, words and charts into one HTML document that needs nothing from outside."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import taskveil
from taskveil.errors import EnvironmentMissing
from taskveil.estimators.summary import change
from taskveil.privacy.statement import up
from taskveil.report.audience import Audience
from taskveil.report.billboard import pictures
from taskveil.report.by_size import sizes
from taskveil.report.chart import Chart
from taskveil.report.comparison_charts import curves, timings
from taskveil.report.curve_charts import curve, survival
from taskveil.report.gain_charts import gain, own_model
from taskveil.report.privacy_charts import audit, budget, noise
from taskveil.report.records import Run
from taskveil.report.words import NEIGHBOURS, bound_of, comparison_gains, plain_words, verdict
from taskveil.saved import shipped

FIRST = ("curves", "gain", "sizes", "groups", "model", "survival")
"""Charts that stand before the certificate: what sharing brings. The others tell how the guarantee came about."""


def render(run: Run, audience: Audience) -> str:
    """The page as text. `run` must have been cut to the audience."""
    drawn = charts(run)
    return template("page.html.j2").render(
        title=title(run, audience),
        audience=audience,
        banner=audience.banner(),
        verdict=verdict(run, audience),
        tone=tone(run),
        written=f"{datetime.now(UTC):%Y-%m-%d}",
        table=run.table,
        first=paired([chart for chart in drawn if chart.name in FIRST]),
        charts=paired([chart for chart in drawn if chart.name not in FIRST]),
        plain_words=plain_words(run),
        figures=embedded({chart.name: chart.figure() for chart in drawn}),
        plotly=plotly_script(),
        style=text("page.css"),
        script=text("page.js"),
        certificate=run.certificate,
        statements=statements(run),
        events=events(run),
        audits=run.audits,
        withheld=audience.kind != "all" and run.certificate is not None and not run.holds,
        settings=settings(run),
        software=dict(run.certificate.software) if run.certificate is not None else {"taskveil": taskveil.__version__},
        seconds=run.seconds,
        warnings=run.warnings,
        note=run.comparison["note"] if run.comparison is not None else "",
    )


def charts(run: Run) -> list[Chart]:
    """All charts that this run has figures for."""
    makers: list[Callable[[Run], list[Chart]]] = [
        curves, gain, sizes, own_model, survival, budget, curve, noise, audit, pictures, timings,
    ]  # fmt: skip
    return [chart for make in makers for chart in make(run)]


def paired(made: list[Chart]) -> list[Chart]:
    """The charts of one section; no narrow one stands alone in a row of two."""
    made, narrow = list(made), 0
    for k, chart in enumerate(made):
        last = k + 1 == len(made) or made[k + 1].wide
        if not chart.wide and last and narrow % 2 == 0:
            made[k] = replace(chart, wide=True)
        narrow = 0 if chart.wide else narrow + 1
    return made


def tone(run: Run) -> str:
    """Colour of the verdict: red where a claim fails, green where more tasks gain than lose, neither where they do not."""
    if run.certificate is not None and not run.holds:
        return "bad"
    if run.comparison is not None and not comparison_gains(run.comparison):
        return "even"
    if run.gain_summary:
        return "good" if run.gain_summary["gaining"] else "even"
    changes = [change(task) for task in run.gain.values()]
    return "even" if changes and sum(c < 0 for c in changes) <= sum(c > 0 for c in changes) else "good"


def title(run: Run, audience: Audience) -> str:
    about = ""
    if run.comparison is not None:
        about = run.comparison.get("title") or run.comparison["data"].get("name", "")
    if audience.kind == "owner":
        about = str(audience.task)
    elif not about and run.certificate is not None:
        about = f"method {run.certificate.method}" + (f", {run.public.n_tasks} tasks" if run.public is not None else "")
    return about or "comparison"


def statements(run: Run) -> list[dict[str, str]]:
    """The certificate as a table."""
    if run.certificate is None:
        return []
    return [
        {
            "protected": s.protected(),
            "neighbours": f"{NEIGHBOURS[s.neighbours]} ({s.neighbours})",
            "observer": s.against(),
            "epsilon": up(s.epsilon),
            "delta": up(s.delta, 3),
            "accountant": s.accountant,
            "holds": "holds" if s.holds else "DOES NOT HOLD",
        }
        for s in run.certificate.statements
    ]


def events(run: Run) -> list[tuple[str, ...]]:
    """Release, times, what is summed and its bound, mechanism, scale: what the accountant added up."""
    if run.certificate is None:
        return []
    rows: list[tuple[str, ...]] = []
    for e in run.certificate.events:
        mechanism = e.get("mechanism", {})
        scale = mechanism.get("scale")
        rows.append(
            (
                str(e.get("name", "")),
                str(e.get("count", "")),
                str(e.get("contribution", {}).get("kind", "")),
                "-" if mechanism.get("name") == "none" else bound_of(e),  # without noise nothing needs a bound
                str(mechanism.get("name", "")),
                f"{scale:.4g}" if isinstance(scale, (int, float)) else "-",
            )
        )
    return rows


def settings(run: Run) -> list[tuple[str, str]]:
    """Options and public sizes, one line each."""
    lines = [(k.replace("_", " "), _plain(v)) for k, v in run.options.items()]
    if run.public is not None:
        lines += [("tasks", str(run.public.n_tasks)), ("features", str(run.public.n_features)), ("target", run.public.kind)]
    if run.comparison is not None:
        data = run.comparison["data"]
        lines += [(f"data: {k.replace('_', ' ')}", str(v)) for k, v in data.items()]
        lines += [(f"comparison: {k}", str(run.comparison[k])) for k in ("repeats", "seed")]
    return lines


def embedded(value: Any) -> str:
    """JSON that is safe inside a script element, whatever tasks and columns are called."""
    plain = json.dumps(_clean(value), separators=(",", ":"), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plotly_script() -> str:
    """Plotly's bundle, which comes with this package (vendor/README.md)."""
    return text("plotly-cartesian.min.js", "vendor").replace("</script", "<\\/script")


def template(name: str) -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise EnvironmentMissing("pages need the package jinja2; install it with: pip install 'taskveil[report]'") from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text(name))


def text(name: str, folder: str = "templates") -> str:
    return shipped(f"report/{folder}/{name}")


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _clean(value: Any) -> Any:
    """Plain JSON values; what is not finite has no place in a chart and becomes a gap."""
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
