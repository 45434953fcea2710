"""Losses of one score, by name. A new loss is one file and one line; tests/contract checks it."""

from taskveil.losses.base import Loss
from taskveil.losses.logistic import Logistic
from taskveil.losses.squared import Squared
from taskveil.registry import Table

LOSSES: Table[Loss] = Table("loss")
LOSSES.add("squared", Squared())
LOSSES.add("logistic", Logistic())
# hinge and epsilon-insensitive (losses/hinge.py, losses/epsilon_insensitive.py) take their lines here.

__all__ = ["LOSSES", "Logistic", "Loss", "Squared"]
