"""What one task does in a secure sum (Bonawitz et al. 2017, figure 4), one step per incoming message.

    Invitation        fresh key pairs, signed                              -> AdvertisedKeys
    Neighbourhood     shares of the mask key and of the self-mask seed,
                      sealed for each neighbour                            -> SealedShares
    Deliveries        input + self mask + pairwise masks                   -> MaskedInput
    CohortList        is the cohort large enough, am I in it? sign it      -> CohortSignature
    CohortSignatures  did enough neighbours sign the same list? then, for
                      each neighbour, a share of ONE of its two secrets    -> UnmaskingShares

Threat model  honest-but-curious server with up to `colluders` tasks. The signed cohort list goes further: a
              server that tells two stories about who is in the sum is refused unless it has `threshold`
              signatures on one of them.
Observed      a server sees a total only if at least `min_cohort` inputs are in it; the noise shares in the
              inputs are sized for that (privacy/secure_sum.py).
Refusals      every failed check raises SecureSumRefused and ends the task's part: it never answers twice in
              one round and never opens both secrets of one neighbour.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import keys, messages, shamir
from taskveil.runtime.secure.masks import add_mask
from taskveil.runtime.secure.settings import SecureSettings


class SecureClient:
    """One task's part in one round. `roster` maps every enrolled task to its public signing key."""

    def __init__(
        self,
        index: int,
        settings: SecureSettings,
        identity: keys.Signer,
        roster: Mapping[int, bytes],
        integers: np.ndarray,
    ) -> None:
        if integers.shape != (settings.length,) or integers.dtype.kind not in "iu":
            raise SecureSumRefused("expected a vector of integers of the agreed length")
        self.index, self.settings, self.identity, self.roster = index, settings, identity, roster
        self._input = settings.ring.encode(integers)
        self._stage = 0
        self._round = b""
        self._neighbours: dict[int, tuple[bytes, bytes]] = {}  # task -> (sealing key, mask key)
        self._held: dict[int, tuple[bytes, bytes]] = {}  # task -> (share of its mask key, share of its seed)
        self._cohort: tuple[int, ...] = ()

    def step(self, incoming: messages.SecureMessage) -> messages.SecureMessage:
        """Answer one message. Messages out of order, of another round, or repeated, are refused."""
        handlers: tuple[Callable[[Any], messages.SecureMessage], ...] = (
            self._advertise,
            self._share,
            self._mask,
            self._sign,
            self._unmask,
        )
        expected = messages.INCOMING[self._stage] if self._stage < len(handlers) else None
        if expected is None or not isinstance(incoming, expected):
            raise SecureSumRefused(f"task {self.index} got {type(incoming).__name__} out of order; start a new round")
        if self._stage and incoming.round_id != self._round:
            raise SecureSumRefused(f"task {self.index} got a message of another round; start a new round")
        handler, self._stage = handlers[self._stage], self._stage + 1
        try:
            return handler(incoming)
        except Exception:
            self._stage = len(handlers)  # a refusal is final
            raise

    def _advertise(self, invitation: messages.Invitation) -> messages.AdvertisedKeys:
        if invitation.settings != self.settings.digest():
            raise SecureSumRefused(f"task {self.index} agreed to other settings than the server uses; compare both sides")
        self.identity.enter(invitation.round_id)
        self._round = invitation.round_id
        self._sealing, self._masking = keys.AgreementKey(), keys.AgreementKey()
        text = advert_text(self._round, invitation.settings, self.index, self._sealing.public, self._masking.public)
        return messages.AdvertisedKeys(
            self._round, self.index, self._sealing.public, self._masking.public, self.identity.sign(text)
        )

    def _share(self, others: messages.Neighbourhood) -> messages.SealedShares:
        self._accept_neighbours(others)
        self._seed = os.urandom(shamir.SECRET_BYTES)
        owners = [self.index, *self._neighbours]
        secrets = [self._masking.private_bytes(), self._seed]
        shares = shamir.split(secrets, [task + 1 for task in owners], self.settings.threshold)
        self._held[self.index] = (shares[self.index + 1][0], shares[self.index + 1][1])
        sealed = []
        for task, (sealing_key, _) in self._neighbours.items():
            key = self._sealing.agree(sealing_key, self._round, keys.label("seal", self.index, task))
            sealed.append(keys.seal(key, b"".join(shares[task + 1]), keys.label("shares", self.index, task)))
        commitment = seed_commitment(self._round, self.index, self._seed)
        return messages.SealedShares(self._round, self.index, tuple(self._neighbours), tuple(sealed), commitment)

    def _accept_neighbours(self, others: messages.Neighbourhood) -> None:
        columns = (others.senders, others.sealing_keys, others.mask_keys, others.signatures)
        if len({len(column) for column in columns}) != 1:
            raise SecureSumRefused(f"task {self.index} got an incomplete list of neighbours; start a new round")
        known = [task for task in others.senders if task in self.roster and task != self.index]
        if len(set(known)) != len(others.senders) or len(known) + 1 < self.settings.threshold:
            raise SecureSumRefused(f"task {self.index} got too few or unknown neighbours; start a new round")
        for task, *pair, signature in zip(*columns):
            text = advert_text(self._round, self.settings.digest(), task, pair[0], pair[1])
            if not keys.verify(self.roster[task], signature, text):
                raise SecureSumRefused(f"the keys of task {task} are not signed by it; start a new round")
            self._neighbours[task] = (pair[0], pair[1])
        used = [key for pair in self._neighbours.values() for key in pair]
        if len(set(used)) != len(used) or {self._sealing.public, self._masking.public} & set(used):
            raise SecureSumRefused("two tasks advertised the same key; start a new round")

    def _mask(self, deliveries: messages.Deliveries) -> messages.MaskedInput:
        named = set(deliveries.senders) & set(self._neighbours)
        if not len(named) == len(deliveries.senders) == len(deliveries.sealed):
            raise SecureSumRefused(f"task {self.index} got shares from tasks that are not its neighbours")
        if len(deliveries.senders) + 1 < self.settings.threshold:
            raise SecureSumRefused(f"too few neighbours of task {self.index} are left; nothing is released")
        for task, sealed in zip(deliveries.senders, deliveries.sealed):
            key = self._sealing.agree(self._neighbours[task][0], self._round, keys.label("seal", task, self.index))
            plain = keys.unseal(key, sealed, keys.label("shares", task, self.index))
            self._held[task] = (plain[: shamir.SHARE_BYTES], plain[shamir.SHARE_BYTES :])
        total, ring = self._input.copy(), self.settings.ring
        add_mask(total, self_mask_key(self._round, self.index, self._seed), ring)
        for task in deliveries.senders:
            key = pair_mask_key(self._masking, self._neighbours[task][1], self._round, self.index, task)
            add_mask(total, key, ring, positive=self.index < task)
        masked = ring.fold(total)
        return messages.MaskedInput(self._round, self.index, masked, checksum(self._round, self.index, masked))

    def _sign(self, listed: messages.CohortList) -> messages.CohortSignature:
        members = listed.members
        if list(members) != sorted(set(members)) or not set(members) <= set(self.roster) or self.index not in members:
            raise SecureSumRefused(f"task {self.index} got an impossible cohort list; start a new round")
        if len(members) < self.settings.min_cohort:
            raise SecureSumRefused(f"{len(members)} tasks are left, {self.settings.min_cohort} are needed; nothing is released")
        if (set(members) & set(self._neighbours)) - set(self._held):
            raise SecureSumRefused(f"the cohort names a neighbour of task {self.index} that never sent its shares")
        self._cohort = members
        return messages.CohortSignature(self._round, self.index, self.identity.sign(cohort_text(self._round, members)))

    def _unmask(self, signed: messages.CohortSignatures) -> messages.UnmaskingShares:
        text, good = cohort_text(self._round, self._cohort), {self.index}
        for task, signature in zip(signed.senders, signed.signatures):
            if task in self._neighbours and task in self._cohort and keys.verify(self.roster[task], signature, text):
                good.add(task)
        if len(good) < self.settings.threshold:
            raise SecureSumRefused(f"too few neighbours of task {self.index} signed this cohort; nothing is released")
        cohort = set(self._cohort)
        staying = tuple(task for task in self._held if task in cohort)
        leaving = tuple(task for task in self._held if task not in cohort)
        return messages.UnmaskingShares(
            self._round,
            self.index,
            staying,
            tuple(self._held[task][1] for task in staying),
            leaving,
            tuple(self._held[task][0] for task in leaving),
        )


