"""What a secure sum can be asked for: one table of bad options, one line each; and who counts as a colluder."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.support.small import related_tasks

from taskveil.audits.secure_attacks import epsilon_of_shares, planned_sum
from taskveil.errors import OptionError
from taskveil.estimators import TaskRegressor
from taskveil.privacy.aggregation import secure_messages, site_message
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Budget, Plan, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise, system_noise
from taskveil.privacy.secure_options import SecureOptions

BAD = [
    ({"colluders": 1000}, "from 1 to 9"),
    ({"colluders": 10}, "from 1 to 9"),
    ({"colluders": 0}, "from 1 to 9"),
    ({"colluders": 0.0}, "from 1 to 9"),
    ({"colluders": -1}, "from 1 to 9"),
    ({"colluders": -0.1}, "from 1 to 9"),
    ({"colluders": 1.5}, "from 1 to 9"),
    ({"colluders": math.nan}, "from 1 to 9"),
    ({"colluders": math.inf}, "from 1 to 9"),
    ({"colluders": True}, "from 1 to 9"),
    ({"colluders": "two"}, "from 1 to 9"),
    ({"colluders": None}, "from 1 to 9"),
    ({"colluders": [1]}, "from 1 to 9"),
    ({"dropouts": -1}, "from 0 to 8"),
    ({"dropouts": 2.5}, "from 0 to 8"),
    ({"dropouts": math.nan}, "from 0 to 8"),
    ({"dropouts": "0.1"}, "from 0 to 8"),
    ({"dropouts": 5}, "can lose at most 4"),
    ({"dropouts": 0.5}, "can lose at most 4"),
    ({"dropouts": 3, "colluders": 4}, "can lose at most 2"),
    ({"min_cohort": 1.5}, "at least 2 and at most 10"),
    ({"min_cohort": 0}, "at least 2 and at most 10"),
    ({"min_cohort": -3}, "at least 2 and at most 10"),
    ({"min_cohort": 11}, "at least 2 and at most 10"),
    ({"min_cohort": True}, "at least 2 and at most 10"),
    ({"min_cohort": "6"}, "at least 2 and at most 10"),
    ({"min_cohort": 5}, "min_cohort >= 6"),
    ({"grid_bits": 30}, "at least 4 and at most 24"),
    ({"grid_bits": 12.5}, "at least 4 and at most 24"),
    ({"law": "laplace"}, "discrete-gaussian"),
    ({"law": ["skellam"]}, "discrete-gaussian"),
    ({"sites": [1, 2]}, "adding up to 10"),
    ({"sites": [0, 10]}, "adding up to 10"),
    ({"sites": 10}, "adding up to 10"),
    ({"sites": [5.0, 5.0]}, "adding up to 10"),
    ({"sites": [10]}, "at least two sites"),
    ({"sites": [5, 5], "colluders": 2}, "from 1 to 1"),
    ({"colluder": 1}, "secure takes"),
    ({"n_tasks": 3}, "secure takes"),
    ("colluders=1", "secure takes"),
]


@pytest.mark.parametrize("given, said", BAD, ids=[str(given) for given, _ in BAD])
def test_bad_options_get_one_line_with_what_is_allowed(given, said):
    with pytest.raises(OptionError) as caught:
        SecureOptions.parse(10, given)
    text = str(caught.value)
    assert said in text and "\n" not in text


def test_a_federation_knows_its_sites_and_takes_no_others():
    assert SecureOptions.parse(10, {"colluders": 1}, sites=[4, 3, 3]).n_sites == 3
    with pytest.raises(OptionError, match="secure takes colluders"):
        SecureOptions.parse(10, {"sites": [5, 5]}, sites=[4, 3, 3])


def test_the_estimator_and_the_plan_refuse_what_the_table_refuses():
    tasks = related_tasks(n_tasks=6)
    with pytest.raises(OptionError, match="from 1 to 5"):
        TaskRegressor("subspace", aggregation="secure", secure={"colluders": 1000}).fit(tasks)
    weak = SecureOptions(6, 1, 3)  # as a file of an earlier version may hold it: it can be read, not planned with
    with pytest.raises(OptionError, match="can lose at most 2"):
        make_plan([Request("sum", 1, VectorSum((4,), 1.0))], Budget(1.0, 1e-5, aggregation="secure", secure=weak))


def test_plans_of_version_0_1_0_are_read_as_one_site_per_task():
    release = planned_sum(10, 1.0)
    plan = Plan((release,), Budget(1.0, 1e-5, aggregation="secure", secure=SecureOptions.for_tasks(10)))
    old = plan.to_dict()
    del old["budget"]["secure"]["site_sizes"]
    del old["releases"][0]["mechanism"]["site_sizes"]
    assert Plan.from_dict(old) == plan


# ------------------------------------------------------------------------------------------ colluding sites


@pytest.mark.parametrize("sizes, before", [((1, 9), 3.41), ((1, 1, 28), 4.48)])
def test_a_site_with_many_tasks_knows_one_share_of_the_noise(sizes, before):
    """Certified 1.0. The larger site subtracts what it knows; what is left is what the others have against it. With one
    share per task, as up to version 0.1.0, that was epsilon 3.41 and 4.48."""
    now = planned_sum(sum(sizes), 1.0, sites=list(sizes))
    assert len(now.mechanism.sites()) == len(sizes)
    assert 0.999 < epsilon_of_shares(now, len(sizes) - 1) <= 1.0
    per_task = planned_sum(sum(sizes), 1.0)  # the twin
    assert epsilon_of_shares(per_task, sum(sizes) - max(sizes)) == pytest.approx(before, abs=0.005)


@pytest.mark.statistical
def test_what_the_largest_site_cannot_subtract_is_the_noise_of_the_certificate():
    """Real messages of sites with 1 and 9 tasks, 4000 coordinates of zeros: the variance of all but the larger site's
    integers, chi-square at 1e-6 on the lower side. A share of a ninth, as with one share per task, fails it."""
    contribution = VectorSum((4000,), 1.0)
    figures = SecureOptions.for_tasks(10, sites=[1, 9])
    plan = make_plan([Request("sum", 1, contribution)], Budget(1.0, 1e-5, aggregation="secure", secure=figures))
    planned, mechanism = plan.releases[0], plan.releases[0].mechanism
    sent = secure_messages(planned, contribution.clip(np.zeros((10, 4000))), system_noise(), None)
    assert sent.shape == (2, 4000)

    def p_value(unknown):
        return stats.chi2(4000).cdf(np.square(unknown * mechanism.step / mechanism.scale).sum())

    assert p_value(sent[0]) > 1e-6 and p_value(sent[1]) > 1e-6
    assert p_value(sent[0] / 3) < 1e-6


def test_a_site_over_the_network_sends_what_the_same_site_sends_in_process():
    contribution = VectorSum((7,), 1.0)
    figures = SecureOptions.for_tasks(6, sites=[2, 1, 3])
    plan = make_plan([Request("sum", 1, contribution)], Budget(1.0, 1e-5, aggregation="secure", secure=figures))
    raw, source = np.random.default_rng(0).normal(size=(6, 7)), insecure_seeded_noise(1)
    together = secure_messages(plan.releases[0], contribution.clip(raw), source, None)
    for row, tasks in zip(together, ([0, 1], [2], [3, 4, 5])):
        alone = site_message(plan.releases[0], contribution.clip(raw[tasks]), source, tasks)
        assert np.array_equal(alone, row)


def test_sites_in_one_process_and_over_threads_give_the_same_models():
    tasks = related_tasks(n_tasks=6)
    common = {"epsilon": 2.0, "aggregation": "secure", "secure": {"sites": [1, 2, 3]}, "seed": 0, "insecure_noise_seed": 5}
    here, there = (TaskRegressor("subspace", runtime=r, **common).fit(tasks) for r in ("in_process", "flower"))
    assert np.array_equal(here.coef_, there.coef_)
    assert {s.colluders for s in here.certificate_.statements} == {1}
    assert "up to 1 other site" in str(here.certificate_)
