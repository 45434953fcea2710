"""Options that belong together are one value, and the names they had before still work wherever a method is named."""

from __future__ import annotations

import pytest
from sklearn.base import clone

import taskveil as tv
from taskveil import methods
from taskveil.errors import OptionError
from taskveil.methods.neural import LocalSteps, Personal
from taskveil.methods.svm.masks import Masks


def neural(**options):
    return methods.get("mean", model="mlp", **options)


def test_flat_nested_and_whole_groups_say_the_same():
    wanted = LocalSteps(steps=3, learning_rate=0.5)
    said = [{"local": wanted}, {"local__steps": 3, "local__learning_rate": 0.5}, {"local_steps": 3, "learning_rate": 0.5},
            {"local": LocalSteps(steps=3), "learning_rate": 0.5}]  # fmt: skip
    assert all(neural(**options).local == wanted for options in said)
    assert neural(local_steps=4).local != wanted


def test_setting_one_option_leaves_the_rest_of_its_group():
    method = neural(tune_steps=7, decay=0.1).set_params(tune__rate=0.2, tune_steps=9)
    assert method.tune == Personal(steps=9, rate=0.2, decay=0.1) and method.local == LocalSteps()
    est = tv.TaskClassifier(method).set_params(method__local__steps=11, method__batch_size=None)
    assert est.method.local == LocalSteps(11, None) and est.get_params()["method__local__steps"] == 11


def test_a_clone_and_a_printed_form_have_equal_groups():
    method = methods.get("svm", mask="bernoulli:0.5", mask_seed=1)
    assert method.masks == Masks("bernoulli:0.5", seed=1) == clone(method).masks == method.under("task", "paper").masks


@pytest.mark.parametrize("name, options", [("svm", {"mask_share": 0.5, "C1": 2.0}), ("shared-representation", {"tune_steps": 3})])
def test_what_is_saved_is_flat_and_makes_the_method_again(name, options):
    saved = methods.get(name, **options).flat_options()
    assert options.items() <= saved.items() and not any("__" in key for key in saved)
    assert methods.get(name, **saved).flat_options() == saved


@pytest.mark.parametrize("wrong", [{"local": 3}, {"nothing": 1}, {"local__nothing": 1}, {"steps": 1}])
def test_what_is_no_option_is_refused(wrong):
    with pytest.raises(OptionError, match="option|LocalSteps"):
        neural(**wrong)


def test_a_rule_holds_for_an_option_inside_a_group():
    tasks = tv.get_synthetic("hospitals", n_tasks=4, seed=0).train
    with pytest.raises(OptionError, match="mask_share"):
        tv.TaskRegressor(methods.get("svm", masks__share=3.0), epsilon=None).fit(tasks)
