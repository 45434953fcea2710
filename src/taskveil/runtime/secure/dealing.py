"""Proof that shares fit together, checked by every holder before a masked message leaves.

A dealer that gives its holders points of no common polynomial could not be unmasked, and the round would end. So it deals,
beside the limbs f_1, ..., f_L of its secrets, `CHECKS` random polynomials r_k of the same degree, and publishes digests of all
shares, and then

    z_k(x) = r_k(x) + sum_l w_kl f_l(x)         with weights w from a hash of all digests (Fiat and Shamir)

A holder with share i accepts if z_k(i) = r_k(i) + sum_l w_kl f_l(i) for every k (verifiable sharing with hashes
alone: Atapoor, Baghery, Cozzo and Pedersen, "VSS from distributed ZK proofs and applications", 2023).

Sound    shares of a set of holders that lie on no common polynomial pass with probability 1/p for each k, p = 2^61 - 1, and the
         weights come after the digests: with three checks a dealer succeeds once in some 2^183 hashes and sets of holders.
Hiding   r_k is uniform: whatever f is, and whatever fewer than `threshold` holders know of f and r, z says nothing more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from taskveil.runtime.secure import field, shamir


def prove(dealt: shamir.Dealt, challenge: bytes) -> bytes:
    """The polynomials z, constant terms first."""
    limbs = dealt.coefficients.shape[1] - shamir.CHECKS
    secret, blind = dealt.coefficients[:, :limbs], dealt.coefficients[:, limbs:]
    mixed = np.stack([field.dot(w, secret.T) for w in _weights(challenge, limbs).T], axis=1)
    return field.add(blind, mixed).astype("<u8").tobytes()


def proof_bytes(threshold: int) -> int:
    return 8 * threshold * shamir.CHECKS


def fitting(
    point: int, shares: Sequence[Sequence[bytes]], challenges: Sequence[bytes], proofs: Sequence[bytes], threshold: int
) -> list[bool]:
    """For every dealer whether its shares for this point (secrets, then check) are on the polynomials it proved."""
    if not shares:
        return []
    values = np.stack([np.concatenate([shamir.values_of(part) for part in parts]) for parts in shares])
    secret, blind = values[:, : -shamir.CHECKS], values[:, -shamir.CHECKS :]
    weights = np.stack([_weights(challenge, secret.shape[1]) for challenge in challenges])
    claimed = field.reduce(np.stack([np.frombuffer(proof, dtype="<u8").reshape(threshold, -1) for proof in proofs], axis=1))
    expected = shamir.evaluate(claimed.reshape(threshold, -1), [point]).reshape(len(shares), shamir.CHECKS)
    sums = blind
    for limb in range(secret.shape[1]):
        sums = field.add(sums, field.multiply(secret[:, limb, None], weights[:, limb]))
    return [bool(same) for same in (sums == expected).all(axis=1)]


def _weights(challenge: bytes, limbs: int) -> np.ndarray:
    """(limbs, checks) field elements from a hash; 2^64 values folded to p leave no bias that matters."""
    stream = hashlib.shake_256(challenge).digest(8 * limbs * shamir.CHECKS)
    return field.reduce(np.frombuffer(stream, dtype="<u8").astype(np.uint64)).reshape(limbs, shamir.CHECKS)
