"""Keys of the secure sum: agreement (X25519), derivation (HKDF-SHA256), sealing (ChaCha20-Poly1305), signing
(Ed25519).

Everything comes from the `cryptography` package. Every derived key is bound to a purpose, to the round and to
the ordered pair of sites, so that a key, a ciphertext or a signature of one round is useless in another (no
replay). A sealing key is used for exactly one message (purpose, round, sender, receiver), so its nonce may be
constant.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Protocol

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from taskveil.errors import SecureSumRefused

KEY_BYTES = 32
_NONCE = bytes(12)
_DOMAIN = b"taskveil secure sum 2|"


def label(purpose: str, *numbers: int) -> bytes:
    """Unambiguous context string: fixed domain, purpose, then fixed-width numbers."""
    return _DOMAIN + purpose.encode() + b"|" + b"".join(n.to_bytes(8, "big") for n in numbers)


def derive(secret: bytes, round_id: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 with the round as salt."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=round_id, info=info).derive(secret)


class AgreementKey:
    """One X25519 key pair, made fresh for one round."""

    def __init__(self, private: bytes | None = None) -> None:
        key = X25519PrivateKey.generate() if private is None else X25519PrivateKey.from_private_bytes(private)
        self._key = key
        self._secrets: dict[bytes, bytes] = {}
        self.public = key.public_key().public_bytes_raw()

    def private_bytes(self) -> bytes:
        return self._key.private_bytes_raw()

    def agree(self, other_public: bytes, round_id: bytes, info: bytes) -> bytes:
        """Key shared with the owner of `other_public`; one agreement serves keys for several purposes."""
        if other_public not in self._secrets:
            self._secrets[other_public] = self._exchange(other_public)
        return derive(self._secrets[other_public], round_id, info)

    def _exchange(self, other_public: bytes) -> bytes:
        """The raw secret; low-order points, which give an all-zero one, are refused."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(other_public))
        except ValueError as error:
            raise SecureSumRefused("a site advertised an invalid key; leave it out and start a new round") from error


def seal(key: bytes, message: bytes, context: bytes) -> bytes:
    return ChaCha20Poly1305(key).encrypt(_NONCE, message, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes | None:
    """What was sealed for this purpose; None where it was changed on its way, or never sealed for it."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, context)
    except (InvalidTag, ValueError):
        return None


def usable(public: bytes) -> bool:
    """Whether an agreement with this key is one: 32 bytes, not of low order."""
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return False
    return True


class Signer(Protocol):
    """Whoever signs for a site: an Ed25519 key of our own, or a site's node key."""

    public: bytes

    def sign(self, message: bytes) -> bytes: ...

    def enter(self, round_id: bytes) -> None: ...


class Identity:
    """The long-lived signing key of a site, and the rounds it has already taken part in."""

    def __init__(self, private: bytes | None = None) -> None:
        self._key = Ed25519PrivateKey.generate() if private is None else Ed25519PrivateKey.from_private_bytes(private)
        self._rounds: set[bytes] = set()
        self.public = self._key.public_key().public_bytes_raw()

    def enter(self, round_id: bytes) -> None:
        """Each round is entered once, whatever the server says."""
        if round_id in self._rounds:
            raise SecureSumRefused("this round was entered before; a round is never repeated. Start a new one")
        self._rounds.add(round_id)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


class NodeIdentity:
    """A site's P-384 key, the one Flower knows the node by; its rounds are remembered by parties.py."""

    def __init__(self, private_key_file: bytes) -> None:
        key = serialization.load_ssh_private_key(private_key_file, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SecureSumRefused("expected the elliptic-curve node key that `taskveil join --init` makes")
        self._key = key
        self.public = _point(key.public_key())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message, ec.ECDSA(SHA384()))

    def enter(self, round_id: bytes) -> None:
        """One process answers one message; the site's memory refuses repetitions."""


def node_public(public_key_file: bytes) -> bytes:
    """The public half of a node key, as a roster holds it."""
    key = serialization.load_ssh_public_key(public_key_file)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SecureSumRefused("expected an elliptic-curve public key of a site")
    return _point(key)


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


@lru_cache(maxsize=1 << 15)
def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    """Ed25519 (32-byte keys) or ECDSA P-384; sites simulated in one process share the answers."""
    try:
        if len(public) == KEY_BYTES:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
        else:
            node = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP384R1(), public)
            node.verify(signature, message, ec.ECDSA(SHA384()))
    except (InvalidSignature, ValueError):
        return False
    return True


def digest(*parts: bytes) -> bytes:
    """SHA-256 over length-prefixed parts."""
    framed = [piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)]
    return hashlib.sha256(b"".join([_DOMAIN, *framed])).digest()
