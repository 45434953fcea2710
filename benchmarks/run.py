"""Runs the registered benchmark modules, writes benchmarks/results/<module>.json, and prints one table of all promises.

python -m benchmarks.run [module ...] [--only NAME ...] [--repeats N] [--out DIR]
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from benchmarks.timing import machine, unavailable

MODULES = ("whole", "core", "ledger", "svm", "noise", "secure", "async_", "tables", "engine", "neural")


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    everything: dict[str, dict] = {}
    for module in options.modules or MODULES:
        results = run_module(module, options.only, options.repeats)
        path = options.out / f"{module}.json"
        path.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")
        print(f"wrote {path}", file=sys.stderr)
        everything |= results
    found = table(everything)
    (options.out / "table.md").write_text(found + "\n")
    print("\n" + found)
    return 0


def table(results: dict[str, dict]) -> str:
    """All promises with what was measured, as Markdown: also what the README shows."""
    lines = ["| promise | asked for | measured | spread | processor seconds | peer | floor | |", "|" + 8 * "---|"]
    for name, result in results.items():
        if result["value"] is None:
            lines.append(f"| {name} | | not measured: {result['reason']} | | | | | |")
            continue
        low, high = result["spread"]
        said = [result.get(key, "") for key in ("processor_seconds", "peer", "floor")]
        said = [value if isinstance(value, (str, float, int)) else "" for value in said]
        word = "holds" if result["holds"] else "does not hold"
        cells = [name, asked(result), f"{result['value']:.3g}", f"{low:.3g} to {high:.3g}", *map(str, said), word]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def asked(result: dict) -> str:
    return " and ".join(f"{k.replace('_', ' ')} {v:g}" for k, v in result["promise"].items())


def run_module(module: str, only: list[str] | None, repeats: int) -> dict:
    """Name -> result for every benchmark of the module, printed as they come."""
    try:
        benchmarks = importlib.import_module(f"benchmarks.{module}").BENCHMARKS
    except ImportError as error:
        print(f"{module}: not measured: {error}")
        return {module: unavailable(f"cannot be imported: {error}")}
    results = {}
    for name, benchmark in benchmarks.items():
        if only and name not in only:
            continue
        try:
            results[name] = benchmark(repeats)
        except Exception as error:  # one broken benchmark must not hide the others
            results[name] = unavailable(f"{type(error).__name__}: {error}")
        print(line(name, results[name]), flush=True)
    return results


def line(name: str, result: dict) -> str:
    if result["value"] is None:
        return f"{name:28s} not measured: {result['reason']}"
    low, high = result["spread"]
    word = "holds" if result["holds"] else "DOES NOT HOLD"
    return f"{name:28s} {result['value']:8.3f}  ({low:.3f} to {high:.3f})  {asked(result)}: {word}"


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help=f"some of: {', '.join(MODULES)} (default: all)")
    parser.add_argument("--only", nargs="+", help="names of benchmarks within the modules")
    parser.add_argument("--repeats", type=int, default=11, help="turns per benchmark (default 11)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
