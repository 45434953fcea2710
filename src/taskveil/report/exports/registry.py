"""A record for the OpenDP deployments registry (opendp/deployments-registry-data, schemas/deployments-schema.yaml of 2026-07-15).

What only people know (name of the curator, region, intended use) is marked FILL IN; everything else comes from the run. Records
leave here as drafts. A run that does not hold says so in its name, and claims no parameters.
"""

from __future__ import annotations

import json
import re
from typing import Any

from taskveil.report.exports.evidence import Evidence, account_line, aggregation, audit_lines, parameters, releases

FILL = "FILL IN: "
PRIVACY_UNITS = {"task": "task (all rows of one participant)", "record": "record (one row of one task)"}
MODELS = {"curator": "Central", "local": "Local", "local-model": "Local", "secure": "Federated"}


def registry(evidence: Evidence) -> str:
    """The record as YAML."""
    return to_yaml(record(evidence))


def record(evidence: Evidence) -> dict[str, Any]:
    """The record as plain data."""
    certificate, widest = evidence.certificate, evidence.widest()
    deployment: dict[str, Any] = {"basic": _basic(evidence)}
    if widest is not None:
        deployment |= {
            "dp_variant": _variant(evidence),
            "privacy_loss": _loss(evidence),
            "deployment_model": _model(evidence),
            "accounting": {
                "post_processing": "Personal models are fitted by each task from the releases and its own rows.",
                "composition": f"Accountant {widest.accountant}, over all releases: " + "; ".join(releases(certificate)),
            },
            "implementation": _implementation(evidence),
        }
    notes = f"{evidence.verdict}. Certificate code {evidence.code}; checked by `taskveil certify --code`."
    deployment["administrative"] = {"notes": notes, "registry_authors": [FILL + "who submits this record"]}
    head = {"url_slug": slug("taskveil", evidence.name, evidence.code), "status": "Draft", "tier": 3 if widest is not None else 1}
    return {**head, "deployment": deployment}


def slug(*words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", "_".join(words).lower()).strip("_")


def _basic(evidence: Evidence) -> dict[str, Any]:
    public = evidence.run.public
    size = f"{public.n_tasks} tasks, {public.n_features} features, {public.kind}" if public is not None else "sizes not recorded"
    name = ("" if evidence.holds else "DOES NOT HOLD: ") + f"personal models of {evidence.name}"
    method = f"method {evidence.certificate.method} (variant {evidence.certificate.variant})"
    return basic(name, f"A personal model for every task, learnt jointly by {method}: {size}.", evidence.date)


def basic(name: str, description: str, date: str) -> dict[str, Any]:
    """The part of a record that every deployment has; what only people know is marked."""
    return {
        "name": name,
        "data_curators": [FILL + "the organisation"],
        "intended_use": FILL + "what the models are for",
        "data_product_type": "Machine learning model",
        "data_product_region": FILL + "region the data describe, or whose law applies",
        "description": description,
        "publication_date": date,
    }


def _variant(evidence: Evidence) -> dict[str, Any]:
    widest = evidence.widest()
    assert widest is not None
    return {
        "variant_name": "Pure DP" if widest.delta == 0 else "Approximate DP",
        "data_domain": f"Tables of rows that belong to tasks. {'; '.join(evidence.certificate.assumptions)}.",
        "unprotected_quantities": "; ".join(evidence.certificate.not_protected) or "none listed",
    }


def _loss(evidence: Evidence) -> dict[str, Any]:
    widest, profile = evidence.widest(), evidence.profiles[-1]
    assert widest is not None
    numbers: dict[str, Any] = {"epsilon": float(widest.epsilon), "delta": float(widest.delta)}
    if profile.rho is not None:
        numbers["rho"] = float(profile.rho)
    return {
        "privacy_unit": PRIVACY_UNITS[widest.unit],
        "privacy_unit_details": f"{widest.neighbours} neighbours: two tables that differ in one {widest.unit}; "
        f"{_sizes(widest.unit)}.",
        **({"privacy_parameters": numbers} if evidence.holds else {}),
        "privacy_parameters_details": " ".join(
            [parameters(s) for s in evidence.certificate.statements] + [t.strip() for t in profile.lines() if profile.holds]
        ),
    }


def _sizes(unit: str) -> str:
    """What both tables have in common: numbers of rows only where a row is the unit."""
    rows = {"record": "and how many rows each has", "task": "not how many rows one has"}[unit]
    return f"the number of tasks is public, {rows}"


def _model(evidence: Evidence) -> dict[str, Any]:
    way = aggregation(evidence.certificate)
    against = ", ".join(s.against() for s in evidence.certificate.statements)
    books = "no ledger was given"
    if evidence.accounts is not None:
        books = "; ".join(map(account_line, evidence.accounts)) or "no account"
    return {
        "model_name": MODELS.get(way, "Central"),
        "model_name_details": f"aggregation '{way}'",
        "actors": f"Owners of tasks, who keep their rows; whoever aggregates; consumers. Statements are made against: {against}.",
        "release_type": "One release",
        "release_type_details": f"One run with a fixed plan. Budget over runs: {books}.",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
        "access_type_details": "Nobody queries the rows; the models are used as they are.",
    }


def _implementation(evidence: Evidence) -> dict[str, Any]:
    c = evidence.certificate
    exact = "exact discrete noise" if c.randomness.get("exact") else "floating-point noise"
    software = ", ".join(f"{n} {v}" for n, v in c.software.items())
    return {
        "preprocessing_and_hyperparameter_tuning": "; ".join(c.assumptions) or "none recorded",
        "mechanisms": f"{'; '.join(releases(c))}. {exact}, from {c.randomness.get('source', 'unnamed')}. Software: {software}.",
        "justification": "; ".join(audit_lines(evidence)) or "This configuration was not attacked.",
    }


def to_yaml(value: Any, indent: int = 0) -> str:
    """Nested mappings and lists of plain values; every text in double quotes, as JSON writes it, which is YAML too."""
    pad = "  " * indent
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines.append(f"{pad}{key}:\n{to_yaml(item, indent + 1)}".rstrip("\n"))
        elif isinstance(item, list):
            lines.append(f"{pad}{key}:")
            lines += [f"{pad}  - {_scalar(entry)}" for entry in item]
        else:
            lines.append(f"{pad}{key}: {_scalar(item)}")
    return "\n".join(lines) + "\n"


def _scalar(item: Any) -> str:
    text = "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(item, ensure_ascii=False))
    if isinstance(item, float) and "e" in text and "." not in text:
        text = text.replace("e", ".0e")  # YAML 1.1 reads 1e-05 as a word
    return text
