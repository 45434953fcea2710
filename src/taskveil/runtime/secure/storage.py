"""A site's part in a round as bytes, for sites that start a new process for every message.

What is written holds the round's secrets and the site's integers: it belongs into the site's own files (mode
0600) and is emptied as soon as the round is over (parties.py).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from taskveil.runtime.secure import keys
from taskveil.runtime.secure.client import SecureClient
from taskveil.runtime.secure.settings import SecureSettings


def dump(client: SecureClient) -> bytes:
    """Everything a round needs to go on, except the identity and the roster, which the site has anyway."""
    about: dict[str, Any] = {
        "index": client.index,
        "settings": client.settings.to_dict(),
        "input": _text(client._input.tobytes()),
        "stage": client._stage,
        "round": _text(client._round),
        "neighbours": {str(t): [_text(k) for k in pair] for t, pair in client._neighbours.items()},
        "held": {str(t): [_text(s) for s in pair] for t, pair in client._held.items()},
        "cohort": list(client._cohort),
        "masked": list(client._masked),
        "fingerprint": _text(client._fingerprint),
    }
    for name in ("_sealing", "_masking"):
        if hasattr(client, name):
            about[name] = _text(getattr(client, name).private_bytes())
    if hasattr(client, "_seed"):
        about["_seed"] = _text(client._seed)
    return json.dumps(about).encode()


def load(data: bytes, identity: keys.Signer, roster: Mapping[int, bytes]) -> SecureClient:
    """The client written by `dump`."""
    about = json.loads(data)
    settings = SecureSettings.from_dict(about["settings"])
    residues = np.frombuffer(_bytes(about["input"]), dtype=settings.ring.dtype)
    client = SecureClient(about["index"], settings, identity, roster, settings.ring.centre(residues))
    client._stage, client._round, client._fingerprint = about["stage"], _bytes(about["round"]), _bytes(about["fingerprint"])
    client._cohort, client._masked = tuple(about["cohort"]), tuple(about["masked"])
    client._neighbours = {int(t): (_bytes(a), _bytes(b)) for t, (a, b) in about["neighbours"].items()}
    client._held = {int(t): (_bytes(a), _bytes(b)) for t, (a, b) in about["held"].items()}
    for name in ("_sealing", "_masking"):
        if name in about:
            setattr(client, name, keys.AgreementKey(_bytes(about[name])))
    if "_seed" in about:
        client._seed = _bytes(about["_seed"])
    return client


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
