"""Utility theorems of MP-MTL (journal version): 2-6, and 7-16 of its supplement.

All have one shape. A composition setting turns (epsilon, delta) into M0 or M0':

    No.1 (Theorems 7-11)    epsilon = sum eps_t, delta = 0:   M0 = 1/(|alpha + 1| eps),  M0' = 1/(|1 - Q| eps)
    No.2 (Theorems 12-16)   the log(1/delta) term of eq. 6:   M0 = sqrt(l + 2 eps)/(sqrt|2 alpha + 1| eps),
    No.3 (Theorems 2-6)     the last term of eq. 6:           M0' = sqrt(l + 2 eps)/(sqrt|1 - Q^2| eps)

with l = log(1/delta) in No.2 and l = log(e + eps/(sqrt(2) delta)) in No.3 (sqrt(2) times delta: Lemma 9
bounds sqrt(sum eps_t^2) by eps/sqrt(2)). Then M = M0 K k d log d/sqrt(m) for low rank (Algorithm 2), M0 k
log d/m for group sparse (Algorithm 3), and with budgets eps_t of order t^alpha (convex) or Q^-t (strongly
convex)

    convex           T = ((alpha/2 - a)^2/M)^(phi/a)          E = K^2 L (M/(alpha/2 - a)^2)^phi
    strongly convex  T = log_{1/psi}((R/sqrt(Q) - 1)^2/M)     E = K (M/(R/sqrt(Q) - 1)^2)^(log_psi(R'))

where a = 1, accelerated 2; R = R' = Q0 = 1 - mu/L with psi(Q, Q0^2), accelerated R = sqrt(Q0'), R' = Q0' =
1 - sqrt(mu/L) with psi(Q, Q0'). At the borders of the cases of phi and psi, M is infinite or the bracket
zero: refused.

The pieces of MP-MTL's utility theorems: exponents, optimal allocations, Assumption 1, Prop. 3.

Each function names its equation in the journal version (supplement included).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taskveil.calculators.base import Calculation, positive, probability
from taskveil.errors import OptionError, UnknownName

LOW_RANK, GROUP_SPARSE = "low-rank", "group-sparse"


def phi(alpha: float, *, acceleration: bool, setting: int = 3) -> float:
    """The exponent of the convex bounds: eq. 12 and 14 (settings 2, 3), eq. 25 and 27 (setting 1)."""
    a, low = (2 if acceleration else 1), (-1.0 if setting == 1 else -0.5)
    if alpha in (2.0 * a, low):
        raise OptionError(f"alpha = {alpha:g} lies on the border of the theorem's cases, where its bound is empty.")
    if alpha < low:
        return a / (2.0 * a - alpha)
    top = 2.0 * a if alpha < 2.0 * a else alpha
    return a / (top + 1.0) if setting == 1 else 2.0 * a / (2.0 * top + 1.0)


def psi(ratio: float, base: float) -> float:
    """Eq. 18: Q below the base, the base between it and 1, base/Q above 1."""
    probability(base=base)
    positive(ratio=ratio)
    if ratio in (base, 1.0):
        raise OptionError(f"Q = {ratio:g} lies on the border of the theorem's cases, where its bound is empty.")
    if ratio < base:
        return ratio
    return base if ratio < 1 else base / ratio


def best_alpha(*, acceleration: bool, setting: int = 3) -> float:
    """Theorems 6, 11, 16: the exponent of eps_t ~ t^alpha that minimises the bound."""
    if not acceleration:
        return 0.0
    return 2.0 / 3.0 if setting == 1 else 2.0 / 5.0


def best_ratio(base: float, *, acceleration: bool, setting: int = 3) -> float:
    """Theorems 6, 11, 16: the Q of eps_t ~ Q^-t that minimises the bound.

    `base` is Q0, or Q0' when accelerated.
    """
    power = (1.0 if acceleration else 2.0) / (3.0 if setting == 1 else 5.0)
    return float(base**power)


def assumption_1(
    estimator: str, *, n_features: int, epsilon: float, delta: float, norm_bound: float = 1.0, setting: int = 3
) -> float:
    """How many tasks Assumption 1 asks for, its unspecified 'sufficiently large' constant C taken as 1.

    Settings 1 and 2 of the supplement use the same assumption with their own log term (none in setting 1).
    """
    positive(n_features=n_features, epsilon=epsilon, norm_bound=norm_bound)
    spread = log_term(epsilon, delta, setting)
    if estimator == LOW_RANK:
        return (norm_bound * n_features * math.log(n_features) * spread / epsilon) ** 2
    if estimator == GROUP_SPARSE:
        return math.log(n_features) * spread / epsilon
    raise UnknownName(f"unknown estimator {estimator!r}: expected {LOW_RANK} or {GROUP_SPARSE}.")


def acceleration_helps(strong_convexity: float, smoothness: float) -> bool:
    """Claim 2's condition for fewer rounds with acceleration: Q0^2 > Q0', that is mu/L < (3 - sqrt 5)/2."""
    positive(strong_convexity=strong_convexity, smoothness=smoothness)
    x = strong_convexity / smoothness
    return (1 - x) ** 2 > 1 - math.sqrt(x)


def per_task(epsilon: float, delta: float, largest_task: int) -> tuple[float, float]:
    """Prop. 3: a per-record (eps', delta') that gives the per-task (epsilon, delta): eps/n, delta/(n
    exp(eps)).

    Group privacy (Vadhan, Lemma 2.2) for all n rows of the largest task: n eps' = eps, n exp(n eps') delta'
    = delta.
    """
    positive(epsilon=epsilon, largest_task=largest_task)
    return epsilon / largest_task, delta / (largest_task * math.exp(epsilon))


def contraction(mu: float | None, L: float, fast: bool) -> float:
    """Q0 = 1 - mu/L, or Q0' = 1 - sqrt(mu/L) with acceleration (Theorems 4, 5)."""
    if mu is None:
        raise OptionError("a strongly convex theorem needs strong_convexity (mu); the paper uses 1e-3.")
    if not 0 < mu < L:
        raise OptionError(f"strong convexity must lie strictly between 0 and the smoothness {L:g}, got {mu}.")
    return 1 - math.sqrt(mu / L) if fast else 1 - mu / L


