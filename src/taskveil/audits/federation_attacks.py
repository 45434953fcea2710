"""A lying server against one site: does anything it sees, and has not paid for, depend on the rows?

Both attacks show a centre of size near 1e154 to a site that learns `subspace` for a classification. A solver that squares its
scores then overflows when |X u| is large enough, and a failure that the server can see answers a question about the rows:

    finish    bisection on the size for every direction and pair of directions: the whole centred Gram matrix, X as far as
              inner products tell
    refusals  a message that is refused costs nothing and can be asked for again: the size comes down until the site answers

Version 0.1.0 gave way to both (`BEFORE`). A site now compares a view with public bounds first, answers once and never fails after
that, so that what it says is the same for any rows (`differs` is False), and the estimates are those of a blind guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from taskveil import methods
from taskveil.audits.gallery import Attack, bars
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.runtime import wire
from taskveil.runtime.federation.site.owner import Site
from taskveil.runtime.run import assemble
from taskveil.runtime.wire import Packet
from taskveil.tasks.block import TaskBlock

FEATURES, ROWS = 4, 30
STEPS = 26  # of one bisection: 10 inner products of 4 features take 260 questions
LOW, HIGH = 1e152, 1e156  # sizes between which the squares of scores overflow
OVERFLOW = float(np.sqrt(np.finfo(np.float64).max))
SHRINK = 0.98  # from one free question to the next


@dataclass(frozen=True)
class Outcome:
    """What an attack got for how much."""

    questions: int
    charged: int  # releases on the site's account
    relative_error: float  # of what was read from the rows
    differs: bool  # whether other rows gave other answers to the same questions


BEFORE = {  # measured on version 0.1.0 with the functions below
    "finish": Outcome(260, 0, 8.0e-8, True),
    "refusals": Outcome(261, 2, 0.0199, True),  # 260 of them free; the two releases belong to the one answer at the end
}


class Victim:
    """One site with rows of its own; the server sees only whether it answers, as Flower would show it."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = X
        y = np.where(np.arange(len(X)) % 2 == 0, 1.0, -1.0)
        block = TaskBlock(X, y, np.array([0, len(X)]), kind="classification")
        public = PublicInfo(5, FEATURES, 1, "classification")
        run = assemble(methods.get("subspace", rounds=1), public, Budget(1.0, 1e-5))
        run = run.paid_by(MemoryAccount(), insecure_seeded_noise(1))
        self.method, self.plan, self.account = run.method, run.plan, run.account
        self.account.reserve(self.plan)
        self.site = Site("victim", run, block, [0])
        self.values = dict(self.method.server_side(public, self.plan).start()[1].values)
        self.transcript: list[str] = []

    def answers(self, kind: str, centre: np.ndarray) -> bool:
        """Whether the site answers a packet of this kind with this centre on the billboard; a failure looks like a refusal."""
        arrays = {f"view/{name}": np.asarray(value) for name, value in {**self.values, "mean": centre[None]}.items()}
        fields = {"plan": self.site.digest, "number": 0, "round": int(kind == "finish")}
        try:
            reply = wire.decode(self.site.handle(wire.encode(Packet(kind, fields, arrays)))).kind
        except Exception:
            reply = "refused"
        self.transcript.append(reply)
        return reply != "refused"

    def gram(self) -> np.ndarray:
        """What the attack is after: rows centred and weighted as the solver's first step does, half of the labels being 1."""
        centred = 0.5 * (self.X - self.X.mean(axis=0))
        return centred.T @ centred


def gram_from_finish(seed: int = 0) -> Outcome:
    """The centred Gram matrix from yes and no at the end of a run."""
    victim, other = _victims(seed)
    estimate = _bisected_gram(victim)
    _bisected_gram(other)
    return _outcome(victim, other, estimate, victim.gram())


def length_from_refusals(seed: int = 0) -> Outcome:
    """|X u| for one direction, from refusals of a message that in the end is answered once."""
    victim, other = _victims(seed)
    u = np.eye(FEATURES)[0]
    estimate = _first_answered(victim, u)
    _first_answered(other, u)
    return _outcome(victim, other, np.array([estimate]), np.sqrt(victim.gram()[:1, 0]))


ATTACKS: dict[str, Callable[[int], Outcome]] = {"finish": gram_from_finish, "refusals": length_from_refusals}


def lying_server(seed: int = 0) -> Attack:
    """Both oracles against a site as it is now, beside what version 0.1.0 gave away."""
    now = {name: attack(seed) for name, attack in ATTACKS.items()}
    before = BEFORE["finish"]
    sentence = (
        f"A lying server read a site's whole centred Gram matrix in {before.questions} questions, unpaid, to a relative error of "
        f"{before.relative_error:.0e}; now a site's reactions are "
        f"{'not ' if any(o.differs for o in now.values()) else ''}the same whatever its rows are."
    )
    data = {name: {"before": asdict(BEFORE[name]), "after": asdict(outcome)} for name, outcome in now.items()}
    return Attack("lying-server", sentence, data, lambda: _figure(data))


def _figure(data: dict[str, Any]) -> dict[str, Any]:
    names = {"before": "version 0.1.0", "after": "now"}
    errors = {names[w]: [d[w]["relative_error"] for d in data.values()] for w in names}
    return bars(errors, list(data), "What a lying server reads", "relative error (1 and above: nothing)", type="log")


def _victims(seed: int) -> tuple[Victim, Victim]:
    rng = np.random.default_rng(seed)
    return Victim(rng.normal(size=(ROWS, FEATURES))), Victim(3.0 * rng.normal(size=(ROWS, FEATURES)))


def _bisected_gram(victim: Victim) -> np.ndarray:
    squares = {}
    for i, j in combinations_with_replacement(range(FEATURES), 2):
        squares[i, j] = _longest_square(victim, np.eye(FEATURES)[i] + (i != j) * np.eye(FEATURES)[j])
    gram = np.zeros((FEATURES, FEATURES))
    for (i, j), square in squares.items():
        gram[i, j] = gram[j, i] = square if i == j else (square - squares[i, i] - squares[j, j]) / 2
    return gram


def _longest_square(victim: Victim, u: np.ndarray) -> float:
    """|X u|^2 from the largest size that is still answered."""
    low, high = np.log(LOW), np.log(HIGH)
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if victim.answers("finish", np.exp(middle) * u) else (low, middle)
    return float((OVERFLOW / np.exp((low + high) / 2)) ** 2)


def _first_answered(victim: Victim, u: np.ndarray) -> float:
    size = HIGH
    while not victim.answers("step", size * u) and size > LOW:
        size *= SHRINK
    return OVERFLOW / size


def _outcome(victim: Victim, other: Victim, estimate: np.ndarray, truth: np.ndarray) -> Outcome:
    error = float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))
    differs = victim.transcript != other.transcript
    return Outcome(len(victim.transcript), len(victim.account.spent()), error, differs)