def advert_text(round_id: bytes, settings: bytes, index: int, sealing_key: bytes, mask_key: bytes) -> bytes:
    """What a task signs when it advertises its keys."""
    return keys.digest(b"advert", round_id, settings, index.to_bytes(8, "big"), sealing_key, mask_key)


def cohort_text(round_id: bytes, members: tuple[int, ...]) -> bytes:
    """What a task signs when it agrees to a cohort."""
    return keys.digest(b"cohort", round_id, np.asarray(members, dtype=">u8").tobytes())


def checksum(round_id: bytes, index: int, values: np.ndarray) -> bytes:
    return keys.digest(b"masked", round_id, index.to_bytes(8, "big"), values.tobytes())


def seed_commitment(round_id: bytes, index: int, seed: bytes) -> bytes:
    return keys.digest(b"seed", round_id, index.to_bytes(8, "big"), seed)


def self_mask_key(round_id: bytes, index: int, seed: bytes) -> bytes:
    return keys.derive(seed, round_id, keys.label("self mask", index))


def pair_mask_key(own: keys.AgreementKey, other_public: bytes, round_id: bytes, index: int, other: int) -> bytes:
    """Mask key of an unordered pair; the task with the smaller index adds the mask, the other one subtracts
    it."""
    return own.agree(other_public, round_id, keys.label("pair mask", min(index, other), max(index, other)))
