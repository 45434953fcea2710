"""Fine-tuning after the last release: each objective reaches its own optimum, and a client may stay alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

jax = pytest.importorskip("jax")

from taskveil.engine.clients import Clients  # noqa: E402
from taskveil.engine.features import FeatureMap  # noqa: E402
from taskveil.engine.models import build  # noqa: E402
from taskveil.engine.personalise import Option, Tuner, Tuning, choose, parse_options  # noqa: E402
from taskveil.errors import OptionError  # noqa: E402
from taskveil.tasks.block import TaskBlock  # noqa: E402

ALL_ROWS = Tuning(steps=1500, batch_size=None, learning_rate=0.5)


def block_of(sizes, seed=0, classes=3):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], 2)).astype(np.float32)
    labels = (X @ rng.standard_normal((2, classes)) + 0.8 * rng.standard_normal((len(X), classes))).argmax(axis=1)
    return TaskBlock(X, np.where(np.arange(classes) == labels[:, None], 1.0, -1.0), offsets, kind="classification"), labels


@pytest.fixture(scope="module")
def client():
    """One client of 25 rows, a softmax model of 9 parameters, and an anchor away from zero."""
    block, labels = block_of([25])
    model = build("softmax", 2, 3, "classification")
    anchor = np.random.default_rng(7).standard_normal(model.n_parameters).astype(np.float32)
    return Clients(block, FeatureMap(None, 2), model, 0), Tuner(model, ALL_ROWS), anchor, np.asarray(block.X), labels


def scores_of(w, X):
    return X @ w[3:].reshape(2, 3) + w[:3]


def log_p(scores):
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def objective(kind, strength, anchor, X, labels):
    """The objectives of docs/theory/mean-regularised.md#fine-tuning, written a second time and slowly."""
    t = log_p(scores_of(anchor, X))
    onehot = np.eye(3)[labels]
    residual = np.exp(t) - onehot
    gradients = np.concatenate([residual, (X[:, :, None] * residual[:, None, :]).reshape(len(X), -1)], axis=1)
    fisher = (gradients**2).mean(axis=0)

    def value(w):
        s = log_p(scores_of(w, X))
        loss = -s[np.arange(len(X)), labels].mean()
        if kind == "mean":
            return loss + strength / 2 * ((w - anchor) ** 2).sum()
        if kind == "ewc":
            return loss + strength / 2 * (fisher * (w - anchor) ** 2).sum()
        kl = (np.exp(s) * (s - t)).sum(axis=1) + (np.exp(t) * (t - s)).sum(axis=1)
        return loss + strength / 2 * kl.mean()

    return value


@pytest.mark.parametrize("kind, strength", [("mean", 0.5), ("symmetrised-kl", 1.0), ("ewc", 5.0)])
def test_a_fine_tuned_model_minimises_its_objective(client, kind, strength):
    clients, tuner, anchor, X, labels = client
    first = np.zeros_like(anchor)
    fitted = tuner.fit(Option(kind, strength), anchor[None], clients._whole(), clients.rows, np.array([0]), first, 0)
    w = np.asarray(fitted)[0].astype(float)
    value = objective(kind, strength, anchor.astype(float), X.astype(float), labels)
    best = minimize(value, w, method="BFGS", options={"gtol": 1e-9})
    assert value(w) - best.fun < 2e-4
    others = [k for k in ("mean", "symmetrised-kl", "ewc") if k != kind]
    for other in others:  # the check tells the objectives apart
        wrong = minimize(objective(other, strength, anchor.astype(float), X.astype(float), labels), w, method="BFGS").x
        assert value(wrong) - best.fun > 2e-4


def test_vanilla_starts_at_the_billboard_alone_at_the_public_start_and_shared_is_the_billboard(client):
    clients, _, anchor, X, labels = client
    tuner = Tuner(clients.model, Tuning(steps=1, batch_size=None, learning_rate=0.5))
    first = np.full_like(anchor, 0.1)

    def fitted(kind):
        return np.asarray(tuner.fit(Option(kind), anchor[None], clients._whole(), clients.rows, np.array([0]), first, 0))[0]

    def step(w):
        residual = np.exp(log_p(scores_of(w, X))) - np.eye(3)[labels]
        gradient = np.concatenate([residual.mean(axis=0), (X.T @ residual / len(X)).ravel()])
        return w - 0.5 * gradient

    np.testing.assert_array_equal(fitted("shared"), anchor)
    np.testing.assert_allclose(fitted("vanilla"), step(anchor), atol=1e-5)
    np.testing.assert_allclose(fitted("alone"), step(first), atol=1e-5)


def test_clients_choose_for_themselves_and_a_bad_billboard_leaves_them_alone():
    """A billboard of the wrong sign: who has rows stays alone. A good one helps those with few rows."""
    block, labels = block_of([40] * 6 + [3] * 6, seed=3)
    model = build("softmax", 2, 3, "classification")
    clients, tuner = Clients(block, FeatureMap(None, 2), model, 0), Tuner(model, Tuning(60, None, 0.5))
    onehot = np.eye(3)[labels]
    good = np.zeros(model.n_parameters, np.float32)
    for _ in range(300):
        residual = np.exp(log_p(scores_of(good, block.X))) - onehot
        good -= 0.5 * np.concatenate([residual.mean(axis=0), (block.X.T @ residual / len(labels)).ravel()]).astype(np.float32)
    options = parse_options(("alone", "shared", "mean"), 1.0)
    one, first = np.ones((12, 1)), model.start(0)
    _, at_good, errors = clients.personalise(tuner, options, good[None], one, first, 2)
    _, at_bad, _ = clients.personalise(tuner, options, -4 * good[None], one, first, 2)
    assert (at_bad[:6] == 0).all()
    assert (at_good[6:] != 0).sum() > (at_bad[6:] != 0).sum()
    assert errors.shape == (3, 12)


def test_sharing_must_beat_learning_alone_by_a_margin():
    """Equal errors, equal losses: alone. Clearly better: shared. Without the margin a tie goes to the first in the list."""
    errors = np.array([[[0, 1, 0, 1]], [[1, 0, 1, 0]]], float)
    losses, weights = np.zeros_like(errors), np.ones((1, 4))
    assert choose(losses, errors, weights, alone=1)[0][0] == 1
    assert choose(losses, errors, weights, alone=None)[0][0] == 0
    errors[0] = 0.0
    assert choose(losses, errors, weights, alone=1)[0][0] == 0


@pytest.mark.parametrize("wrong", ["magic", ("mean", 1.0, 2.0, 3.0)])
def test_an_unknown_way_to_personalise_is_refused(wrong):
    with pytest.raises(OptionError):
        parse_options((wrong,), 1.0)


def test_alone_must_win_by_more_than_the_row_of_a_class_it_has_not_met():
    """Ten rows; alone (option 0) is right about one or two more of them. Twin: without the row, one suffices."""
    losses, weights = np.zeros((2, 2, 10)), np.ones((2, 10))
    errors = np.zeros((2, 2, 10))
    errors[1, 0, :1], errors[1, 1, :2] = 1.0, 1.0
    assert choose(losses, errors, weights, [0], caution=0.0, unseen=1.0)[0].tolist() == [0, 0]
    losses[0] += 0.1
    assert choose(losses, errors, weights, [0], caution=0.0, unseen=1.0)[0].tolist() == [1, 0]
    assert choose(losses, errors, weights, [0], caution=0.0, unseen=0.0)[0].tolist() == [0, 0]
