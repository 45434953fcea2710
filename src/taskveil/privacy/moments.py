"""A mean and a second moment in one release: one message, two sums, less noise than two releases.

A task sends M (outputs x features, |M|_F <= 1) and one more number q in [-1, 1]; what is summed is

    s(M, q) = (a M, e q, b M'M)        M'M in the isometry of symmetric matrices; a, e, b public weights

**Theorem** (docs/theory/spending.md#joint-release). Squared l2 sensitivity, add-remove: a^2 + e^2 + b^2. Replace-one: 4 e^2 plus

    4 a^2                             where b^2 <= a^2 / 2: the second moment is free
    2 a^2 + 2 b^2 + a^4 / (2 b^2)     else, instead of 4 a^2 + 2 b^2 for two releases

*Proof.* Add-remove: |s| at |M| = |q| = 1 is at most that, because |M'M|_F <= |M|_F^2. Replace-one: let M become N, m and n the
stacked vectors, p = |m|^2, r = |n|^2, c = m'n. mm' - nn' has trace p - r, squared Frobenius norm p^2 + r^2 - 2c^2, and at
most one positive and one negative eigenvalue l1 >= 0 >= l2. M'M - N'N is a partial trace of it (over outputs), a linear map
that keeps positive semidefiniteness and traces, so it is A - B with A, B positive semidefinite of trace l1 and |l2|, and
|A - B|_F^2 <= |A|_F^2 + |B|_F^2 <= l1^2 + l2^2 = p^2 + r^2 - 2c^2. Hence

    |s - s'|^2 <= 4 e^2 + a^2 (p + r - 2c) + b^2 (p^2 + r^2 - 2c^2).

At fixed c the right side grows with p and with r, and |c| <= sqrt(p r) <= 1, so it is at most its value at p = r = 1 with some c
in [-1, 1]: 4 e^2 + a^2 (2 - 2c) + b^2 (2 - 2c^2). That is concave in c with its maximum at c = -a^2 / (2 b^2), or at the end -1
where this lies outside. Null messages are inside (p = 0). It is reached by two unit vectors at that angle. QED.

M and q are clipped apart, each to 1, by `bounds.clip_rows`. Both sums come from the same M: from two different vectors of a
task the sensitivity would be that of two releases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.privacy.bounds import Bounded, FloatArray, _seal, clip_rows
from taskveil.privacy.contribution import Contribution, Sensitivity, factor, symmetric_matrix, upper_triangle
from taskveil.privacy.partial_sums import Partial, add_up, add_up_squares, added_up, added_up_squares
from taskveil.privacy.units import Neighbours

LARGEST_WEIGHT = 1e6


@dataclass(frozen=True)
class MomentSum(Contribution):
    """Sums over tasks of (a M, e q, b M'M); a message is M flattened, then q."""

    kind = "moment-sum"
    n_features: int
    mean_weight: float  # a
    extra_weight: float  # e
    moment_weight: float  # b
    n_outputs: int = 1

    def __post_init__(self) -> None:
        for weight in (self.mean_weight, self.extra_weight, self.moment_weight):
            if not 1 / LARGEST_WEIGHT <= weight <= LARGEST_WEIGHT:
                raise OptionError(f"the weights of a moment-sum must be positive and finite; got {weight!r}")
        super().__post_init__()

    @property
    def bound(self) -> float:  # type: ignore[override]
        """The norm of a message, of M and q together: one."""
        return 1.0

    @property
    def message_shape(self) -> tuple[int, ...]:
        return (self.n_outputs * self.n_features + 1,)

    @property
    def total_shape(self) -> tuple[int, ...]:
        d = self.n_features
        return (self.n_outputs * d + 1 + d * (d + 1) // 2,)

    def sensitivity(self, neighbours: Neighbours | str) -> Sensitivity:
        """The theorem above; by Cauchy-Schwarz sqrt(size) times that in l1."""
        a2, e2, b2 = self.mean_weight**2, self.extra_weight**2, self.moment_weight**2
        l2 = math.sqrt(factor(neighbours, a2 + e2 + b2, 4 * e2 + _replaced(a2, b2)))
        return Sensitivity(l2=l2, l1=math.sqrt(self.vector_size) * l2)

    @property
    def worst_angle(self) -> float:
        """The cosine between the two messages that replace-one moves furthest apart."""
        return max(-1.0, -(self.mean_weight**2) / (2 * self.moment_weight**2))

    def clip(self, raw: Any) -> Bounded:
        """The messages (k, outputs x features + 1) with M and q each clipped to norm 1."""
        array = np.asarray(raw, dtype=np.float64)
        self._check_messages(array)
        return _seal(np.concatenate([clip_rows(array[:, :-1], 1.0), clip_rows(array[:, -1:], 1.0)], axis=1), self)

    def parts(self, total: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Sums of M (outputs x features), of q, and of M'M, from a (noisy) total.

        Noise of deviation s on the total has deviation s / a, s / e and s / b on them.
        """
        flat, side = np.asarray(total, dtype=np.float64), self.n_features
        size = self.n_outputs * side
        matrix = symmetric_matrix(flat[size + 1 :], side) / self.moment_weight
        return flat[:size].reshape(self.n_outputs, side) / self.mean_weight, float(flat[size] / self.extra_weight), matrix

    def _partial(self, messages: FloatArray) -> Partial:
        models = messages[:, :-1].reshape(-1, self.n_features)
        return Partial((add_up(messages, 1.0), add_up_squares(models, 1.0)))

    def _total(self, partial: Partial) -> FloatArray:
        linear, square = partial.parts
        return self._joined(added_up(linear, 1.0), added_up_squares(square, 1.0))

    def _each(self, messages: FloatArray) -> FloatArray:
        models = messages[:, :-1].reshape(len(messages), self.n_outputs, self.n_features)
        return self._joined(messages, np.matmul(models.transpose(0, 2, 1), models))

    def _joined(self, linear: FloatArray, square: FloatArray) -> FloatArray:
        parts = [self.mean_weight * linear[..., :-1], self.extra_weight * linear[..., -1:]]
        return np.concatenate([*parts, self.moment_weight * upper_triangle(square)], axis=-1)


def _replaced(a2: float, b2: float) -> float:
    """Largest a^2 |M - N|^2 + b^2 |M'M - N'N|^2."""
    return 4 * a2 if b2 <= a2 / 2 else 2 * a2 + 2 * b2 + a2**2 / (2 * b2)


def moment_weights(mean_share: float, extra_part: float, neighbours: Neighbours | str) -> tuple[float, float, float]:
    """(a, e, b) with sensitivity 1, in which the second moment is as precise as a release of its own with 1 - mean_share of the
    budget (of rho, in zCDP terms), and the mean gets all that is left.

    a = h cos, e = h sin with sin = `extra_part`. Replace-one: b^2 = (1 - mean_share) / 2, and h^2 solves
    4 sin^2 h^2 + 2 cos^2 h^2 + 2 b^2 + cos^4 h^4 / (2 b^2) = 1. Where that asks for less than b^2 = a^2 / 2 at h^2 = 1/4, so much
    of the second moment is free, and taken.
    """
    sin2 = extra_part**2
    cos2 = 1.0 - sin2
    if Neighbours(neighbours) is Neighbours.ADD_REMOVE:
        h2, b2 = mean_share, 1.0 - mean_share
    else:
        b2 = max((1.0 - mean_share) / 2, cos2 / 8)
        linear, square = 4 * sin2 + 2 * cos2, cos2**2 / (2 * b2)
        h2 = 2 * (1 - 2 * b2) / (linear + math.sqrt(linear**2 + 4 * square * (1 - 2 * b2)))
    return math.sqrt(h2 * cos2), math.sqrt(h2 * sin2), math.sqrt(b2)
