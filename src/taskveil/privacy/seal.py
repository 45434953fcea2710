"""One number over everything a saved run says, carried by each of its files.

certificate.json, model.json and arrays.npz each hold the seal of all three. Whoever changes one or two of them, however
consistently, leaves a file that carries the seal of what was there before. Whoever changes all three can seal them again: a seal
is evidence that files belong together, a signature (privacy/signing.py) is proof of who wrote them.

A certificate is shown to people who may not see the other two files, and models follow from rows and billboards without further
noise: a plain hash of them would let anybody who can guess a task's rows check the guess. So model.json holds a secret `salt`,
new for every saving, and the seal on a certificate says nothing without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

SEAL, SALT = "seal", "salt"


def seal_of(certificate: Mapping[str, Any], model: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """A hash of the contents of the three files, without the seals they carry."""
    digest = hashlib.sha256()
    for document in (certificate, model):
        content = {k: v for k, v in document.items() if k != SEAL}
        digest.update(json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    for name in sorted(set(arrays) - {SEAL}):
        values = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, values.dtype.str, list(values.shape)]).encode() + b"\n")
        digest.update(values.tobytes())
    return digest.hexdigest()


def broken_seals(
    certificate: Mapping[str, Any], model: Mapping[str, Any], arrays: Mapping[str, np.ndarray], names: Sequence[str]
) -> list[str]:
    """Those of the three files, by name, whose seal is not that of the contents; empty when all carry it."""
    expected = seal_of(certificate, model, arrays)
    carried = certificate.get(SEAL), model.get(SEAL), str(arrays[SEAL]) if SEAL in arrays else None
    return [name for name, seal in zip(names, carried, strict=True) if seal != expected]


def is_sealed(certificate: Mapping[str, Any], model: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether any of the files claims to be sealed. Version 0.1.0 sealed nothing."""
    return any(SEAL in file for file in (certificate, model, arrays))
