"""Faults planted on purpose, so that tests can show an audit finds them. Nothing in the package uses them.

Each is a context manager that breaks one thing everybody has got wrong somewhere, and puts it back:

    noise_halved            the sampler draws half of what it was asked for
    clipping_off            messages pass at full length: nobody clips, and where unit vectors are sent nobody makes them so
    round_not_charged       only the first release is paid for; the others are entered as nothing
    sample_count_weights    tasks are weighed by their rows after clipping
    wrong_neighbours        noise for add-remove is sold as replace-one
    noise_reused            seeded noise ignores the round
    resume_repeats_noise    a release made again after a crash gets the noise it had before
    fixed_size_cohort       exactly rate * tasks take part, while Poisson sampling is accounted
    one_sided_noise         the two-sided Wishart loses its second half
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from taskveil.methods import direction_mean, one_release, subspace, together
from taskveil.privacy import contribution, contributions, moments, randomness
from taskveil.privacy.bounds import _seal
from taskveil.privacy.events import ZeroEvent
from taskveil.privacy.mechanisms.wishart import TwoSidedWishart
from taskveil.privacy.plan import Plan, make_plan
from taskveil.runtime import in_process
from taskveil.runtime import round as round_
from taskveil.runtime import run as assembly


@contextmanager
def noise_halved() -> Iterator[None]:
    """All laws have a scale; every draw gets half of it."""

    def halved(name: str, owner: type) -> Any:
        real = getattr(owner, name)
        return patch.object(owner, name, lambda self, *args, **kw: real(self, *args, **kw) / 2)

    seeded, every = randomness._SeededStream, randomness.Stream
    with halved("normal", seeded), halved("laplace", seeded), halved("wishart", every), halved("gamma", every):
        yield


@contextmanager
def clipping_off() -> Iterator[None]:
    with ExitStack() as patches:
        for module in (contribution, contributions, moments):
            patches.enter_context(patch.object(module, "clip_rows", lambda values, norm, xp=np: values))
        patches.enter_context(patch.object(contributions, "clip_factored_rows", lambda X, residuals, norm: residuals))
        for module in (direction_mean, one_release, subspace, together):
            patches.enter_context(patch.object(module, "unit_messages", lambda models: models))
        yield


@contextmanager
def round_not_charged() -> Iterator[None]:
    def careless(requests: Any, budget: Any, policy: str) -> Plan:
        asked = list(requests)
        (paid,) = make_plan(asked[:1], budget).releases
        others = [replace(paid, name=r.name, round=r.round, event=ZeroEvent()) for r in asked[1:]]
        return Plan((paid, *others), budget)

    with patch.object(assembly, "make_plan", careless):
        yield


@contextmanager
def sample_count_weights() -> Iterator[None]:
    """n_i / mean(n), applied to clipped messages: the average weighs tasks by their rows."""
    sizes: list[np.ndarray] = []
    real_run, real_message = in_process.run, round_.bounded

    def run(run: Any, block: Any, *args: Any, **kw: Any) -> Any:
        sizes[:] = [np.asarray(block.sizes, dtype=np.float64)]
        return real_run(run, block, *args, **kw)

    def message(planned: Any, *args: Any, **kw: Any) -> Any:
        bounded = real_message(planned, *args, **kw)
        weights = sizes[0] / sizes[0].mean()
        return _seal(bounded.value * weights.reshape(-1, *[1] * (bounded.value.ndim - 1)), planned.contribution)

    with patch.object(in_process, "run", run), patch.object(round_, "bounded", message):
        yield


@contextmanager
def wrong_neighbours() -> Iterator[None]:
    with ExitStack() as patches:
        for module in (contribution, contributions, moments):
            patches.enter_context(patch.object(module, "factor", lambda neighbours, add_remove, replace_one: add_remove))
        yield


@contextmanager
def noise_reused() -> Iterator[None]:
    real = randomness._SeededSource.at
    with patch.object(randomness._SeededSource, "at", lambda self, round, name, task=None: real(self, 1, name, task)):
        yield


@contextmanager
def resume_repeats_noise() -> Iterator[None]:
    with patch.object(round_, "again", lambda source, attempt: source):
        yield


@contextmanager
def fixed_size_cohort() -> Iterator[None]:
    def cohort(releases: Any, n_tasks: int, source: Any, number: int, size: int | None = None) -> np.ndarray | None:
        rates = {p.rate for p in releases if p.rate is not None}
        if not rates:
            return None
        order = np.argsort(source.at(number, "cohort").uniform(n_tasks))
        return order < round(rates.pop() * n_tasks)

    with patch.object(round_, "draw_cohort", cohort):
        yield


@contextmanager
def one_sided_noise() -> Iterator[None]:
    def noise(self: TwoSidedWishart, total_shape: tuple[int, ...], stream: Any) -> np.ndarray:
        return stream.wishart(total_shape[0], total_shape[0] + 1, self.scale)

    with patch.object(TwoSidedWishart, "noise", noise):
        yield


FAULTS = {
    "noise halved": noise_halved,
    "clipping off": clipping_off,
    "a round not charged": round_not_charged,
    "sample-count weights": sample_count_weights,
    "add-remove noise sold as replace-one": wrong_neighbours,
    "noise reused in two rounds": noise_reused,
    "resume repeats noise": resume_repeats_noise,
    "fixed-size cohort sold as Poisson": fixed_size_cohort,
    "one-sided noise sold as two-sided": one_sided_noise,
}
