"""A mechanism and a method written outside the package: one class and one table line each, and everything works with them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import taskveil as tv
from taskveil import methods
from taskveil.methods.base import Billboard, Method, Models, ServerSide, TaskSide
from taskveil.methods.local import alone_models
from taskveil.methods.shared_prior import noise_deviation
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.events import PureEvent
from taskveil.privacy.mechanisms import MECHANISMS
from taskveil.privacy.mechanisms.base import Mechanism, laplace_tail
from taskveil.privacy.plan import Request


@dataclass(frozen=True)
class Corner(Mechanism):
    """Noise proportional to exp(-|z|_inf / scale): epsilon = D2 / scale, because |v|_inf <= |v|_2."""

    name = "corner"
    family = "pure"

    @classmethod
    def accepts(cls, contribution):
        return not contribution.symmetric

    @classmethod
    def calibrated(cls, contribution, neighbours, parameter, variant="sound"):
        return cls(contribution.sensitivity(neighbours).l2 / parameter * (1 + 1e-9))

    def event(self, contribution, neighbours):
        return PureEvent(contribution.sensitivity(neighbours).l2 / self.scale * (1 + 1e-9))

    def noise(self, total_shape, stream):
        p = math.prod(total_shape)
        return (stream.gamma(p + 1, self.scale) * (2 * stream.uniform((p,)) - 1)).reshape(total_shape)

    def coordinate_deviation(self, contribution):
        p = math.prod(contribution.total_shape)
        return self.scale * math.sqrt((p + 1) * (p + 2) / 3)

    def typical_norm(self, contribution):
        return self.scale * math.prod(contribution.total_shape)

    def log_tail(self, deviations):
        return laplace_tail(deviations)


class Average(Method):
    """The mean of the tasks' models, used as it is where it stands clear of the noise."""

    name = "toy-average"

    def requests(self, public, budget):
        return [Request("models", 1, VectorSum((public.n_outputs, public.n_features), 1.0))]

    def task_side(self, block, public, plan):
        return Tasks(block, public)

    def server_side(self, public, plan):
        return Server(public, plan)


class Tasks(TaskSide):
    def __init__(self, block, public):
        self.block, self.public = block, public

    def start(self):
        models = alone_models(self.block, self.public)
        return {"w": models.coef, "b": models.intercept}

    def step(self, state, view):
        return state, {"models": state["w"]}

    def finish(self, state, view):
        return Models(np.repeat(view["mean"][None], self.block.n_tasks, axis=0), state["b"])


class Server(ServerSide):
    def __init__(self, public, plan):
        self.public, self.plan = public, plan

    def start(self):
        return {}, Billboard(0, {})

    def step(self, state, releases, accepted):
        total, deviation = releases["models"], noise_deviation(self.plan.releases[0], self.public.n_tasks, "curator")
        clear = np.square(total).sum() > total.size * deviation**2
        return {}, Billboard(1, {"mean": clear * total / self.public.n_tasks}, accepted=accepted)


@pytest.fixture
def registered():
    MECHANISMS.add("corner", Corner)
    methods.METHODS.add("toy-average", f"{__name__}:Average")
    yield
    del MECHANISMS._entries["corner"], methods.METHODS._entries["toy-average"]


def test_a_mechanism_and_a_method_from_outside_fit_certify_and_come_back_from_disk(registered, tmp_path):
    data = tv.get_synthetic("hospitals", n_tasks=12, seed=0).train
    for mechanism in (None, "corner"):
        est = tv.TaskRegressor("toy-average", epsilon=50.0, mechanism=mechanism).fit(data)
        est.certificate_.verify().require()
        assert est.record_.plan.releases[0].mechanism.name == (mechanism or "gaussian")
        est.save(tmp_path / str(mechanism))
        again = tv.load(tmp_path / str(mechanism))
        assert np.array_equal(again.predict(data), est.predict(data)) and again.certificate_.verify()


def test_the_noise_from_outside_has_the_law_it_declares(registered):
    """4000 draws of 5 coordinates; 10 % is more than six standard errors. The twin is the law of l2-Laplace noise."""
    from taskveil.privacy.randomness import insecure_seeded_noise

    what, mechanism = VectorSum((5,), 1.0), Corner(2.0)
    noise = np.stack([mechanism.noise((5,), insecure_seeded_noise(1).at(t, "law")) for t in range(4000)])
    assert np.sqrt(np.mean(noise**2)) == pytest.approx(mechanism.coordinate_deviation(what), rel=0.1)
    other = MECHANISMS.get("l2-laplace")(2.0)
    assert np.sqrt(np.mean(noise**2)) != pytest.approx(other.coordinate_deviation(what), rel=0.1)


def test_a_mechanism_that_does_not_answer_for_its_noise_cannot_be_made():
    """Planted fault: before, an unknown name silently became Gaussian."""
    for answer in ("coordinate_deviation", "typical_norm", "log_tail"):
        silent = type("Silent", (Corner,), {answer: getattr(Mechanism, answer)})
        with pytest.raises(TypeError, match=answer):
            silent(1.0)