def best_exponent(fast: bool, strong: bool, setting: int) -> float:
    """The exponent of M at the optimal allocation (Theorems 6, 11, 16; Table 2)."""
    if strong:
        return 1.0 if fast else 0.5
    return phi(best_alpha(acceleration=fast, setting=setting), acceleration=fast, setting=setting)


def log_term(epsilon: float, delta: float, setting: int) -> float:
    """sqrt(l + 2 eps) of Lemma 9; 1 in setting No.1, where budgets simply add up."""
    terms: dict[int, Callable[[], float]] = {
        1: lambda: 1.0,
        2: lambda: math.sqrt(math.log(1 / delta) + 2 * epsilon),
        3: lambda: math.sqrt(math.log(math.e + epsilon / (math.sqrt(2) * delta)) + 2 * epsilon),
    }
    if setting not in terms:
        raise UnknownName(f"unknown composition setting {setting}: expected 1, 2 or 3.")
    if setting > 1:
        probability(delta=delta)
    return terms[setting]()


CAVEAT = (
    "bound for the paper's (unsound) Wishart noise; constants unspecified (taken as 1). It is a "
    "statement about rates, "
    "holds 'with high probability', and no privacy guarantee follows from it"
)


@dataclass(frozen=True)
class _Case:
    """What a theorem is about: which estimator, convex or strongly convex, which composition setting."""

    estimator: str
    strongly_convex: bool
    setting: int

    @property
    def name(self) -> str:
        title = "Low rank" if self.estimator == LOW_RANK else "Group sparse"
        shape = "Strong convexity" if self.strongly_convex else "Convexity"
        return f"{title} - {shape}" + ("" if self.setting == 3 else f" - Setting No.{self.setting}")


_SHAPES = ((LOW_RANK, False), (GROUP_SPARSE, False), (LOW_RANK, True), (GROUP_SPARSE, True))
CASES = {
    first + i: _Case(estimator, strong, setting)
    for first, setting in ((2, 3), (7, 1), (12, 2))
    for i, (estimator, strong) in enumerate(_SHAPES)
}
ALLOCATIONS = {6: 3, 11: 1, 16: 2}


def names() -> dict[str, str]:
    """Theorem numbers and titles, plus what else `theorem` evaluates."""
    listed: dict[int, str] = {n: c.name for n, c in CASES.items()}
    listed |= {n: f"Budget allocation (setting No.{s})" for n, s in ALLOCATIONS.items()}
    return {str(n): listed[n] for n in sorted(listed)}


