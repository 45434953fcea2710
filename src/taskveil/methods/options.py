"""What the options of methods may be, by name: one table for all methods.

An option whose default is None may be None. A method that gives a name another meaning says so in `Method.rules`. Options
that are not listed (matrices, labels, models) are checked by the method that has them.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from taskveil.checks import AnyOf, Choice, Flag, ListOf, Number, Rule, Whole, optional
from taskveil.errors import OptionError

MOST_ROUNDS = 100_000  # planned in seconds; more only ever was a slip of the finger
MOST_STEPS = 1_000_000

SHARE = Number(above=0, below=1)
POSITIVE = Number(above=0)
NOT_NEGATIVE = Number(at_least=0)
STEPS = Whole(1, MOST_STEPS)

OPTIONS: dict[str, Rule] = {
    "rounds": Whole(1, MOST_ROUNDS),
    "clip": Number(at_least=1e-100, at_most=1e100),  # as in privacy.bounds
    "rate": Number(above=0, at_most=1),
    "strength": NOT_NEGATIVE,
    "mean_share": SHARE,
    "tol": NOT_NEGATIVE,
    "C1": POSITIVE,
    "C2": POSITIVE,
    "insensitivity": NOT_NEGATIVE,
    "fit_intercept": Flag(),
    "update_every": STEPS,
    "local_passes": STEPS,
    "local_steps": STEPS,
    "tune_steps": Whole(0, MOST_STEPS),
    "alone_steps": Whole(0, MOST_STEPS),
    "batch_size": optional(STEPS),
    "tune_batch": optional(STEPS),
    "folds": Whole(2, 100),
    "learning_rate": POSITIVE,
    "server_rate": POSITIVE,
    "tune_rate": POSITIVE,
    "decay": NOT_NEGATIVE,
    "shrink": Flag(),
    "adaptive_clip": SHARE,
    "participations": Whole(1, MOST_ROUNDS),
    "penalty": NOT_NEGATIVE,
    "own_penalty": NOT_NEGATIVE,
    "shared_penalty": NOT_NEGATIVE,
    "ridge": POSITIVE,
    "n_min": Whole(1),
    "n_max": Whole(1),
    "step": POSITIVE,
    "momentum": Choice("accelerated", "strong", "none"),
    "strong_convexity": NOT_NEGATIVE,
    "allocation": Choice("uniform", "power", "geometric"),
    "exponent": Number(at_least=-100, at_most=100),
    "covariance": Choice("models", "gram"),
    "relaxation": AnyOf(Choice("safeguarded", "delays"), Number(above=0, at_most=1)),
    "row_rate": Number(above=0, at_most=1),
    "noises": Whole(1, 2),
    "first_share": SHARE,
    "semi_exact": Flag(),
    "refine": Flag(),
    "budgets": ListOf(POSITIVE),
    "row_bound": POSITIVE,
    "model_bound": POSITIVE,
    "mask_share": Number(at_least=0, at_most=1),
    "mask_seed": Whole(0),
    "start": Choice("alone", "zero"),
}


class WithOptions:
    """Constructor arguments that can be read, set and cloned as scikit-learn does, without a second spent importing it.

    A method declares its options once, as fields of a dataclass, and a method built on it adds its own.
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        if cls.__init__ is object.__init__:
            return {}
        arguments = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return {argument.name: argument.default for argument in sorted(arguments, key=lambda a: a.name)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **options: Any) -> Self:
        for name, value in options.items():
            if name not in self._defaults():
                raise OptionError(f"{type(self).__name__} has no option {name!r}; options: {', '.join(self._defaults())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        written = {name: repr(value) for name, value in self.get_params().items()}
        changed = [f"{name}={written[name]}" for name, usual in self._defaults().items() if written[name] != repr(usual)]
        return f"{type(self).__name__}({', '.join(changed)})"


def rules_of(method: Any) -> dict[str, Rule]:
    """The rule of every option of this method that has one."""
    table = {**OPTIONS, **method.rules}
    defaults = {n: p.default for n, p in inspect.signature(type(method).__init__).parameters.items()}
    named = {name: table[name] for name in method.get_params(deep=False) if name in table}
    return {name: optional(rule) if defaults.get(name, 0) is None else rule for name, rule in named.items()}


def check_options(method: Any) -> None:
    """Every option keeps its rule, or an error names the first one that does not."""
    for name, rule in rules_of(method).items():
        rule.check(f"option {name} of method {method.name!r}", getattr(method, name))
