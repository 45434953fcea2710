"""From results.json to plots and the generated part of README.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.ponomarenko_2023.plots import line_chart

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


def table(header: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(str(c) for c in row) + " |" for row in rows)])


def write_plots(results: dict[str, Any], folder: Path) -> None:
    if "rounds" in results:
        for row in results["rounds"]["result"]["everybody"]:
            if (row["C1"], row["C2"]) != (0.03, 5.0):
                continue
            series = {
                n: (list(range(1, len(row[n]["gaps"]) + 1)), row[n]["gaps"])
                for n in ("quasi-newton", "safe, adaptive s", "s = K")
            }
            line_chart(
                folder / "rounds.svg", "HAR, 20 participants: duality gap by round", series, ("round", "relative gap"), True
            )
    if "stragglers" in results:
        curves = results["stragglers"]["result"]
        for hardware in ("homogeneous", "heterogeneous"):
            series = {
                k.removeprefix(hardware + " "): (v["seconds"], v["balanced accuracy"])
                for k, v in curves.items()
                if k.startswith(hardware)
            }
            longest = min(max(x) for x, _ in series.values())
            cut = {k: zip_cut(x, y, 2.0 * longest) for k, (x, y) in series.items()}
            line_chart(
                folder / f"stragglers_{hardware}.svg", f"HAR, {hardware} hardware: share of participants waited for",
                cut, ("virtual seconds", "balanced accuracy"),
            )  # fmt: skip


def zip_cut(x: list[float], y: list[float], limit: float) -> tuple[list[float], list[float]]:
    kept = [(a, b) for a, b in zip(x, y) if a <= limit]
    return [a for a, _ in kept], [b for _, b in kept]


def write_readme(results: dict[str, Any], path: Path) -> None:
    """Replace what stands between the markers."""
    parts = [make(results[name]["result"]) for name, make in MAKERS.items() if name in results]
    text = path.read_text() if path.is_file() else f"{BEGIN}\n{END}\n"
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(head + BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + END + tail)


def har_rows(title: str) -> Any:
    def make(result: dict[str, Any]) -> str:
        rows = [
            [name, f"{mean:.4f}", f"{result['std'][name]:.4f}", ", ".join(f"{v:.3f}" for v in result["scores"][name])]
            for name, mean in result["mean"].items()
        ]
        return f"### {title}\n\n" + table(["method", "mean", "standard deviation", "splits"], rows)

    return make


def synthetic(result: dict[str, Any]) -> str:
    rows = [[k, *(f"{v['mean'][n]:.4f} ± {v['std'][n]:.4f}" for n in ("svm", "local", "pooled"))] for k, v in result.items()]
    return "### Synthetic regression, 20 x 200 x 200, 20 dB: R²\n\n" + table(["data", "svm", "local", "pooled"], rows)


def rounds(result: dict[str, Any]) -> str:
    names = ("quasi-newton", "safe, adaptive s", "s = K")
    rows = [[r["C1"], r["C2"], *(r[n]["rounds"] or f"more than {len(r[n]['gaps'])}" for n in names)] for r in result["everybody"]]
    quarter = [
        [r["C1"], r["C2"], f"{r['answered']:.0%}", r["rounds to 1e-2"], f"{r['last gap']:.1e} after {r['rounds']}"]
        for r in result["quarter"]
    ]
    return (
        "### Rounds to a relative duality gap of 1e-3, everybody answers\n\n"
        + table(["C1", "C2", *names], rows)
        + "\n\n![gap by round](rounds.svg)\n\n### A quarter of the participants answers in each round\n\n"
        + table(["C1", "C2", "answered", "rounds to 1e-2", "last gap"], quarter)
    )


def stragglers(result: dict[str, Any]) -> str:
    rows = [
        [name, f"{v['answered']:.0%}" if "answered" in v else "all, less work", f"{v['balanced accuracy'][-1]:.4f}",
         f"{v['seconds'][-1]:.2f}"]
        for name, v in result.items()
    ]  # fmt: skip
    return (
        "### Waiting time on the virtual clock, balanced accuracy after 120 rounds\n\n"
        + table(["hardware, share waited for", "answered", "balanced accuracy", "virtual seconds"], rows)
        + "\n\n![homogeneous](stragglers_homogeneous.svg)\n\n![heterogeneous](stragglers_heterogeneous.svg)"
    )


def masks(result: list[dict[str, Any]]) -> str:
    rows = [
        [r["data"], r["mask"], r["masked share"], r["mode"], f"{r['above optimum']:.1e}", f"{r['balanced accuracy']:.4f}"]
        for r in result
    ]
    head = ["data", "mask", "masked share", "mode", "objective above the optimum (relative)", "balanced accuracy"]
    return f"### Masks after {result[0]['rounds']} rounds of one epoch\n\n" + table(head, rows)


def paper(result: list[dict[str, Any]]) -> str:
    rows = [
        [r["run"], "diverged" if r["diverged"] else "did not diverge", r["rounds"], f"{r['last objective']:.3g}",
         f"{r['zero model']:.3g}", f"{r['optimum']:.3g}"]
        for r in result
    ]  # fmt: skip
    head = ["run", "outcome", "rounds", "last objective", "objective of the zero model", "optimum"]
    return '### The equations as printed (`variant="paper"`)\n\n' + table(head, rows)


def attacks(result: list[dict[str, Any]]) -> str:
    rows = [
        [r["updates"], r["rounds"], f"{r['auc']:.3f}", f"{r['tpr at 1 % fpr']:.3f}", f"{r['rows read exactly']:.0%}"]
        for r in result
    ]
    head = [
        "updates",
        "rounds seen",
        "membership AUC",
        "true positives at 1 % false",
        "rows read exactly by who knows the others",
    ]
    return "### A curious server, three HAR participants\n\n" + table(head, rows)


def private(result: list[dict[str, Any]]) -> str:
    rows = [
        ["no privacy" if r["epsilon"] is None else f"{r['epsilon']:g}", *(f"{r[n]:.4f}" for n in ("svm", "mocha", "local"))]
        for r in result
    ]
    return "### Private, unit task, replace-one, delta 1e-5: 300 tasks of 20 rows, 20 features, balanced accuracy\n\n" + table(
        ["epsilon", "svm", "mocha", "local"], rows
    )


MAKERS = {
    "har-20": har_rows("HAR, 20 participants, 70 % training by recordings, 5 splits: balanced accuracy"),
    "har-30": har_rows("HAR, 30 participants"),
    "light-20": har_rows("Light HAR, 100 training rows per participant"),
    "synthetic": synthetic,
    "rounds": rounds,
    "stragglers": stragglers,
    "masks": masks,
    "paper": paper,
    "attack": attacks,
    "private": private,
}
