"""Units that are written down come back whole: a link that is lost makes rates and risks out of plain numbers."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from taskveil.estimators.partitioned.worker import Part, part_bytes, read_part
from taskveil.methods.base import Models
from taskveil.runtime.federation.site.state import SiteState
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import ARRAYS, Scaling

NAMES = ("north", "south")


def units() -> Scaling:
    """Every entry differs from its default."""
    made = Scaling("own", np.full((2, 3), 2.0), np.full((2, 3), 4.0), np.ones(2), np.full(2, 8.0), "row", True, "rate")
    plain = {f.name: f.default for f in fields(Scaling)}
    assert all(value != plain[name] for name, value in made.about.items())
    return made


def by_a_site(scaling, folder) -> Scaling:
    state = SiteState(folder)
    state.keep_rows(TaskBlock(np.zeros((2, 3)), np.zeros((2, 1)), np.array([0, 1, 2]), kind="counts"), scaling)
    return state.rows()[1]


def by_a_worker(scaling, folder) -> Scaling:
    import hashlib

    content, file = part_bytes(Part(Models(np.zeros((2, 1, 3)), np.zeros((2, 1))), scaling), NAMES), folder / "part.parquet"
    file.write_bytes(content)
    return read_part(str(file), 1, NAMES, hashlib.sha256(content).hexdigest()).scaling


@pytest.mark.parametrize("stored", [by_a_site, by_a_worker])
def test_units_come_back_whole(stored, tmp_path):
    before, after = units(), stored(units(), tmp_path)
    assert after.about == before.about
    assert all(np.array_equal(after.arrays[name], before.arrays[name]) for name in ARRAYS)
    W, b = np.ones((2, 1, 3)), np.ones((2, 1))
    assert all(np.array_equal(x, y) for x, y in zip(before.coef_back(W, b), after.coef_back(W, b), strict=True))


def test_units_of_an_older_version_have_their_defaults():
    arrays = units().arrays
    assert Scaling.stored(arrays, {"mode": "own", "normalise": None, "kind": "regression"}).link == "number"
