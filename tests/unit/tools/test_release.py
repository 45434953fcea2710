"""A release has one version: in the tag, the package and the changelog, with its date."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tools.release import problems

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("tag", "entry", "wrong"),
    [
        ("v1.2.3", "1.2.3 (2026-12-01)", 0), ("v1.2.4", "1.2.3 (2026-12-01)", 1), ("v1.2.3", "1.2.3 (unreleased)", 1),
        ("v1.2.3", "1.2.30 (2026-12-01)", 1), ("1.2.3", "1.2.2 (2026-12-01)", 2),
    ],
)  # fmt: skip
def test_a_tag_that_differs_from_package_or_changelog_is_refused(tmp_path, tag, entry, wrong):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {entry}\n\n* words\n\n## 1.2.3 (2020-01-01)\n")
    assert len(problems(tag, tmp_path)) == wrong


def test_nothing_is_published_before_the_wheel_was_used():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    steps = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert jobs["publish"]["needs"] == "build" and "make wheel" in steps and any("tools.release" in s for s in steps)
