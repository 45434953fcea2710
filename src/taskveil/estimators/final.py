"""From the models of a run to those tasks keep: units settled, and each task's better model, from its own rows alone."""

from __future__ import annotations

from taskveil.estimators import certify, common_units
from taskveil.estimators.gain import keep_the_better
from taskveil.methods.base import Method
from taskveil.methods.common_scale import CommonScale
from taskveil.runtime.record import RunRecord
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import Scaling


def settle(method: Method, scaling: Scaling, block: TaskBlock, record: RunRecord) -> tuple[Scaling, TaskBlock]:
    """The units the record's models are in, and the rows in them; `record.models` becomes what the tasks keep."""
    if isinstance(method, CommonScale):
        scaling, block = common_units.settle_units(block, scaling, record)
    budget = record.plan.budget
    private = budget.epsilon is not None and budget.variant == "sound"
    # for the public nothing but releases may enter a model
    public = "public" in certify.observers(method, record, scaling.data_dependent)
    settled = method.chooses(budget) or method.shares_nothing or public or record.rounds == 0
    if private and method.linear and not settled:
        record.models = keep_the_better(method, block, record)
    return scaling, block
