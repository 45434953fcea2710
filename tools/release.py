"""Refuse a release whose tag, package version and changelog differ: python -m tools.release v0.2.0"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps `tag` from being released, one sentence each."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    heading = re.search(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), re.M)
    newest = heading[1] if heading else "nothing"
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, the package is version {version}: expected v{version}")
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", newest):
        found.append(f"the newest entry of CHANGELOG.md is {newest!r}: expected '{version} (YYYY-MM-DD)'")
    return found


def main() -> int:
    found = problems(sys.argv[1])
    print("\n".join(found) or "tag, package and changelog agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
