"""Shamir's secret sharing of 32-byte secrets: any `threshold` shares give the secret, fewer say nothing about
it.

A secret is cut into five limbs of 56 bits; each limb is the constant term of its own random polynomial of
degree threshold - 1 over GF(2^61 - 1) (Shamir 1979). Limbs have independent polynomials, so threshold - 1
shares are uniform and independent of the whole secret. All limbs of all secrets of one task are evaluated at
all points at once.

Shares carry no check of their own: the server checks what it reconstructs against the advertised public key
or the commitment, so that a wrong share leads to a refusal (server.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import field

SECRET_BYTES = 32
LIMB_BYTES = 7
LIMBS = -(-SECRET_BYTES // LIMB_BYTES)
SHARE_BYTES = 8 * LIMBS


def split(secrets: Sequence[bytes], points: Sequence[int], threshold: int) -> dict[int, list[bytes]]:
    """Shares of several secrets: point -> [share of secret 0, share of secret 1, ...]."""
    if not 1 <= threshold <= len(points) or len(set(points)) != len(points) or min(points) < 1:
        raise ValueError("expected distinct positive points, at least as many as the threshold")
    constant = np.concatenate([_to_limbs(secret) for secret in secrets])
    coefficients = field.random_elements((threshold, constant.size))
    coefficients[0] = constant
    return _cut(evaluate(coefficients, points), points, len(secrets))


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
    values = np.stack([_share_values(shares[point]) for point in points])
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
    if (limbs >> np.uint64(8 * LIMB_BYTES)).any():
        raise SecureSumRefused("shares do not belong to one secret; nothing is released")
    secret = b"".join(int(limb).to_bytes(LIMB_BYTES, "little") for limb in limbs)
    return secret[:SECRET_BYTES]


def _cut(values: np.ndarray, points: Sequence[int], n_secrets: int) -> dict[int, list[bytes]]:
    rows = values.reshape(len(points), n_secrets, LIMBS).astype("<u8")
    return {point: [part.tobytes() for part in row] for point, row in zip(points, rows)}


def _share_values(share: bytes) -> np.ndarray:
    if len(share) != SHARE_BYTES:
        raise SecureSumRefused(f"expected a share of {SHARE_BYTES} bytes, got {len(share)}; nothing is released")
    return field.reduce(np.frombuffer(share, dtype="<u8").astype(np.uint64))
