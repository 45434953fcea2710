"""What the options of methods may be, by name: one table for all methods.

An option whose default is None may be None. A method that gives a name another meaning says so in `Method.rules`. Options
that are not listed (matrices, labels, models) are checked by the method that has them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar

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
    "spending": Choice("fixed", "adaptive"),
    "semi_exact": Flag(),
    "refine": Flag(),
    "budgets": ListOf(POSITIVE),
    "row_bound": POSITIVE,
    "model_bound": POSITIVE,
    "mask_share": Number(at_least=0, at_most=1),
    "mask_seed": Whole(0),
    "start": Choice("alone", "zero"),
}


@dataclass(frozen=True)
class Group:
    """Options that belong together, as one value: a method has a field for it."""

    flat: ClassVar[Mapping[str, str]] = {}  # field -> the name by which the method itself knows it, too


class WithOptions:
    """Constructor arguments that can be read, set and cloned as scikit-learn does, without a second spent importing it.

    A method declares its options once, as fields of a dataclass, and a method built on it adds its own. What stands in a group
    can be given in three ways: `tune=Personal(steps=3)`, `tune__steps=3`, or by its flat name, `tune_steps=3`, which is also
    how it is saved.
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        if cls.__init__ is object.__init__:
            return {}
        arguments = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return {argument.name: argument.default for argument in sorted(arguments, key=lambda a: a.name)}

    @classmethod
    def _nested(cls) -> dict[str, str]:
        """Flat name -> nested name of every option in a group."""
        groups = {name: value for name, value in cls._defaults().items() if isinstance(value, Group)}
        return {flat: f"{name}__{field}" for name, group in groups.items() for field, flat in group.flat.items()}

    @classmethod
    def _flat(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Fields by flat names."""
        plain = {name: value for name, value in fields.items() if not isinstance(value, Group)}
        inside = {flat: _inside(fields, nested) for flat, nested in cls._nested().items()}
        return dict(sorted({**plain, **inside}.items()))

    @classmethod
    def option_names(cls) -> list[str]:
        """Every name an option can be set by: flat, nested, or that of a whole group."""
        return [*dict.fromkeys([*cls._flat(cls._defaults()), *cls._defaults()]), *cls._nested().values()]

    @classmethod
    def _regrouped(cls, given: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        """What was given, field by field; options in groups by flat or nested name change the group as it was before."""
        fields, nested = {name: value for name, value in given.items() if name in before}, cls._nested()
        for name, usual in cls._defaults().items():
            if isinstance(usual, Group) and not isinstance(fields.get(name, usual), type(usual)):
                raise OptionError(f"{name} of {cls.__name__} is a {type(usual).__name__}; got {type(fields[name]).__name__}")
        for name, value in given.items():
            if name in before:
                continue
            if name not in nested and name not in nested.values():
                raise OptionError(f"{cls.__name__} has no option {name!r}; options: {', '.join(cls._flat(cls._defaults()))}")
            group, _, field = nested.get(name, name).partition("__")
            fields[group] = replace(fields.get(group, before[group]), **{field: value})
        return fields

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All options by name; with `deep`, members of option groups too, as `group__member`."""
        fields = {name: getattr(self, name) for name in self._defaults()}
        return {**fields, **({name: _inside(fields, name) for name in self._nested().values()} if deep else {})}

    def flat_options(self) -> dict[str, Any]:
        """Every option by its flat name: as it is saved, shown and given to a command."""
        return self._flat(self.get_params(deep=False))

    def set_params(self, **options: Any) -> Self:
        """Sets options by name, group members too, and returns the method."""
        for name, value in self._regrouped(options, self.get_params(deep=False)).items():
            setattr(self, name, value)
        return self

    def changed(self) -> dict[str, str]:
        """Options that are not as usual, as they are written."""
        written = {name: repr(value) for name, value in self.get_params(deep=False).items()}
        return {name: written[name] for name, usual in self._defaults().items() if written[name] != repr(usual)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self.changed().items())})"


def _inside(fields: Mapping[str, Any], nested: str) -> Any:
    group, _, field = nested.partition("__")
    return getattr(fields[group], field)


Kind = TypeVar("Kind", bound=type[WithOptions])


def with_groups(kind: Kind) -> Kind:
    """A method whose constructor understands flat and nested names of grouped options, too."""
    plain: Any = kind.__init__

    @wraps(plain)
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        plain(self, *args, **self._regrouped(given, self._defaults()))

    kind.__init__ = __init__  # type: ignore[assignment,misc]
    return kind


def rules_of(method: Any) -> dict[str, Rule]:
    """The rule of every option of this method that has one."""
    table = {**OPTIONS, **method.rules}
    usual = method._flat(method._defaults())
    return {name: optional(table[name]) if usual[name] is None else table[name] for name in usual if name in table}


def check_options(method: Any) -> None:
    """Every option keeps its rule, or an error names the first one that does not."""
    given = method.flat_options()
    for name, rule in rules_of(method).items():
        rule.check(f"option {name} of method {method.name!r}", given[name])