def theorem(
    number: int,
    *,
    n_tasks: int,
    n_features: int,
    epsilon: float,
    delta: float = 0.0,
    acceleration: bool = True,
    alpha: float | None = None,
    ratio: float | None = None,
    index: int = 1,
    norm_bound: float = 1.0,
    smoothness: float = 1.0,
    strong_convexity: float | None = None,
) -> Calculation:
    """Evaluate Theorem `number` (2 to 16).

    `alpha` (convex) and `ratio` = Q (strongly convex) default to the optimal allocation of Theorems 6, 11,
    16. `index` is k of Lemmas 1 and 2 (how many singular values or rows survive the threshold), `norm_bound`
    K, `smoothness` L, `strong_convexity` mu < L.
    """
    positive(n_tasks=n_tasks, n_features=n_features, epsilon=epsilon, norm_bound=norm_bound, smoothness=smoothness)
    if number in ALLOCATIONS:
        return _allocation(number, strong_convexity, smoothness)
    if number not in CASES:
        raise UnknownName(f"no theorem {number}: expected one of {', '.join(names())}.")
    case = CASES[number]
    if case.setting > 1:
        probability(delta=delta)
    if not (1 <= index <= n_features and n_features >= 2):
        raise OptionError(f"k must lie between 1 and the {n_features} features (at least 2), got {index}.")
    sizes = _Sizes(n_tasks, n_features, epsilon, delta, index, norm_bound, smoothness)
    if case.strongly_convex:
        return _strong(number, sizes, acceleration, ratio, strong_convexity)
    return _convex(number, sizes, acceleration, alpha)


def table_2(n_tasks: int, n_features: int, epsilon: float) -> list[dict[str, Any]]:
    """Table 2: orders of the optimised bounds, without K, L, k and the log terms."""
    positive(n_tasks=n_tasks, n_features=n_features, epsilon=epsilon)
    base = {
        LOW_RANK: n_features * math.log(n_features) / (math.sqrt(n_tasks) * epsilon),
        GROUP_SPARSE: math.log(n_features) / (n_tasks * epsilon),
    }
    rows = []
    for setting, label in ((1, "delta = 0"), (3, "delta > 0")):
        for fast in (False, True):
            for strong in (False, True):
                power = best_exponent(fast, strong, setting)
                orders = {name: b**power for name, b in base.items()}
                rows.append({"setting": label, "acceleration": fast, "strongly_convex": strong, "exponent": power, **orders})
    return rows


@dataclass(frozen=True)
class _Sizes:
    n_tasks: int
    n_features: int
    epsilon: float
    delta: float
    index: int
    norm_bound: float
    smoothness: float

    def signal(self, estimator: str, noise: float) -> float:
        """M: noise M0 times K k d log d/sqrt(m), or k log d/m."""
        k, d, m = self.index, self.n_features, self.n_tasks
        if estimator == LOW_RANK:
            return noise * self.norm_bound * k * d * math.log(d) / math.sqrt(m)
        return noise * k * math.log(d) / m

    def common(self, case: _Case) -> dict[str, Any]:
        """What every theorem asks for: step, penalty, largest budget of a round, Assumption 1."""
        k, d, m, K = self.index, self.n_features, self.n_tasks, self.norm_bound
        low_rank = case.estimator == LOW_RANK
        q = min(d, m)
        if low_rank:
            cap = 4 * K * k**2 * d * math.log(d) / q**2
        else:
            cap = k**2 * math.log(d) / (4 * K * d * (d - k) ** 2 * m) if k < d else math.inf
        need = assumption_1(
            case.estimator, n_features=d, epsilon=self.epsilon, delta=self.delta, norm_bound=K, setting=case.setting
        )
        return {
            "step": 1 / self.smoothness,
            "penalty_order": self.smoothness * K * math.sqrt(m) * (1 if low_rank else d),
            "largest_round_epsilon": cap,
            "tasks_needed_order": need,
            "assumption_1_at_constant_1": m > need,
        }


