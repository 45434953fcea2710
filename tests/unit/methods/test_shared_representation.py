"""`shared-representation`: what is sent, what is learned, and what a task is left with."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil import methods
from taskveil.errors import OptionError
from taskveil.methods.base import Billboard, PublicInfo
from taskveil.methods.shared_representation import RepresentationServer
from taskveil.privacy.plan import Budget, make_plan
from taskveil.runtime import in_process
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock

pytest.importorskip("jax")

from taskveil.engine.clients import tuner_of
from taskveil.engine.representation import HEAD_UNIT

NAME = "shared-representation"
BUDGET = Budget(epsilon=1.0, delta=1e-3, neighbours="add-remove")


def low_rank_block(m=60, n=24, d=12, k=2, seed=0):
    """Numbers whose models lie in a common plane: y = x B h + noise."""
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((d, k)))[0]
    X = rng.standard_normal((m * n, d))
    W = rng.standard_normal((m, k)) @ B.T
    y = (X * np.repeat(W, n, axis=0)).sum(axis=1) + 0.3 * rng.standard_normal(m * n)
    return TaskBlock(X, y[:, None], np.arange(m + 1) * n), B


def sides(block, epsilon, **options):
    budget = Budget(epsilon=epsilon, delta=1e-3, neighbours="add-remove")
    public = PublicInfo(block.n_tasks, block.n_features, 1, "regression", seed=0)
    method = methods.get(NAME, **options)
    plan = make_plan(method.requests(public, budget), budget)
    return method, method.task_side(block, public, plan), method.server_side(public, plan), plan


def inside(B, directions) -> float:
    """Share of the plane B (d, k) that lies in the span of the directions: 1 where they contain it."""
    return float(np.square(np.linalg.qr(directions)[0].T @ B).sum() / B.shape[1])


def test_only_the_representation_is_sent():
    """The head has 12 + 3 columns and an intercept of its own; the release has d x width numbers."""
    public = PublicInfo(50, 12, 1, "regression", seed=0)
    method = methods.get(NAME, model={"name": "linear", "width": 3}, rounds=2)
    model = method.built(public)
    assert [r.contribution.shape for r in method.requests(public, BUDGET)] == [(36,), (36,)]
    assert (model.n_own, model.n_shared) == (1 + 12 + 3, 36)


def test_rounds_find_the_plane_of_the_models_and_keep_columns_orthonormal():
    block, B = low_rank_block()
    method, _, server, plan = sides(block, None, model={"name": "linear", "width": 2}, rounds=60, personalise="shared")
    record = in_process.run(Run(method, server.public, plan), block)
    before, found = (np.reshape(b.values["mean"], (12, 2)).astype(float) for b in (server.start()[1], record.billboards[-1]))
    np.testing.assert_allclose(found.T @ found, np.eye(2), atol=1e-5)
    assert inside(B, before) < 0.5 and inside(B, found) > 0.95


SIZES = np.array([3, 20, 5, 150, 9, 70, 1, 33, 12, 64, 64, 2, 6, 31, 8, 7, 5, 40, 11, 3])


def uneven(sizes, seed=0):
    """Numbers in tasks of these sizes; the last task has the same rows whatever the others have."""
    rng, last = np.random.default_rng(seed), np.random.default_rng([seed, 1]).standard_normal((sizes[-1], 13))
    whole = np.vstack([rng.standard_normal((sum(sizes[:-1]), 13)), last])
    return TaskBlock(whole[:, :12], whole[:, 12:], np.concatenate([[0], np.cumsum(sizes)]))


@pytest.mark.parametrize("steps", [1, 3])
def test_a_message_is_the_same_to_the_last_bit_whatever_sizes_others_have(steps):
    """Twins: other rows of its own, and steps that take other rows, change it."""

    def message(sizes, seed=0, steps=steps):
        method, tasks, server, _ = sides(uneven(sizes, seed), 1.0, rounds=1, local_steps=steps, batch_size=16)
        return tasks.clients.each_message(*tasks._work(tasks.start(), server.start()[1].view(None)), method.clip)[1][-1]

    usual = message([*SIZES, 90])
    np.testing.assert_array_equal(usual, message([*SIZES[::-1], 90]))
    np.testing.assert_array_equal(usual, message([*np.full(20, 90), 90]))
    assert not np.array_equal(usual, message([*SIZES, 90], seed=1))
    assert not np.array_equal(usual, message([*SIZES, 90], steps=steps + 1))


def test_every_width_pads_its_last_piece_only_and_large_tasks_take_turns():
    """Twin: pieces of the size of the cohort would pad every width to twenty tasks."""
    method, tasks, *_ = sides(uneven(SIZES), 1.0, rounds=1, batch_size=16)
    cut = tasks.clients._cut(tasks.compiled, np.ones((20, 1)), np.arange(20), None, 1)
    shapes = [(piece.index.shape, piece.clients.size) for piece in cut]
    assert [shape[2] for shape, _ in shapes] == [1, 2, 4, 8, 16, 16], "no more than a batch"
    assert sum(there for _, there in shapes) == 20
    assert sum(shape[0] * shape[2] for shape, _ in shapes) < 2.5 * np.minimum(SIZES, 16).sum()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_a_message_is_a_direction_whatever_the_units_of_the_target(size):
    """Its norm is `clip`, so that no clipping norm has to be looked up; the runtime clips it again like any other."""
    block, _ = low_rank_block(m=3)
    big = TaskBlock(block.X, block.y * size, block.offsets)
    method, tasks, server, plan = sides(big, 1.0, rounds=1, clip=0.5)
    work = tasks._work(tasks.start(), server.start()[1].view(None))
    _, messages = tasks.clients.each_message(*work, method.clip)
    np.testing.assert_allclose(np.linalg.norm(messages, axis=1), 0.5, rtol=1e-3)


@pytest.mark.parametrize("model", ["linear", {"name": "rows", "public_head": True}])
def test_what_a_task_learns_alone_does_not_depend_on_the_billboard(model):
    """The twin: with "shared" it does."""
    tasks = related_tasks(n_tasks=6, rows=(12, 16), kind="classification", classes=3)
    ids = [tasks.task_names[i] for i in tasks.task_of_row()]

    def scores(how, noise):
        method = methods.get(NAME, model=model, rounds=1, personalise=how, shrink=False)
        est = tv.TaskClassifier(method, epsilon=0.5, delta=1e-3, seed=0, insecure_noise_seed=noise).fit(tasks)
        return est.predict_proba(tasks.X, task=ids)

    np.testing.assert_array_equal(scores("alone", 1), scores("alone", 2))
    assert not np.array_equal(scores("shared", 1), scores("shared", 2))


def test_with_a_public_head_that_head_is_sent_and_nothing_of_a_tasks_own():
    public = PublicInfo(50, 12, 3, "classification", seed=0)
    model = methods.get(NAME, model={"name": "rows", "public_head": True}).built(public)
    assert (model.n_shared, model.n_own) == (12 * 3 + 3, 3 * (1 + 12 + 12 + 3))


def test_a_public_head_of_zero_changes_nothing():
    """Before the first release own heads correct nothing: the same numbers as without it (squared loss)."""
    block, _ = low_rank_block(m=3)
    found = []
    for more in ({}, {"public_head": True}):
        _, tasks, server, _ = sides(block, 1.0, rounds=1, model={"name": "mlp", "hidden": (4,), **more}, personalise="both")
        params = tasks.finish(tasks.start(), server.start()[1].view(None)).extra["params"]
        found.append(params[:, : 1 + 12 + 4])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_a_class_a_task_has_never_seen_comes_from_the_public_head():
    """Six tasks with two of three classes each; the third is asked for. With a public head of zero nobody names it."""
    rng, m, n = np.random.default_rng(0), 6, 10
    centres, unseen = 3 * np.eye(3, 6), np.arange(m) % 3
    y = np.concatenate([(k + 1 + np.arange(n) % 2) % 3 for k in unseen])
    X = centres[y] + 0.3 * rng.standard_normal((m * n, 6))
    block = TaskBlock(X, np.where(np.arange(3) == y[:, None], 1.0, -1.0), np.arange(m + 1) * n, kind="classification")
    public = PublicInfo(m, 6, 3, "classification", seed=0)
    method = methods.get(NAME, model={"name": "rows", "public_head": True}, rounds=1, ridge=0.1, personalise="shared")
    plan = make_plan(method.requests(public, BUDGET), BUDGET)
    tasks = method.task_side(block, public, plan)

    def named(head):
        shown = Billboard(0, {"mean": np.concatenate([np.zeros(3), head.ravel()])})
        models = tasks.finish(tasks.start(), shown.view(None))
        scores = tuner_of(tasks.model, method.tuning(public)).scores(models.extra["params"], centres[unseen][:, None])
        return np.argmax(np.asarray(scores)[:, 0], axis=1) == unseen

    assert named(np.eye(6, 3) / HEAD_UNIT).all()
    assert not named(np.zeros((6, 3))).any()


def test_a_network_is_fitted_certified_saved_and_read_again(tmp_path):
    tasks = related_tasks(n_tasks=8, rows=(9, 12), kind="classification", classes=3)  # of one compiled width
    ids = [tasks.task_names[i] for i in tasks.task_of_row()]
    method = methods.get(NAME, model={"name": "mlp", "hidden": (5,)}, rounds=2, rate=0.5)
    est = tv.TaskClassifier(method, epsilon=2.0, delta=1e-3, seed=0, neighbours="add-remove").fit(tasks)
    assert est.certificate_.verify().ok and est.certificate_.statements[0].holds
    assert est.gain_.to_frame().shape[0] == 8
    est.save(tmp_path / "model")
    again = tv.load(tmp_path / "model")
    np.testing.assert_array_equal(est.predict_proba(tasks.X, task=ids), again.predict_proba(tasks.X, task=ids))


@pytest.mark.parametrize("how", ["mean", "ewc"])
def test_head_and_representation_can_be_tuned_together_afterwards(how):
    """No step leaves what "shared" leaves; a step moves it."""
    block, _ = low_rank_block(m=3)
    found = []
    for more in ({"personalise": "shared"}, {"personalise": how, "tune_steps": 0}, {"personalise": how, "tune_steps": 3}):
        _, tasks, server, _ = sides(block, 1.0, rounds=1, model={"name": "mlp", "hidden": (4,)}, **more)
        found.append(tasks.finish(tasks.start(), server.start()[1].view(None)).extra["params"])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.abs(found[2] - found[0]).max() > 1e-6


def test_a_wrong_representation_or_way_is_refused_before_rows_are_read():
    tasks = related_tasks(n_tasks=4, kind="regression")
    for options, words in (
        ({"model": "tree"}, "unknown representation"),
        ({"model": "rows"}, "nothing would be shared"),
        ({"model": {"name": "linear", "depth": 3}}, "does not have the options"),
        ({"options": ("shared", "pooled")}, "unknown way to personalise"),
        ({"ridge": 0.0}, "ridge"),
    ):
        with pytest.raises(OptionError, match=words):
            tv.TaskRegressor(methods.get(NAME, **options), epsilon=1.0).fit(tasks)


def named_after_rounds(server_rate) -> float:
    """Twelve tasks with two of three classes each, 40 rounds without noise: share of tasks that name the third."""
    rng, m, n = np.random.default_rng(0), 12, 10
    centres, unseen = 3 * np.eye(3, 6), np.arange(m) % 3
    y = np.concatenate([(k + 1 + np.arange(n) % 2) % 3 for k in unseen])
    X = centres[y] + 0.3 * rng.standard_normal((m * n, 6))
    block = TaskBlock(X, np.where(np.arange(3) == y[:, None], 1.0, -1.0), np.arange(m + 1) * n, kind="classification")
    public, budget = PublicInfo(m, 6, 3, "classification", seed=0), Budget(None, 1e-3)
    options = {"model": {"name": "rows", "public_head": True}, "ridge": 0.1, "personalise": "shared", "rounds": 40}
    method = methods.get(NAME, server_rate=server_rate, **options)
    plan = make_plan(method.requests(public, budget), budget)
    record = in_process.run(Run(method, public, plan), block)
    scores = tuner_of(method.built(public), method.tuning(public)).scores(record.models.extra["params"], centres[unseen][:, None])
    return float((np.argmax(np.asarray(scores)[:, 0], axis=1) == unseen).mean())


def test_rounds_learn_a_useful_public_head_however_long_the_first_step(monkeypatch):
    """Steps of 0.5 are three times as long as the head that is looked for. Twin: steps that keep their length never settle."""
    assert named_after_rounds(0.1) == named_after_rounds(0.5) == 1.0
    monkeypatch.setattr(RepresentationServer, "turned", lambda self, before, update, t: False)
    assert named_after_rounds(0.5) < 0.5


def test_noise_alone_does_not_halve_steps():
    """10,000 pairs of updates of nothing but noise: at three deviations of an inner product one in a thousand points back."""
    block, _ = low_rank_block(m=3)
    _, _, server, _ = sides(block, 1.0, rounds=2, model={"name": "linear", "width": 2})
    rng, deviation = np.random.default_rng(0), server.noise(2) / server.expected(2).min()
    pairs = deviation * rng.standard_normal((10_000, 2, 1, server.model.n_shared))
    assert np.mean([server.turned(a, b, 2) for a, b in pairs]) < 0.003
    assert np.mean([server.turned(a, b, 2) for a, b in pairs - 10 * deviation * np.array([1, -1])[:, None, None]]) > 0.9
