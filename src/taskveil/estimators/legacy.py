"""Certificates of version 0.1.0: which of them said something false, and why.

Version 0.1.0 printed `holds: true` for runs in which private values reached others before or around the private core
(docs/theory/preparation.md#found). Those runs cannot be mended afterwards; whoever holds such a certificate must know. All
others are still good.
"""

from __future__ import annotations

from typing import Any

from taskveil.methods.base import Method
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.units import Unit
from taskveil.runtime.run import RunRecord

VERSION, FORMAT = "0.1.0", 1
LOOKED = ("the median of the task's own rows", "were left out", "were dropped", "were taken from the data")
TARGET = "its target was scaled by each task's own mean and deviation, so that one row moves every message"
FILLED = "cells were filled, rows dropped or levels found by looking at all rows, so that one row moves others"
KEPT = (
    "each task chose between the shared model and its own with folds that depend on the smallest task's number of rows: "
    "which model the others keep shows that number, which is not public"
)
SEARCHED = (
    "it is a search whose score was noised once, by a curator: with aggregation 'local' or 'secure', or for single rows, that "
    "does not give what it states"
)
GAIN = (
    "written by version 0.1.0, whose gain_ (errors alone and shared, on pages for owners too) depends on the smallest task's "
    "number of rows: the certificate does not cover those figures"
)


def is_legacy(about: dict[str, Any], certificate: Certificate) -> bool:
    """Whether version 0.1.0 wrote this folder."""
    return about.get("format") == FORMAT and certificate.software.get("taskveil") == VERSION


def problems(about: dict[str, Any], method: Method, record: RunRecord, certificate: Certificate) -> list[str]:
    """Why the statements of such a run are false; empty where they stand."""
    budget = record.plan.budget
    if budget.epsilon is None or not record.plan.releases or budget.variant != "sound":
        return []
    affected = {
        TARGET: budget.unit is Unit.RECORD and _scales_target(about),
        FILLED: budget.unit is Unit.RECORD and _looked_at_rows(about),
        KEPT: budget.unit is Unit.TASK and _chose_by_smallest_task(method, record),
    }
    return [_wrongly(why) for why, hit in affected.items() if hit] + certificate_problems(certificate)


def certificate_problems(certificate: Certificate) -> list[str]:
    """What shows in the certificate itself."""
    old = certificate.software.get("taskveil") == VERSION and is_search(certificate)
    curator = all(entry.get("aggregation") == "curator" for entry in certificate.events)
    tasks = all(statement.unit == Unit.TASK for statement in certificate.statements)
    return [_wrongly(SEARCHED)] if old and not (curator and tasks) else []


def notes(about: dict[str, Any]) -> list[str]:
    """What a good certificate of that version does not cover, although its pages show it."""
    return [GAIN] if about["plan"]["budget"]["unit"] == Unit.TASK.value else []


def _wrongly(why: str) -> str:
    return f"version 0.1.0 certified this run wrongly: {why}. Run it again"


def _scales_target(about: dict[str, Any]) -> bool:
    """Ranges of features were declared, the target's was not."""
    declared = about["scaling"]["mode"] == "declared"
    return declared and about["public"]["kind"] == "regression" and not (about.get("bounds") or {}).get("target")


def _looked_at_rows(about: dict[str, Any]) -> bool:
    return any(words in text for text in about["warnings"] for words in LOOKED)


def _chose_by_smallest_task(method: Method, record: RunRecord) -> bool:
    """Whether the estimator chose for the tasks after the run (methods that choose by themselves used their own rules)."""
    public = "public" in method.disclosure(record.public, record.plan).observers
    settled = method.chooses_locally or method.chooses(record.plan.budget) or method.shares_nothing or public
    return method.linear and not settled and record.rounds > 0


def is_search(certificate: Certificate) -> bool:
    """Whether this is the certificate of a search, whose plan version 0.1.0 did not save."""
    return certificate.method.startswith("search over ")