def _convex(number: int, s: _Sizes, fast: bool, alpha: float | None) -> Calculation:
    case = CASES[number]
    alpha = best_alpha(acceleration=fast, setting=case.setting) if alpha is None else float(alpha)
    a = 2 if fast else 1
    power = phi(alpha, acceleration=fast, setting=case.setting)
    slack = abs(alpha + 1) if case.setting == 1 else math.sqrt(abs(2 * alpha + 1))
    noise = log_term(s.epsilon, s.delta, case.setting) / (slack * s.epsilon)
    M = s.signal(case.estimator, noise)
    bracket = (alpha / 2 - a) ** 2
    values = {
        "alpha": alpha,
        "phi": power,
        "M0": noise,
        "M": M,
        "rounds_order": (bracket / M) ** (power / a),
        "rounds": _whole((bracket / M) ** (power / a)),
        "error_order": s.norm_bound**2 * s.smoothness * (M / bracket) ** power,
        "error_is": "f(W_T) - f(W*)" if fast else "f(mean of W_1..W_T) - f(W*)",
        "momentum": "(t - 1)/(t + 2)" if fast else "0",
        **s.common(case),
    }
    formula = f"T ~ ((alpha/2 - {a})^2/M)^(phi{'/2' if fast else ''}),  E = O(K^2 L (M/(alpha/2 - {a})^2)^phi)"
    return Calculation(f"MP-MTL Theorem {number}", case.name, values, formula, CAVEAT)


def _strong(number: int, s: _Sizes, fast: bool, ratio: float | None, mu: float | None) -> Calculation:
    case = CASES[number]
    base = contraction(mu, s.smoothness, fast)
    root, square = (math.sqrt(base), base) if fast else (base, base**2)
    Q = best_ratio(base, acceleration=fast, setting=case.setting) if ratio is None else float(ratio)
    rate = psi(Q, square)
    slack = abs(1 - Q) if case.setting == 1 else math.sqrt(abs(1 - Q**2))
    noise = log_term(s.epsilon, s.delta, case.setting) / (slack * s.epsilon)
    M = s.signal(case.estimator, noise)
    bracket = (root / math.sqrt(Q) - 1) ** 2
    power = math.log(base) / math.log(rate)
    values = {
        "Q": Q,
        "Q0": base,
        "psi": rate,
        "exponent": power,
        "M0": noise,
        "M": M,
        "rounds_order": math.log(bracket / M) / math.log(1 / rate),
        "rounds": _whole(math.log(bracket / M) / math.log(1 / rate)),
        "error_order": s.norm_bound * (M / bracket) ** power,
        "error_is": "f(W_T) - f(W*)" if fast else "|W_T - W*|_F / sqrt(m)",
        "momentum": "(1 - sqrt(mu/L))/(1 + sqrt(mu/L))" if fast else "0",
        **s.common(case),
    }
    inner = "sqrt(Q0')/sqrt(Q)" if fast else "Q0/sqrt(Q)"
    formula = f"T ~ log_(1/psi)(({inner} - 1)^2/M),  E = O(K (M/({inner} - 1)^2)^(log_psi(Q0)))"
    return Calculation(f"MP-MTL Theorem {number}", case.name, values, formula, CAVEAT)


def _allocation(number: int, mu: float | None, L: float) -> Calculation:
    setting = ALLOCATIONS[number]
    values: dict[str, Any] = {}
    for fast, label in ((False, "plain"), (True, "accelerated")):
        alpha = best_alpha(acceleration=fast, setting=setting)
        values[f"alpha, {label}"] = alpha
        values[f"phi, {label}"] = phi(alpha, acceleration=fast, setting=setting)
        values[f"strongly convex exponent, {label}"] = best_exponent(fast, True, setting)
        if mu is not None:
            base = contraction(mu, L, fast)
            values[f"Q, {label}"] = best_ratio(base, acceleration=fast, setting=setting)
    if mu is not None:
        values["fewer rounds when accelerated (Claim 2)"] = acceleration_helps(mu, L)
    n = 3 if setting == 1 else 5
    formula = f"convex: alpha = 0, 2/{n};  strongly convex: Q = Q0^(2/{n}), (Q0')^(1/{n})"
    return Calculation(f"MP-MTL Theorem {number}", names()[str(number)], values, formula, CAVEAT)


def _whole(rounds: float) -> int:
    """At least one round; an order far above anything runnable stays a number."""
    return max(1, math.ceil(min(rounds, 1e15)))
