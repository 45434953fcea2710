"""The messages of a secure sum: plain data, so that any transport can carry them.

    server -> task                    task -> server
    Invitation                        AdvertisedKeys
    Neighbourhood                     SealedShares
    Deliveries                        MaskedInput
    CohortList                        CohortSignature
    CohortSignatures                  UnmaskingShares

`encode` writes a JSON head followed by raw bytes; `decode` reads only these ten classes with the declared
field types. Nothing is ever evaluated or unpickled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from taskveil.errors import SecureSumRefused


@dataclass(frozen=True)
class Invitation:
    round_id: bytes
    settings: bytes  # digest of the settings both sides hold


@dataclass(frozen=True)
class AdvertisedKeys:
    round_id: bytes
    sender: int
    sealing_key: bytes  # X25519, for the shares that travel through the server
    mask_key: bytes  # X25519, for the masks; opened when the task drops out
    signature: bytes


@dataclass(frozen=True)
class Neighbourhood:
    round_id: bytes
    senders: tuple[int, ...]
    sealing_keys: tuple[bytes, ...]
    mask_keys: tuple[bytes, ...]
    signatures: tuple[bytes, ...]


@dataclass(frozen=True)
class SealedShares:
    round_id: bytes
    sender: int
    receivers: tuple[int, ...]
    sealed: tuple[bytes, ...]
    commitment: bytes  # to the seed of the self mask, so that the server notices wrong shares


@dataclass(frozen=True)
class Deliveries:
    round_id: bytes
    senders: tuple[int, ...]
    sealed: tuple[bytes, ...]


@dataclass(frozen=True)
class MaskedInput:
    round_id: bytes
    sender: int
    values: np.ndarray  # residues of the ring
    checksum: bytes  # so that an input damaged on its way counts as missing, not as a wrong sum


@dataclass(frozen=True)
class CohortList:
    round_id: bytes
    members: tuple[int, ...]  # whose masked input is in the sum, ascending


@dataclass(frozen=True)
class CohortSignature:
    round_id: bytes
    sender: int
    signature: bytes


@dataclass(frozen=True)
class CohortSignatures:
    round_id: bytes
    senders: tuple[int, ...]
    signatures: tuple[bytes, ...]


@dataclass(frozen=True)
class UnmaskingShares:
    round_id: bytes
    sender: int
    self_owners: tuple[int, ...]  # still there: a share of the self-mask seed
    self_shares: tuple[bytes, ...]
    key_owners: tuple[int, ...]  # gone: a share of the mask key
    key_shares: tuple[bytes, ...]


SecureMessage = (
    Invitation
    | AdvertisedKeys
    | Neighbourhood
    | SealedShares
    | Deliveries
    | MaskedInput
    | CohortList
    | CohortSignature
    | CohortSignatures
    | UnmaskingShares
)
INCOMING = (Invitation, Neighbourhood, Deliveries, CohortList, CohortSignatures)  # what a task gets, in order
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in SecureMessage.__args__}
_WORDS = ("<u1", "|u1", "<u2", "<u4", "<u8")


def encode(message: SecureMessage) -> bytes:
    """Bytes of a message: length of the head, JSON head, then the binary parts in order."""
    head: dict[str, Any] = {"class": type(message).__name__}
    parts: list[bytes] = []
    for item in fields(message):
        value = getattr(message, item.name)
        if isinstance(value, int):
            head[item.name] = value
        elif isinstance(value, tuple) and item.type == "tuple[int, ...]":
            head[item.name] = [int(n) for n in value]
        elif isinstance(value, tuple):
            head[item.name] = [len(part) for part in value]
            parts.extend(value)
        else:
            blob = value.tobytes() if isinstance(value, np.ndarray) else value
            head[item.name] = [value.dtype.str, len(blob)] if isinstance(value, np.ndarray) else len(blob)
            parts.append(blob)
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(4, "big"), text, *parts])


def decode(data: bytes) -> SecureMessage:
    """The message in `data`; anything malformed is refused."""
    try:
        return _decode(data)
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise SecureSumRefused("a message of the secure sum cannot be read; leave its sender out") from error


def _decode(data: bytes) -> SecureMessage:
    size = int.from_bytes(data[:4], "big")
    head = json.loads(data[4 : 4 + size])
    cls, position = _CLASSES[head.pop("class")], 4 + size

    def take(length: int) -> bytes:
        nonlocal position
        if not isinstance(length, int) or not 0 <= length <= len(data) - position:
            raise ValueError("length")
        position += length
        return data[position - length : position]

    values: dict[str, Any] = {}
    for item in fields(cls):
        raw = head[item.name]
        if item.type == "int":
            values[item.name] = int(raw)
        elif item.type == "tuple[int, ...]":
            values[item.name] = tuple(int(n) for n in raw)
        elif item.type == "tuple[bytes, ...]":
            values[item.name] = tuple(take(length) for length in raw)
        elif item.type == "bytes":
            values[item.name] = take(raw)
        else:
            if raw[0] not in _WORDS:
                raise ValueError("word type")
            values[item.name] = np.frombuffer(take(raw[1]), dtype=raw[0])
    if position != len(data):
        raise ValueError("trailing bytes")
    message: SecureMessage = cls(**values)
    return message
