"""A CycloneDX 1.6 bill of materials: the model as a component with a model card, the libraries as components it depends on."""

from __future__ import annotations

import json
import uuid
from typing import Any

from taskveil.report.exports.evidence import Evidence, audit_lines, parameters, releases


def mlbom(evidence: Evidence) -> str:
    """The bill of materials as JSON."""
    return json.dumps(bill(evidence), indent=1, allow_nan=False) + "\n"


def bill(evidence: Evidence) -> dict[str, Any]:
    """The same as plain data; the serial number follows from the certificate, so that one run has one bill."""
    software = evidence.certificate.software
    libraries = [
        {"type": "library", "bom-ref": f"pkg:{n}", "name": n, "version": str(v), "purl": f"pkg:pypi/{n}@{v}"}
        for n, v in software.items() if n != "python"
    ]  # fmt: skip
    platform = [{"type": "platform", "bom-ref": "python", "name": "python", "version": str(software["python"])}]
    parts = [*(platform if "python" in software else []), *libraries]
    return bill_of(_model(evidence), parts, evidence.code, evidence.date)


def bill_of(component: dict[str, Any], parts: list[dict[str, Any]], about: str, date: str) -> dict[str, Any]:
    """A bill for one component and all it is made of; the serial number follows from what it is `about`."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, 'taskveil:' + about)}",
        "version": 1,
        "metadata": {"timestamp": f"{date}T00:00:00Z", "component": component},
        "components": parts,
        "dependencies": [{"ref": component["bom-ref"], "dependsOn": [p["bom-ref"] for p in parts]}],
    }


def _model(evidence: Evidence) -> dict[str, Any]:
    return {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": evidence.name,
        "version": evidence.code,
        "description": f"Personal models for related tasks, method {evidence.certificate.method}; privacy {evidence.verdict}",
        "modelCard": _card(evidence),
    }


def _card(evidence: Evidence) -> dict[str, Any]:
    c, public = evidence.certificate, evidence.run.public
    kind = public.kind if public is not None else "not recorded"
    false = [] if evidence.holds else [{"name": "the privacy claim does not hold", "mitigationStrategy": evidence.verdict}]
    return {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": kind,
            "architectureFamily": "multi-task learning",
            "modelArchitecture": f"{c.method} (variant {c.variant})",
        },
        "considerations": {
            "technicalLimitations": [*c.not_protected],
            "performanceTradeoffs": [f"noise for privacy: {text}" for text in releases(c)],
            "ethicalConsiderations": [
                *false,
                *({"name": "privacy of whoever's rows were used", "mitigationStrategy": parameters(s)} for s in c.statements),
            ],
        },
        "properties": _properties(evidence),
    }


def _properties(evidence: Evidence) -> list[dict[str, str]]:
    c = evidence.certificate
    properties = [("taskveil:holds", str(evidence.holds).lower()), ("taskveil:code", evidence.code)]
    for s, p in zip(c.statements, evidence.profiles):
        place = f"taskveil:statement:{s.observer}"
        properties.append((place, parameters(s)))
        if p.mu is not None and p.holds:
            properties.append((f"{place}:mu", f"{p.mu:.9g}"))
    properties += [("taskveil:audit", text) for text in audit_lines(evidence)]
    properties += [("taskveil:assumption", text) for text in c.assumptions]
    if evidence.signer:
        properties.append(("taskveil:signed-by", evidence.signer))
    return [{"name": name, "value": value} for name, value in properties]
