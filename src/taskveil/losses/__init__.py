"""Losses of one score, by name. A new loss is one file and one line; tests/contract checks it."""

from taskveil.losses.base import Loss
from taskveil.losses.cox import Cox
from taskveil.losses.epsilon_insensitive import EpsilonInsensitive
from taskveil.losses.hinge import Hinge
from taskveil.losses.huber import Huber
from taskveil.losses.logistic import Logistic
from taskveil.losses.poisson import Poisson
from taskveil.losses.squared import Squared
from taskveil.registry import Table

LOSSES: Table[Loss] = Table("loss")
LOSSES.add("squared", Squared())
LOSSES.add("logistic", Logistic())
LOSSES.add("poisson", Poisson())
LOSSES.add("huber", Huber())
LOSSES.add("cox", Cox())
LOSSES.add("hinge", Hinge())
LOSSES.add("epsilon-insensitive", EpsilonInsensitive())

__all__ = ["LOSSES", "Loss"]
