"""deploy/ as data: the commands its files start, and the settings a reviewer would look for."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = {"server": DEPLOY / "taskveil-server.service", "site": DEPLOY / "taskveil-site@.service"}


def unit(role: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=True, comment_prefixes=("#",))
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(UNITS[role].read_text())
    return parsed


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def container() -> list[tuple[str, str]]:
    """Instructions of the last stage of the container file."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pairs = [(word.upper(), rest) for word, rest in lines]
    last = max(i for i, (word, _) in enumerate(pairs) if word == "FROM")
    return pairs[last:]


def container_command(role: str) -> list[str]:
    """What the container of a service starts: entry point and command."""
    entry = json.loads(dict(container())["ENTRYPOINT"])
    return [*entry, *compose()["services"][role]["command"]]


def unit_command(role: str, name: str = "north") -> list[str]:
    """What systemd starts, for the instance `name`."""
    return [part.replace("%i", name) for part in shlex.split(unit(role)["Service"]["ExecStart"])]
