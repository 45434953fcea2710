"""What may stand in federation.toml and site.toml: section, entry, rule. `config.py` and the tests read these tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from taskveil.checks import AnyOf, Choice, Entries, Flag, Host, Line, ListOf, Name, Number, Rule, Text, Whole, check_table
from taskveil.errors import DataError
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.secure_options import SECURE
from taskveil.privacy.units import Neighbours, Unit

MOST_SECONDS = 30 * 24 * 3600


class Inside(Text):
    """A path that stays inside the file's own folder: relative, without '..', plain parts."""

    allowed = "a path inside the folder of this file, without .. or a leading /"

    def accepts(self, value: Any) -> bool:
        if not super().accepts(value) or "\\" in value or not value.isprintable():
            return False
        path = PurePosixPath(value)
        return not path.is_absolute() and ".." not in path.parts and bool(path.parts)


class Address(Text):
    """HOST:PORT."""

    allowed = "HOST:PORT with a port from 1 to 65535"

    def accepts(self, value: Any) -> bool:
        if not super().accepts(value) or any(c.isspace() for c in value):
            return False
        host, _, port = value.rpartition(":")
        return (
            Host().accepts(host.removeprefix("[").removesuffix("]"))
            and port.isascii()
            and port.isdigit()
            and 1 <= int(port) <= 65535
        )


class Scaling(Choice):
    """How rows are scaled; a common scale, bought from the budget, is for tasks of one process."""

    allowed = "auto (the ranges in bounds, or else each site's own statistics); a federation buys no private common scale"


EPSILON = Number(above=0)
DELTA = Number(at_least=0, below=1)
COLUMN, PATH = Line(1000), Line(4096)
LABEL = AnyOf(Line(1000), Whole(-(2**53), 2**53), Flag(), Number())

FEDERATION: dict[str, dict[str, Rule]] = {
    "federation": {"name": Name(), "host": Host(253), "port": Whole(1, 65535), "hosts": ListOf(Host(253))},
    "data": {
        "kind": Choice("regression", "classification"),
        "features": ListOf(COLUMN, distinct=True),
        "text": ListOf(COLUMN, distinct=True),  # features that are hashed into public buckets at every site
        "target": COLUMN,
        "classes": ListOf(LABEL, at_least=2, distinct=True),
        "bounds": Entries(),  # tasks.public_bounds refuses what is wrong inside
        "fit_intercept": Flag(),
        "normalise": Choice("row"),
        "scaling": Scaling("auto"),
    },
    "run": {
        "method": Line(100),
        "options": Entries(),  # methods.options refuses what is wrong inside
        "epsilon": AnyOf(EPSILON, Choice("none")),
        "delta": DELTA,
        "unit": Choice(*(u.value for u in Unit)),
        "neighbours": Choice(*(n.value for n in Neighbours)),
        "mechanism": Line(100),
        "accountant": Line(100),
        "aggregation": Choice(*AGGREGATIONS.names()),
        "secure": Entries(entries=tuple(SECURE.items())),
        "seed": Whole(0, 2**63 - 1),
    },
    "rules": {
        "deadline": Number(at_least=0.001, at_most=MOST_SECONDS),
        "min_sites": Whole(1, 1_000_000),
        "attempts": Whole(1, 1000),
        "pause": Number(at_least=0, at_most=3600),
        "max_bytes": Whole(1024, 2**31 - 1),
        "answer_at": Number(at_least=0, at_most=MOST_SECONDS),
    },
}
MEMBER: dict[str, Rule] = {
    "name": Name(),
    "tasks": ListOf(COLUMN, distinct=True),
    "key": Inside(1000),
    "rows": ListOf(Whole(1, 10**12)),
}
SITE: dict[str, dict[str, Rule]] = {
    "site": {
        "name": Name(), "federation": PATH, "server": Address(300), "authority": PATH, "key": PATH, "state": PATH,
    },
    "data": {"task": COLUMN, "target": COLUMN},
    "limit": {
        "epsilon": EPSILON, "delta": DELTA, "record_epsilon": EPSILON, "record_delta": DELTA, "ledger": PATH,
        "account": Line(200),
    },
}  # fmt: skip


def check_file(
    content: Mapping[str, Any],
    sections: Mapping[str, Mapping[str, Rule]],
    name: str,
    required: Mapping[str, Sequence[str]],
    extra: Sequence[str] = (),
) -> None:
    """Every section is known and every entry keeps its rule; DataError in one line otherwise."""
    for section in content:
        if section not in sections and section not in extra:
            raise DataError(f"{name}: unknown section [{section}]; allowed: {', '.join((*sections, *extra))}")
    for section, rules in sections.items():
        compulsory = required.get(section, ())
        if section in content or compulsory:
            check_table(content.get(section, {}), rules, f"{name}: [{section}]", DataError, compulsory)
