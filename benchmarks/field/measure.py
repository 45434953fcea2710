"""Run the entries of a setting and keep every score as soon as it is there: results/NAME.json."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.field.setting import Entry, Setting
from taskveil.errors import EnvironmentMissing
from taskveil.privacy.certificate import software_versions

RESULTS = Path(__file__).parent / "results"
VERSIONS = ("taskveil", "numpy", "scipy", "dp-accounting", "jax")


def stored(setting: Setting, folder: Path = RESULTS) -> dict[str, Any]:
    """Rows by key: who, epsilon, scores by seed, date, versions, processor seconds."""
    path = folder / f"{setting.name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def measure(setting: Setting, again: bool = False, folder: Path = RESULTS) -> dict[str, Any]:
    """Every entry on every seed that is not stored yet; `again` measures all anew that can be run here. Entries that are gone are dropped."""
    folder.mkdir(exist_ok=True)
    whose = {entry.key: entry.who for entry in setting.entries}  # scores of a re-implementation are not those of their own code
    found = {key: row for key, row in stored(setting, folder).items() if row["who"] == whose.get(key)}
    rows = {entry.key: (None if again else found.get(entry.key)) or _empty(entry) for entry in setting.entries}
    for seed in setting.seeds:  # seed by seed: what is cut short has every row
        for entry in setting.entries:
            row = rows[entry.key]
            if str(seed) not in row["scores"]:
                busy = time.process_time()
                try:
                    row["scores"][str(seed)] = round(float(entry.run(seed)), 6)
                except EnvironmentMissing as error:  # a peer that is not installed keeps the scores it had
                    print(f"{entry.key}: {error}")
                    rows[entry.key] = found.get(entry.key, row)
                    continue
                row["cpu_seconds"] = round(row["cpu_seconds"] + time.process_time() - busy, 2)
                (folder / f"{setting.name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def _empty(entry: Entry) -> dict[str, Any]:
    here = software_versions() | {"jax": metadata.version("jax")}
    date, versions = entry.measured or (datetime.now(UTC).date().isoformat(), here)
    return {
        "who": entry.who, "what": entry.what, "epsilon": entry.epsilon, "scores": {}, "cpu_seconds": 0.0, "date": date,
        "versions": {name: versions[name] for name in VERSIONS if name in versions},
    }  # fmt: skip
