"""A run's evidence in the forms that authorities, registries and inventories ask for; from public things alone.

    nist       a check list in the order of NIST SP 800-226 (March 2025): every item answered from the run, or why it is not
    registry   a record for the OpenDP deployments registry (YAML; schema of 2026-07-15)
    mlbom      a CycloneDX 1.6 bill of materials with a model card (JSON)

`books` has the same three for all accounts of a ledger. Figures on rows (errors, gains) are statistics of people's rows that no
epsilon covers; they stay out of documents that travel, unless somebody entitled to all rows asks for them.
"""

from __future__ import annotations

from collections.abc import Callable

from taskveil.report.exports.books import BOOKS, Books
from taskveil.report.exports.evidence import Evidence, gather
from taskveil.report.exports.mlbom import mlbom
from taskveil.report.exports.nist import nist
from taskveil.report.exports.registry import registry

EXPORTS: dict[str, Callable[[Evidence], str]] = {"nist": nist, "registry": registry, "mlbom": mlbom}

__all__ = ["BOOKS", "EXPORTS", "Books", "Evidence", "gather"]
