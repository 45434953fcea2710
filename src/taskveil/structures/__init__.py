"""How tasks relate, by name. A new structure is one file and one line; tests/contract checks it."""

from taskveil.registry import Table
from taskveil.structures.base import Structure
from taskveil.structures.group_sparse import GroupSparse
from taskveil.structures.l1 import L1
from taskveil.structures.l12 import L12
from taskveil.structures.relationship import Relationship
from taskveil.structures.squared_frobenius import SquaredFrobenius
from taskveil.structures.trace_norm import TraceNorm

STRUCTURES: Table[Structure] = Table("structure")
STRUCTURES.add("trace_norm", TraceNorm())
STRUCTURES.add("group_sparse", GroupSparse())
STRUCTURES.add("l1", L1())
STRUCTURES.add("l12", L12())
STRUCTURES.add("squared_frobenius", SquaredFrobenius())
STRUCTURES.add("relationship", Relationship())

__all__ = ["STRUCTURES", "Structure"]
