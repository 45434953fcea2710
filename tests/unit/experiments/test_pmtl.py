"""The PMTL experiment: its data, its readers of data that are not here, and what its numbers rest on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from experiments import random_settings
from experiments.hu_2023 import ITEMS, data, grid, items, originals, table
from experiments.hu_2023.grid import ADD, REPLACE

from taskveil.errors import DataError

jax = pytest.importorskip("jax")

from experiments.hu_2023 import simulate, tune  # noqa: E402


def test_every_figure_and_table_with_results_is_listed():
    assert set(ITEMS) - {"table2"} == {f"fig{n}" for n in range(1, 9)} | {"table1", "table3"}


# ------------------------------------------------------- data that are not here


def write_celeba(folder):
    (folder / "identity_CelebA.txt").write_text("a.jpg 7\nb.jpg 12\nc.jpg 7\nd.jpg 3\n")
    (folder / "list_attr_celeba.txt").write_text("4\nBald Smiling\na.jpg -1 1\nb.jpg -1 -1\nc.jpg 1 -1\nd.jpg -1 1\n")
    return lambda path: np.full((60, 56, 3), 51 * ("abcd".index(path.name[0]) + 1), np.uint8)


def test_celeba_makes_one_task_per_person(tmp_path):
    tasks = originals.celeba(tmp_path, side=28, read_image=write_celeba(tmp_path))
    assert tasks.n_tasks == 3 and tasks.n_features == 784 and sorted(tasks.sizes) == [1, 1, 2]
    assert sorted({round(float(row.mean()), 2) for row in np.asarray(tasks.X)}) == [0.2, 0.4, 0.6, 0.8]
    fewer = originals.celeba(tmp_path, side=28, people=1, read_image=write_celeba(tmp_path))
    assert fewer.n_tasks == 1


def test_celeba_names_what_is_missing(tmp_path):
    with pytest.raises(DataError, match="identity_CelebA"):
        originals.celeba(tmp_path)
    read = write_celeba(tmp_path)
    with pytest.raises(DataError, match="Young"):
        originals.celeba(tmp_path, attribute="Young", read_image=read)
    with pytest.raises(DataError, match="smaller"):
        originals.shrunk(np.zeros((8, 8)), 28)


def test_stackoverflow_uses_public_words_and_tags_only(tmp_path):
    posts = [
        {"user": 1, "tokens": "how to sort a list list", "tags": "python|sorting"},
        {"user": 1, "tokens": "segfault in loop", "tags": "assembly"},
        {"user": 2, "tokens": "null pointer", "tags": "c|java"},
    ]
    file = tmp_path / "posts.jsonl"
    file.write_text("\n".join(json.dumps(p) for p in posts))
    tasks = originals.stackoverflow(file, words=["list", "sort", "pointer"], tags=["python", "c", "java"])
    assert tasks.n_tasks == 2 and tasks.n_rows == 2  # the row without a known tag is left out
    np.testing.assert_allclose(np.asarray(tasks.X)[0], np.array([2, 1, 0]) / np.sqrt(5), rtol=1e-6)
    assert originals.stackoverflow(file, ["list"], ["python", "c"], users=1).n_tasks == 1
    with pytest.raises(DataError, match="no row"):
        originals.stackoverflow(file, ["list"], ["haskell"])


# ---------------------------------------------------------------- data and settings


def test_a_split_is_inside_every_user_and_the_same_each_time():
    (X, y, user), (_, _, judged) = data.split("tags", 3, "test", tasks=40)
    again, _ = data.split("tags", 3, "test", tasks=40)
    np.testing.assert_array_equal(X, again[0])
    share = np.bincount(user) / (np.bincount(user) + np.bincount(judged))
    assert (np.abs(share - 0.7) < 0.05).all() and set(y) <= set(range(data.TAGS))
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-6


def test_settings_are_judged_on_training_rows_of_other_splits_only():
    """Validation rows of a seed are rows its own training part holds; test rows of that seed are never among them."""
    train, test = data.split("tags", 5, "test", tasks=20)
    learn, judge = data.split("tags", 5, "validation", tasks=20)
    rows = {tuple(x) for x in train[0].round(6)}
    assert all(tuple(x) in rows for x in np.vstack([learn[0], judge[0]]).round(6))
    assert len(learn[1]) + len(judge[1]) == len(train[1]) and len(test[1]) > 0
    assert not set(data.SEEDS["validation"]) & set(data.SEEDS["test"])


def test_padding_keeps_every_row_once():
    X, y, task = data.tags(1, users=7)
    rows = simulate.padded(X, y, task, 7)
    assert int((rows.weight > 0).sum()) == len(y)
    np.testing.assert_allclose(rows.weight.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(rows.X[rows.weight > 0][:, :-1].sum(), X.sum(), rtol=1e-5)


@pytest.mark.parametrize(("side", "neighbours"), [(REPLACE, "replace-one"), (ADD, "add-remove")])
def test_the_noise_of_a_sound_setting_is_what_the_library_plans(side, neighbours):
    from taskveil.privacy.contributions import VectorSum
    from taskveil.privacy.plan import Budget, Request, make_plan

    what = VectorSum((20,), 0.5)
    plan = make_plan([Request("update", t + 1, what) for t in range(7)], Budget(0.8, 1 / 206, neighbours=neighbours))
    ours = grid.noise_on_sum(side, 206, 0.8, {"clip": 0.5, "rounds": 7}, {})
    assert ours == pytest.approx(plan.releases[0].mechanism.coordinate_deviation(what), rel=1e-3)


def test_the_printed_multiplier_is_what_the_printed_accounting_asks_for():
    from taskveil.privacy.accountants import best_epsilon
    from taskveil.privacy.events import Charge, SampledGaussianEvent
    from taskveil.privacy.units import Neighbours

    event = SampledGaussianEvent(table.read("multipliers")["206/0.8/100"], 100 / 206, Neighbours.ADD_REMOVE)
    assert best_epsilon([Charge(event, 100)], 1 / 206)[0] == pytest.approx(0.8, rel=2e-3)


def test_the_printed_epsilon_is_worth_less_to_a_task_whose_cohorts_are_known():
    for e in (0.1, 0.8, 4.0):
        found = table.true_epsilons("femnist", e)
        kinds = ("add-remove, usual number", "replace-one, usual number", "replace-one, every round")
        add, usual, worst = (found[f"known cohorts, {kind}"] for kind in kinds)
        assert e < add < usual < worst


def test_both_sides_have_a_setting_of_their_own_grid_for_every_column():
    for name, known in table.read("tuned").items():
        for key, cells in known.items():
            kind, side, method = key.split("/")
            for e, cell in cells.items() if kind == "chosen" else ():
                epsilon = None if e == "None" else float(e)
                every = grid.grid(side, method, epsilon)
                for column in cell:
                    setting = cell[column]["setting"]
                    inside = all(setting[k] in {s[k] for s in every} for k in setting)
                    one_more = (side, method) == (REPLACE, "mean")  # the setting the library shipped with
                    assert inside or one_more, (name, key, e, column, setting)


def test_measured_cells_have_six_splits():
    for known in table.read("measured").values():
        for cells in known.values():
            for cell in cells.values() if isinstance(cells, dict) else ():
                assert all(np.shape(v)[0] == 6 for v in cell.values())


def test_rows_that_random_settings_beat_are_named(capsys, monkeypatch, tmp_path):
    behind = [r for r in random_settings.rows("hu_2023") if r.behind > random_settings.ALLOWED]
    assert random_settings.main() == bool(behind)
    said = capsys.readouterr().out
    assert all(f"{r.where} at epsilon {r.epsilon}" in said for r in behind)
    planted = {"d": {"random/printed/mean": {"1.0": {"tried": 9, "best of random": 0.5, "chosen": 0.4}}}}
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "tuned.json").write_text(json.dumps(planted))
    monkeypatch.setattr(random_settings, "HERE", tmp_path)
    assert random_settings.main() == 1


def test_a_sweep_finds_the_best_setting_of_the_whole_printed_grid():
    class Known(tune.Sweep):
        name, n_tasks, width, classes = "tags", 400, 65, 20

        def __init__(self):
            self.done = {}

        def keep(self, name, value):
            self.done[name] = value

        def scores(self, side, method, jobs, which, all_columns=True):
            found = [
                1 - abs(np.log(s["rate"] / 30)) - abs(s["clip"] - 0.2) - s["pull"] - s["rounds"] * s["steps"] for _, s, *_ in jobs
            ]
            return np.repeat(np.array(found)[:, None], 6 if all_columns else 1, axis=1)

    sweep = Known()
    sweep.choose("printed", "mean")
    sweep.check("mean")
    top = {"rounds": 5, "clip": 0.2, "rate": 30, "pull": 0.0003, "steps": 1, "server_rate": 1.0}
    assert sweep.done["chosen/printed/mean"]["0.8"]["published"]["setting"] == top
    row = sweep.done["random/printed/mean"]["0.8"]
    assert row["tried"] == 200 and row["chosen"] >= row["best of random"], "no random setting is above the top"


# ------------------------------------------------- the simulation is the library


def small(users: int = 8):
    X, y, task = data.tags(2, users=users)
    return X, y, task, simulate.padded(X, y, task, users)


def flat(W):
    """As the engine lays a softmax model out: biases, then weights feature by feature."""
    W = np.asarray(W)
    return np.concatenate([W[..., -1:, :], W[..., :-1, :]], axis=-2).reshape(*W.shape[:-2], -1)


@pytest.mark.parametrize("method", ["mean", "fedprox", "pp-sgd"])
def test_a_simulated_run_without_noise_is_the_librarys(method):
    from taskveil import methods
    from taskveil.methods.base import PublicInfo
    from taskveil.privacy.plan import Budget, make_plan
    from taskveil.privacy.randomness import insecure_seeded_noise
    from taskveil.runtime import in_process
    from taskveil.runtime.run import Run
    from taskveil.tasks.block import TaskBlock

    X, y, task, rows = small()
    setting = {"rate": 3.0, "pull": 0.0 if method == "pp-sgd" else 0.1, "clip": 0.4, "server_rate": 2.0}
    options = {
        "model": "softmax", "rounds": 3, "clip": 0.4, "batch_size": None, "learning_rate": 3.0, "server_rate": 2.0,
        "local_steps": 4, "personalise": "none",
    }  # fmt: skip
    built = methods.get(method, **options, **({"strength": 0.1} if setting["pull"] else {}))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(task))])
    block = TaskBlock(X, np.where(np.arange(data.TAGS) == y[:, None], 1.0, -1.0), offsets, kind="classification")
    public, budget = PublicInfo(8, X.shape[1], data.TAGS, "classification", seed=0), Budget(None, 0.0)
    plan = make_plan(built.requests(public, budget), budget)
    record = in_process.run(Run(built, public, plan, source=insecure_seeded_noise(1)), block)

    knobs = jax.tree.map(lambda a: a[0], grid.knobs(REPLACE, method, [setting], [0.0]))
    kind = "pp-sgd" if method == "pp-sgd" else "steps"
    own, anchor = simulate.train(kind, rows, data.TAGS, simulate.Shape(3, 4, 8), knobs, jax.random.key(0))
    model = np.broadcast_to(simulate.published(kind, own, anchor, knobs), own.shape)
    np.testing.assert_allclose(flat(model), record.models.extra["params"], atol=2e-4)


@pytest.mark.parametrize("kind", simulate.KINDS)
def test_simulated_fine_tuning_is_the_engines(kind):
    from taskveil.engine.batches import usable_rows
    from taskveil.engine.models import build
    from taskveil.engine.personalise import Option, Tuner, Tuning

    X, y, task, rows = small(4)
    anchor = np.random.default_rng(0).standard_normal((X.shape[1] + 1, data.TAGS)).astype(np.float32)
    around = np.repeat(anchor[None], 4, axis=0)
    model = build("softmax", X.shape[1], data.TAGS, "classification")
    tuner = Tuner(model, Tuning(simulate.TUNE_STEPS, None, simulate.TUNE_RATE))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(task))])
    strength = simulate.STRENGTHS[kind] or 1.0
    pool, known = (X, y.astype(np.int32)), usable_rows(offsets, None)
    theirs = tuner.fit(Option(kind, strength), flat(around), pool, known, np.arange(4), flat(anchor), 0)
    np.testing.assert_allclose(flat(simulate.fine_tuned(kind, around, around, rows)), theirs, atol=5e-3)


def test_the_simulated_choice_follows_the_librarys_rule():
    from taskveil.engine.personalise import choose

    _, _, _, rows = small(6)
    anchor = np.random.default_rng(1).standard_normal((rows.X.shape[2], data.TAGS)).astype(np.float32)
    folds = data.folds(rows.weight, 0)
    losses, errors = (np.zeros((5, *rows.y.shape)) for _ in range(2))
    options = jax.jit(simulate.options)  # compiled once for all folds
    for fold in range(simulate.FOLDS):
        held = (folds == fold) & (rows.weight > 0)
        kept = np.where(held, 0, rows.weight)
        fitted = options(anchor, simulate.Rows(rows.X, rows.y, kept / kept.sum(axis=1, keepdims=True)))
        scores = np.einsum("knd,okdc->oknc", rows.X, fitted)
        shifted = scores - scores.max(axis=-1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        row_losses = -np.take_along_axis(logs, np.broadcast_to(rows.y, scores.shape[:3])[..., None], axis=-1)[..., 0]
        losses, errors = np.where(held, row_losses, losses), np.where(held, scores.argmax(axis=-1) != rows.y, errors)
    best, _ = choose(losses, errors, (rows.weight > 0).astype(float), 0)
    np.testing.assert_array_equal(jax.jit(simulate.choose)(anchor, rows, folds), best)


def test_a_quick_item_measures_what_was_tuned_and_names_its_stand_in():
    document = items.fig8(quick=True, seed=0)
    lines = {line["label"]: line for line in document.series.values()}
    assert set(lines) == {"PMTL", "alone"} and all(0 < y < 1 for line in lines.values() for y in line["y"])
    assert "stand-in" in document.settings["data"]["tags"]
