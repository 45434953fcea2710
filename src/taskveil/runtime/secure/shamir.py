"""Shamir's secret sharing of 32-byte secrets: any `threshold` shares give the secret, fewer say nothing about
it.

A secret is cut into five limbs of 56 bits; each limb is the constant term of its own random polynomial of
degree threshold - 1 over GF(2^61 - 1) (Shamir 1979). Limbs have independent polynomials, so threshold - 1
shares are uniform and independent of the whole secret. All limbs of all secrets of one task are evaluated at
all points at once.

With the secrets a few random polynomials are dealt, by which every holder checks that its shares fit together with the
others' (dealing.py). The server compares a reconstructed key with its public half (server.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import field

SECRET_BYTES = 32
LIMB_BYTES = 7
LIMBS = -(-SECRET_BYTES // LIMB_BYTES)
SHARE_BYTES = 8 * LIMBS
CHECKS = 3  # random polynomials dealt beside the secrets
CHECK_BYTES = 8 * CHECKS


@dataclass(frozen=True, eq=False)
class Dealt:
    """Shares, point -> [share of secret 0, share of secret 1, ..., share of the check], and the dealer's own polynomials."""

    shares: dict[int, list[bytes]]
    coefficients: np.ndarray  # (threshold, limbs of all secrets and checks), constant terms first


def split(secrets: Sequence[bytes], points: Sequence[int], threshold: int) -> Dealt:
    """Shares of several secrets and of the check, for every point."""
    if not 1 <= threshold <= len(points) or len(set(points)) != len(points) or min(points) < 1:
        raise ValueError("expected distinct positive points, at least as many as the threshold")
    constant = np.concatenate([_to_limbs(secret) for secret in secrets])
    coefficients = field.random_elements((threshold, constant.size + CHECKS))
    coefficients[0, : constant.size] = constant
    values = evaluate(coefficients, points).astype("<u8")
    parts = np.split(values, range(LIMBS, constant.size + 1, LIMBS), axis=1)
    return Dealt({point: [part[i].tobytes() for part in parts] for i, point in enumerate(points)}, coefficients)


def evaluate(coefficients: np.ndarray, points: Sequence[int]) -> np.ndarray:
    """Polynomials (columns, constant term first) at the points, by Horner's rule: (points, columns)."""
    x = np.asarray(points, dtype=np.uint64)[:, None]
    values = np.broadcast_to(coefficients[-1], (len(points), coefficients.shape[1]))
    for row in coefficients[-2::-1]:
        values = field.add(field.multiply(values, x), row)
    return values


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret from at least `threshold` shares (the first ones by point are used)."""
    if len(shares) < threshold:
        raise SecureSumRefused(f"expected at least {threshold} shares of a secret, got {len(shares)}; nothing is released")
    points = tuple(sorted(shares))[:threshold]
    values = np.stack([values_of(shares[point], SHARE_BYTES) for point in points])
    return _from_limbs(field.dot(lagrange_at_zero(points), values))


@lru_cache(maxsize=4096)
def lagrange_at_zero(points: tuple[int, ...]) -> np.ndarray:
    """lambda_i = prod_{j != i} x_j / (x_j - x_i) mod p: the weights that evaluate the polynomial at zero."""
    p, weights = field.PRIME, []
    for i, x in enumerate(points):
        top, bottom = 1, 1
        for j, other in enumerate(points):
            if j != i:
                top, bottom = top * other % p, bottom * (other - x) % p
        weights.append(top * pow(bottom, -1, p) % p)
    return np.array(weights, dtype=np.uint64)


def _to_limbs(secret: bytes) -> np.ndarray:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"expected a secret of {SECRET_BYTES} bytes, got {len(secret)}")
    padded = secret.ljust(LIMBS * LIMB_BYTES, b"\0")
    parts = [padded[i : i + LIMB_BYTES] for i in range(0, len(padded), LIMB_BYTES)]
    return np.array([int.from_bytes(part, "little") for part in parts], dtype=np.uint64)


def _from_limbs(limbs: np.ndarray) -> bytes:
    """The secret; limbs that no honest dealer shared are cut to size, so that whatever was dealt opens to something."""
    cut = limbs & np.uint64(2 ** (8 * LIMB_BYTES) - 1)
    return b"".join(int(limb).to_bytes(LIMB_BYTES, "little") for limb in cut)[:SECRET_BYTES]


def values_of(share: bytes, size: int | None = None) -> np.ndarray:
    """A share as field elements."""
    if size is not None and len(share) != size:
        raise SecureSumRefused(f"expected a share of {size} bytes, got {len(share)}; nothing is released")
    return field.reduce(np.frombuffer(share, dtype="<u8").astype(np.uint64))
