"""The messages of a secure sum: plain data, so that any transport can carry them.

    server -> site                    site -> server
    Invitation                        AdvertisedKeys
    KeyList                           SealedShares
    Deliveries                        MaskedInput
    CohortList                        CohortSignature
    CohortSignatures                  UnmaskingShares

`encode` writes a JSON head followed by raw bytes; `decode` reads only these ten classes with the declared
field types, and whatever else the bytes are, raises SecureSumRefused. Nothing is ever evaluated or unpickled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from taskveil.errors import SecureSumRefused


@dataclass(frozen=True)
class SecureMessage:
    """What all messages have in common: the round they are of."""

    round_id: bytes


@dataclass(frozen=True)
class FromSite(SecureMessage):
    """A site's answer to the server."""

    sender: int


@dataclass(frozen=True)
class Invitation(SecureMessage):
    """A round begins, under these settings."""

    settings: bytes  # digest of the settings both sides hold


@dataclass(frozen=True)
class AdvertisedKeys(FromSite):
    """A site's fresh public keys for this round, signed."""

    sealing_key: bytes  # X25519, for the shares that travel through the server
    mask_key: bytes  # X25519, for the masks; opened when the site drops out
    signature: bytes


@dataclass(frozen=True)
class KeyList(SecureMessage):
    """Everybody's advertised keys: the same list for every site."""

    senders: tuple[int, ...]  # all members of the round, ascending
    sealing_keys: tuple[bytes, ...]
    mask_keys: tuple[bytes, ...]
    signatures: tuple[bytes, ...]


@dataclass(frozen=True)
class SealedShares(FromSite):
    """Shares of a site's two secrets, each sealed for the neighbour that will hold it."""

    receivers: tuple[int, ...]
    sealed: tuple[bytes, ...]
    key_digests: tuple[bytes, ...]  # of every share of the mask key: the sender's own, then the receivers'
    seed_digests: tuple[bytes, ...]
    check_digests: tuple[bytes, ...]
    proof: bytes  # that all these shares fit together (dealing.py)


@dataclass(frozen=True)
class Deliveries(SecureMessage):
    """What a site's neighbours have sealed for it."""

    senders: tuple[int, ...]
    sealed: tuple[bytes, ...]
    key_digests: tuple[bytes, ...]  # of the shares inside, as their senders published them
    seed_digests: tuple[bytes, ...]
    check_digests: tuple[bytes, ...]
    challenges: tuple[bytes, ...]  # of the senders' proofs
    proofs: tuple[bytes, ...]


@dataclass(frozen=True)
class MaskedInput(FromSite):
    """A site's integers under its own mask and those it shares with its neighbours."""

    values: np.ndarray  # residues of the ring
    checksum: bytes  # so that an input damaged on its way counts as missing, not as a wrong sum
    unopened: tuple[int, ...] = ()  # neighbours whose sealed shares are not what they should be


@dataclass(frozen=True)
class CohortList(SecureMessage):
    """The sites whose masked inputs have arrived."""

    members: tuple[int, ...]  # whose masked input is in the sum, ascending


@dataclass(frozen=True)
class CohortSignature(FromSite):
    """A site's signature under the keys and the cohort it was shown."""

    signature: bytes


@dataclass(frozen=True)
class CohortSignatures(SecureMessage):
    """The signatures of a cohort, as proof that all were shown the same."""

    senders: tuple[int, ...]
    signatures: tuple[bytes, ...]


@dataclass(frozen=True)
class UnmaskingShares(FromSite):
    """What a site opens: of every neighbour one of its two secrets, never both."""

    self_owners: tuple[int, ...]  # still there: a share of the self-mask seed
    self_shares: tuple[bytes, ...]
    key_owners: tuple[int, ...]  # gone: a share of the mask key
    key_shares: tuple[bytes, ...]
    pair_owners: tuple[int, ...] = ()  # gone: the key of the mask shared with it, should its shares not open
    pair_keys: tuple[bytes, ...] = ()


INCOMING = (Invitation, KeyList, Deliveries, CohortList, CohortSignatures)  # what a site gets, in order
ANSWERS = (AdvertisedKeys, SealedShares, MaskedInput, CohortSignature, UnmaskingShares)  # what it says to them
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (*INCOMING, *ANSWERS)}
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
        return _Reader(data).message()
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise SecureSumRefused("a message of the secure sum cannot be read; leave its sender out") from error


class _Reader:
    """Reads declared fields from bytes it does not trust; ValueError and its kin where they are something else."""

    def __init__(self, data: bytes) -> None:
        size = int.from_bytes(data[:4], "big")
        self.data, self.position = data, 4 + size
        self.head: dict[str, Any] = json.loads(data[4 : self.position], parse_constant=_refuse)

    def message(self) -> SecureMessage:
        cls = _CLASSES[self.head.pop("class")]
        declared = fields(cls)
        if set(self.head) != {item.name for item in declared}:
            raise ValueError("fields")
        values = {item.name: self.value(str(item.type), self.head[item.name]) for item in declared}
        if self.position != len(self.data):
            raise ValueError("trailing bytes")
        message: SecureMessage = cls(**values)
        return message

    def value(self, kind: str, raw: Any) -> Any:
        if kind == "int":
            return _whole(raw)
        if kind == "tuple[int, ...]":
            return tuple(_whole(n) for n in _listed(raw))
        if kind == "tuple[bytes, ...]":
            return tuple(self.take(length) for length in _listed(raw))
        if kind == "bytes":
            return self.take(raw)
        word, length = _listed(raw)
        if word not in _WORDS:
            raise ValueError("word type")
        return np.frombuffer(self.take(length), dtype=word)

    def take(self, length: Any) -> bytes:
        start = self.position
        if _whole(length) > len(self.data) - start:
            raise ValueError("length")
        self.position += length
        return self.data[start : self.position]


def _whole(value: Any) -> int:
    """Site numbers and lengths are small; JSON may hold True, 1.5, 1e999 or an integer of a thousand digits."""
    if type(value) is not int or not 0 <= value < 2**40:
        raise ValueError("expected a whole number")
    return value


def _listed(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError("expected a list")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)
