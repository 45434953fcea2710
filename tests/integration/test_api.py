"""The API page is complete, and what it shows is documented: public names, public methods, parameters, examples that run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import taskveil
from taskveil.audits.result import AuditResult
from taskveil.checks import Choice
from taskveil.estimators.gain import Gain
from taskveil.estimators.parameters import PARAMETERS
from taskveil.privacy.certificate import Certificate, Statement, Verification

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
SHOWN = re.findall(r"^::: (taskveil[\w.]*)", (ROOT / "docs" / "api.md").read_text(), re.M)
TOUCHED = [  # classes whose methods and attributes users call
    *(getattr(taskveil, n) for n in taskveil.__all__ if inspect.isclass(getattr(taskveil, n))),
    *(Gain, Statement, Verification, AuditResult),
]
ESTIMATORS = [taskveil.TaskRegressor, taskveil.TaskClassifier, taskveil.TaskSearch]
EXAMPLES = [*ESTIMATORS, Certificate, Gain, taskveil.TaskSet, taskveil.PublicBounds, taskveil.load_tasks, taskveil.audit,
            taskveil.get_synthetic, taskveil.split_rows]  # fmt: skip


def named(path: str) -> Any:
    """The object behind a line of the page."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(named(module), name)


def own_methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that we wrote."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", getattr(member, "func", member))
        if not name.startswith("_") and inspect.isfunction(function) and function.__module__.startswith("taskveil"):
            yield name, function


def undocumented(kind: type) -> list[str]:
    return [f"{kind.__name__}.{name}" for name, f in own_methods(kind) if not (f.__doc__ or "").strip()]


def parameters_without_a_word(thing: Any, text: str) -> list[str]:
    """Arguments that the docstring's list of parameters does not name."""
    part = text.split("Parameters\n", 1)[-1].split("Returns\n", 1)[0] if "Parameters\n" in text else ""
    listed = set(re.findall(r"^\*{0,2}(\w+)(?: : |$)", part, re.M))
    wanted = [p for p in inspect.signature(thing).parameters if p not in ("self", "cls", "others")]
    return [p for p in wanted if p not in listed]


def test_the_page_shows_every_public_name_and_nothing_that_is_gone():
    shown = [named(path) for path in SHOWN]
    missing = [n for n in taskveil.__all__ if n != "methods" and not any(getattr(taskveil, n) is s for s in shown)]
    assert not missing and "taskveil.methods" in SHOWN


def test_what_is_shown_as_importable_is_in_the_package():
    """Two names stood among them that `taskveil` does not have."""
    page = (ROOT / "docs" / "api.md").read_text().split("## Returned, not imported")[0]
    for path in re.findall(r"^::: (taskveil[\w.]*)", page, re.M):
        assert path.rpartition(".")[2] in taskveil.__all__, path


@pytest.mark.parametrize("kind", TOUCHED, ids=lambda k: k.__name__)
def test_classes_users_touch_are_on_the_page_with_every_method_documented(kind):
    assert any(named(path) is kind for path in SHOWN), f"docs/api.md does not show {kind.__name__}"
    assert inspect.getdoc(kind) and not undocumented(kind)


def test_hints_list_the_words_that_a_parameter_takes():
    """An editor offers them; they were plain `str`. What the rules take and what the hints say is the same."""
    hints = get_type_hints(taskveil.TaskRegressor.__init__)
    words = {name: set(rule.words) for name, rule in PARAMETERS.items() if isinstance(rule, Choice)}
    assert len(words) > 6 and {name: set(get_args(hints[name])) for name in words} == words


def test_a_method_without_a_word_is_found():
    class Silent:
        def said(self):
            """Something."""

        def unsaid(self): ...

    Silent.said.__module__ = Silent.unsaid.__module__ = "taskveil.somewhere"
    assert undocumented(Silent) == ["Silent.unsaid"]


@pytest.mark.parametrize("kind", [k for k in ESTIMATORS if k is not taskveil.TaskClassifier], ids=lambda k: k.__name__)
def test_every_parameter_of_an_estimator_is_described(kind):
    """TaskClassifier refers to TaskRegressor, whose parameters it shares."""
    assert not parameters_without_a_word(kind, inspect.getdoc(kind))
    same = inspect.signature(taskveil.TaskClassifier).parameters.keys()
    assert same == inspect.signature(taskveil.TaskRegressor).parameters.keys()


@pytest.mark.parametrize("name", ["load_tasks", "audit", "load", "split_rows", "get_synthetic"])
def test_every_parameter_of_a_function_is_described(name):
    function = getattr(taskveil, name)
    assert not parameters_without_a_word(function, inspect.getdoc(function))


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)
def test_every_parameter_of_an_estimators_methods_is_described(kind):
    lost = {n: p for n, f in own_methods(kind) if (p := parameters_without_a_word(f, inspect.getdoc(f)))}
    assert not lost


def test_a_parameter_without_a_word_is_found():
    def f(first, second=1):
        """Words.

        Parameters
        ----------
        first : int
        """

    assert parameters_without_a_word(f, inspect.getdoc(f)) == ["second"]


@pytest.mark.parametrize("kind", ESTIMATORS[:2], ids=lambda k: k.__name__)
def test_the_stated_method_is_the_default(kind):
    stated = re.search(r'^method : .*default="(.+)"$', inspect.getdoc(kind), re.M)
    assert stated and stated[1] == inspect.signature(kind).parameters["method"].default


@pytest.mark.parametrize("default", ["epsilon", "unit", "neighbours", "observer", "aggregation", "scaling", "scaling_share"])
def test_stated_defaults_are_the_defaults(default):
    stated = re.search(rf"^{default} : .*default=(\S+)$", inspect.getdoc(taskveil.TaskRegressor), re.M)
    assert stated and stated[1].strip('"') == str(inspect.signature(taskveil.TaskRegressor).parameters[default].default)


@pytest.mark.parametrize("thing", EXAMPLES, ids=lambda t: t.__name__)
def test_examples_run(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = [t for t in doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs={}) if t.examples]
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example, out=said.append).failed == 0, "".join(said)
