"""The folder of a run holds models without noise: it is its owner's alone, whatever the umask says."""

from __future__ import annotations

import os

import pytest
from tests.support.small import related_tasks

import taskveil as tv


@pytest.mark.parametrize("made_before", [False, True])
def test_others_cannot_look_into_the_folder_of_a_run(tmp_path, made_before):
    folder = tmp_path / "run"
    if made_before:
        folder.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        tv.TaskRegressor("mean", epsilon=1.0, run_dir=folder).fit(related_tasks(n_tasks=4, rows=(6, 8), n_features=2))
    finally:
        os.umask(before)
    assert any(folder.iterdir()) and folder.stat().st_mode & 0o077 == 0
