"""What preparation takes for granted or from values, as facts: the certificate lists them, and each unit refuses some.

A fact follows from options and column types, never from whether a cell happened to be empty: a list of facts that depended on
rows would itself be a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from taskveil.errors import DataError, OptionError
from taskveil.tasks.grouping import folded

if TYPE_CHECKING:
    from taskveil.tasks.task import TaskSet


@dataclass(frozen=True)
class _Rule:
    """`sentence` goes into the certificate. `mend` says what to do instead where the fact breaks the law of a unit."""

    sentence: str
    breaks: str = ""  # "record": not row by row with public parameters; "task": reads other tasks' rows; "any": both
    mend: str = ""
    hint: str = ""  # for whoever runs the command


_DECLARE = "see `taskveil declare`"
_RULES = {
    "kind": _Rule("the kind of target follows the type of column {column!r}, not its values", hint="kind= (--kind) changes it"),
    "labels": _Rule(
        "the label set of column {column!r} was read off the rows and is taken as public",
        "record",
        f"declare the labels under 'classes' in the bounds, or name one with positive= (--positive); {_DECLARE}",
    ),
    "hashed": _Rule(
        "the text of column {column!r} is hashed row by row into {buckets} public buckets, whatever it says",
        hint=f"declare its levels to give each a column of its own ({_DECLARE}), or leave it out (--leave-out {{column}})",
    ),
    "own-fill": _Rule(
        "missing cells stand at the median of the task's own rows, which is never sent",
        "record",
        f"declare ranges and use missing='impute-bounds' (--missing impute-bounds); {_DECLARE}",
    ),
    "dropped": _Rule(
        "rows with missing cells are left out of their task",
        "record",
        f"declare ranges and use missing='impute-bounds' (--missing impute-bounds), which keeps the number of rows; {_DECLARE}",
    ),
    "skipped": _Rule(
        "rows that could not be read are left out of their task",
        "record",
        "the number of rows is public and fixed: correct those rows in the table and leave out bad_rows='skip' (--bad-rows skip)",
    ),
    "shared-rows": _Rule(
        "one row can serve several tasks and there is no person column, so what one person contributes is not bounded",
        "record",
        "load one target at a time (target=, --target), or use unit='task'",
    ),
    "wide": _Rule(
        "one row can serve several tasks", "record", "load one target at a time (target=, --target), or use unit='task'"
    ),
    "person-limit": _Rule(  # for whoever limits persons before loading; older models list it
        "rows of a person were dropped according to which other tasks the person is in, which is taken as public",
        "task",
        "protect rows (unit='record'), or load the tasks with all rows of everybody",
    ),
    "pooled-fill": _Rule(
        "missing answers were filled with means over everybody's rows, and columns chosen by where answers are missing: not in "
        "epsilon",
        "any",
        "load the table with taskveil.load_tasks(..., targets=[...], missing='impute-own'), or use epsilon=None or "
        "variant='paper'",
    ),
    "looked-at": _Rule(
        "the declaration of {column} was filled by looking at values and is taken as public: epsilon does not cover it"
    ),
}
FACTS = tuple(_RULES)
MANY_LABELS = 100  # more than this are believed only if they were declared
BUCKETS = 16
"""Public buckets of an undeclared text column."""


@dataclass(frozen=True)
class Fact:
    """One entry of the table above, with the column it is about."""

    what: str
    column: str = ""

    def about(self, old: str, new: str) -> Fact:
        """The same fact where a target column has another name."""
        return Fact(self.what, new) if self.column == old and self.what in ("kind", "labels") else self

    def sentence(self) -> str:
        """The words of the certificate. They name columns, never values."""
        return _RULES[self.what].sentence.format(column=self.column, buckets=BUCKETS)

    def note(self) -> str:
        """The sentence and what could be done about it, for whoever runs the command."""
        hint = _RULES[self.what].hint.format(column=self.column)
        return f"{self.sentence()}; {hint}" if hint else self.sentence()


def check_facts(facts: Iterable[Fact], unit: str) -> None:
    """Refuse, before anything is released, what a sound private run of this unit cannot rest on."""
    row, task = "unit='record' prepares each row by itself, with declared values only", "unit='task' prepares each task by itself"
    for fact in facts:
        rule = _RULES[fact.what]
        if rule.breaks in ("any", unit):
            raise OptionError(f"{row if unit == 'record' else task}; but {fact.sentence()}. Instead: {rule.mend}.")


def check_few_labels(tasks: TaskSet) -> None:
    """Refuse a target whose rows have a hundred labels that nobody declared: a number or a name, taken for classes."""
    if tasks.classes is None or not any(f.what == "labels" for f in tasks.facts):
        return
    if len({folded(str(label)) for label in tasks.classes}) < len(tasks.classes):
        raise DataError(
            f"the target {tasks.target_name!r} has labels that differ in nothing but capitals or blanks around them; write them "
            "alike. If they are different classes, declare them (bounds, classes); positive=LABEL (--positive) takes all forms "
            "of one."
        )
    if len(tasks.classes) > MANY_LABELS and tasks.classes.dtype.kind in "iuf":
        raise DataError(
            f"the target {tasks.target_name!r} holds more than {MANY_LABELS} different numbers, too many to be labels: predict "
            "it with kind='regression' (--kind; TaskRegressor) and compare by a metric for numbers, or declare classes (bounds)."
        )
    if len(tasks.classes) > MANY_LABELS:
        raise DataError(
            f"the target {tasks.target_name!r} has more than {MANY_LABELS} different labels: is it a number written as text, a "
            "name, free text? If they are classes, declare them (bounds, classes); positive=LABEL (--positive) takes one."
        )


def left_out(name: str) -> str:
    """What to do with a column that nothing can be learned from."""
    return f"leave it out (--leave-out {name}; in Python, drop it from the table)"


def hashed_in(names: Sequence[str]) -> tuple[str, ...]:
    """Text columns hidden in encoded feature names: 'ward#0/16' -> 'ward'."""
    first = f"#0/{BUCKETS}"
    return tuple(n.removesuffix(first) for n in names if n.endswith(first))
