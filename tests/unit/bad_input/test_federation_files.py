"""federation.toml and site.toml: every entry with every value its rule refuses, and mistakes that span entries."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.support.wrong import label, named, one_line

from taskveil.errors import InputError
from taskveil.runtime.federation.config import load_federation, load_site
from taskveil.runtime.federation.entries import FEDERATION, MEMBER, SITE

GOOD: dict[str, Any] = {
    "federation": {"name": "trial", "host": "127.0.0.1", "port": 9092},
    "data": {"kind": "regression", "features": ["x0", "x1"], "target": "y"},
    "run": {"method": "mean", "epsilon": 1.0, "unit": "task", "aggregation": "local"},
    "rules": {"deadline": 60, "min_sites": 1},
    "sites": [{"name": "north", "tasks": ["a"]}, {"name": "south", "tasks": ["b", "c"]}],
}
GOOD_SITE: dict[str, Any] = {
    "site": {"name": "north", "federation": "federation.toml", "server": "127.0.0.1:9092", "authority": "ca.crt", "key": "n.key"},
    "data": {"task": "task"},
    "limit": {"epsilon": 2.0},
}


def toml(value: Any) -> str:
    """A value as TOML; only what TOML can say."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    raise TypeError(value)


def written(path: Path, content: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(k)} = {toml(v)}\n" for k, v in content.items()))
    return path


def sayable(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(sayable, value))
    return value is not None and not isinstance(value, complex) and not (isinstance(value, str) and set(value) & {"\0", "\ud800"})


def changed(content: dict[str, Any], section: str, entry: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(content)
    made.setdefault(section, {})
    made[section][0 if section == "sites" else entry] = {**made[section][0], entry: value} if section == "sites" else value
    return made


FEDERATION_CASES = [
    pytest.param(section, name, value, id=f"{section}.{name}={label(value)}")
    for section, table in [*FEDERATION.items(), ("sites", MEMBER)]
    for name, value in named(table)
    if sayable(value) and not (section == "run" and value == "none")
]
SITE_CASES = [
    pytest.param(section, name, value, id=f"{section}.{name}={label(value)}")
    for section, table in SITE.items()
    for name, value in named(table)
    if sayable(value)
]


def refused(call: Any, *words: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    one_line(str(error.value))
    assert error.value.exit_code == 2
    assert all(word in str(error.value) for word in words), str(error.value)


def test_the_good_files_are_taken(tmp_path):
    assert load_federation(written(tmp_path / "federation.toml", GOOD)).plan().releases
    assert load_site(written(tmp_path / "site.toml", GOOD_SITE)).limit == {"epsilon": 2.0}


@pytest.mark.parametrize("section, name, value", FEDERATION_CASES)
def test_a_federation_file_with_a_wrong_entry_is_refused(section, name, value, tmp_path):
    path = written(tmp_path / "federation.toml", changed(GOOD, section, name, value))
    refused(lambda: load_federation(path), "federation.toml", name)


@pytest.mark.parametrize("section, name, value", SITE_CASES)
def test_a_site_file_with_a_wrong_entry_is_refused(section, name, value, tmp_path):
    path = written(tmp_path / "site.toml", changed(GOOD_SITE, section, name, value))
    refused(lambda: load_site(path), "site.toml", name)


ODD = {
    "no section [data]": {"data": None},
    "an unknown section": {"magic": {"a": 1}},
    "a section that is a number": {"run": 3},
    "an unknown entry": {"run": {**GOOD["run"], "epsilonn": 1}},
    "a common scale bought from the budget": {"data": {**GOOD["data"], "scaling": "private"}},
    "a target among the features": {"data": {**GOOD["data"], "target": GOOD["data"]["features"][0]}},
    "no sites": {"sites": []},
    "sites that are a table": {"sites": {"name": "north"}},
    "a site that is a number": {"sites": [3]},
    "two sites of one name": {"sites": [{"name": "north"}, {"name": "north"}]},
    "two sites that differ in capitals": {"sites": [{"name": "north"}, {"name": "North"}]},
    "one task at two sites": {"sites": [{"name": "a", "tasks": ["x"]}, {"name": "b", "tasks": ["x"]}]},
    "more rows than tasks": {"sites": [{"name": "a", "rows": [1, 2]}]},
    "more sites asked for than there are": {"rules": {"min_sites": 3}},
    "classes missing": {"data": {**GOOD["data"], "kind": "classification"}},
    "classes of a regression": {"data": {**GOOD["data"], "classes": ["a", "b", "c"]}},
    "a range without width": {"data": {**GOOD["data"], "bounds": {"features": {"*": [1, 1]}}}},
    "a range upside down": {"data": {**GOOD["data"], "bounds": {"features": {"*": [2, 1]}}}},
    "a range of text": {"data": {**GOOD["data"], "bounds": {"features": {"*": "12"}}}},
    "a range of NaN": {"data": {**GOOD["data"], "bounds": {"target": [math.nan, 1.0]}}},
    "unknown bounds": {"data": {**GOOD["data"], "bounds": {"magic": 1}}},
}
PLANNED = {
    "an unknown method": {"method": "magic"},
    "a method called none": {"method": "none"},
    "noise called none": {"mechanism": "none"},
    "an unknown option": {"options": {"magic": 1}},
    "an option out of range": {"method": "subspace", "options": {"mean_share": math.nan}},
    "absurdly many rounds": {"options": {"rounds": 3_000_000}},
    "an unknown mechanism": {"mechanism": "magic"},
    "an unknown accountant": {"accountant": "magic"},
    "a thousand colluders": {"aggregation": "secure", "secure": {"colluders": 1000}},
    "a cohort larger than all": {"aggregation": "secure", "secure": {"min_cohort": 50}},
    "records without rows": {"unit": "record"},
}


@pytest.mark.parametrize("case", ODD)
def test_a_federation_file_that_makes_no_sense_is_refused(case, tmp_path):
    content = {k: v for k, v in {**GOOD, **ODD[case]}.items() if v is not None}
    refused(lambda: load_federation(written(tmp_path / "federation.toml", content)))


@pytest.mark.parametrize("case", PLANNED)
def test_a_run_that_cannot_be_planned_is_refused_before_anything_starts(case, tmp_path):
    content = {**GOOD, "run": {**GOOD["run"], **PLANNED[case]}}
    refused(lambda: load_federation(written(tmp_path / "federation.toml", content)).plan())


@pytest.mark.parametrize("bounds", [{}, {"target": [0, 1]}, {"features": {"*": [0, 1]}, "target": [0, 1]}], ids=len)
def test_ranges_are_called_declared_exactly_where_sites_scale_by_them(bounds, tmp_path):
    """An empty table of bounds was taken for declared ranges, while every site scaled by its own statistics."""
    content = {**GOOD, "data": {**GOOD["data"], "bounds": bounds}}
    made = load_federation(written(tmp_path / "federation.toml", content))
    assert made.public().declared_bounds is not made.own_units()


DEEP, DIGITS = b"a = " + b"[" * 20_000 + b"]" * 20_000, b"[federation]\nport = " + b"9" * 5000


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"a = [[[[", DEEP, DIGITS, b"a" + b".b" * 20_000 + b" = 1", b"", b"x" * 11_000_000], ids=len
)
def test_a_file_that_is_no_toml_is_refused(data, tmp_path):
    for name, load in (("federation.toml", load_federation), ("site.toml", load_site)):
        (tmp_path / name).write_bytes(data)
        refused(lambda load=load, name=name: load(tmp_path / name), name)
