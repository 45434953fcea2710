"""Run the entries of a setting and keep every score as soon as it is there: results/NAME.json."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.field.setting import Entry, Setting
from taskveil.privacy.certificate import software_versions

RESULTS = Path(__file__).parent / "results"
VERSIONS = ("taskveil", "numpy", "scipy", "dp-accounting")


def stored(setting: Setting, folder: Path = RESULTS) -> dict[str, Any]:
    """Rows by key: who, epsilon, scores by seed, date, versions, processor seconds."""
    path = folder / f"{setting.name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def measure(setting: Setting, again: bool = False, folder: Path = RESULTS) -> dict[str, Any]:
    """Every entry on every seed that is not stored yet; `again` measures all of them anew. Rows of entries that are gone are dropped."""
    folder.mkdir(exist_ok=True)
    found = {} if again else stored(setting, folder)
    rows = {entry.key: found.get(entry.key) or _empty(entry) for entry in setting.entries}
    for seed in setting.seeds:  # seed by seed: what is cut short has every row
        for entry in setting.entries:
            row = rows[entry.key]
            if str(seed) not in row["scores"]:
                busy = time.process_time()
                row["scores"][str(seed)] = round(float(entry.run(seed)), 6)
                row["cpu_seconds"] = round(row["cpu_seconds"] + time.process_time() - busy, 2)
                (folder / f"{setting.name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def _empty(entry: Entry) -> dict[str, Any]:
    versions = software_versions()
    return {
        "who": entry.who, "what": entry.what, "epsilon": entry.epsilon, "scores": {}, "cpu_seconds": 0.0,
        "date": entry.measured or datetime.now(UTC).date().isoformat(),
        "versions": {} if entry.measured else {name: versions[name] for name in VERSIONS if name in versions},
    }  # fmt: skip
