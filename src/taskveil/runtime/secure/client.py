"""What one site does in a secure sum (Bonawitz et al. 2017, figure 4), one step per incoming message.

    Invitation        fresh key pairs, signed                              -> AdvertisedKeys
    KeyList           all members' keys, checked; the graph, worked out;
                      shares of the mask key and of the self-mask seed,
                      sealed for each neighbour                            -> SealedShares
    Deliveries        input + self mask + pairwise masks                   -> MaskedInput
    CohortList        is the cohort large enough, am I in it? sign it      -> CohortSignature
    CohortSignatures  did `min_cohort` sites sign the same keys and cohort?
                      then, for each neighbour, a share of ONE of its two
                      secrets; for one that left, the mask shared with it  -> UnmaskingShares

Threat model  any server, lying or not, with up to `colluders` sites (graph.py says why the rules suffice).
Observed      a server sees a total only if at least `min_cohort` inputs are in it; the noise shares in the
              inputs are sized for that (privacy/mechanisms/shared.py).
Refusals      every failed check raises SecureSumRefused and ends the site's part: it never answers twice in
              one round and never opens both secrets of one neighbour. Shares that cannot be opened, or do not
              fit together (dealing.py), are no refusal but a note to the server, which leaves their dealer out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import agreement, dealing, keys, messages, shamir
from taskveil.runtime.secure.masks import add_mask
from taskveil.runtime.secure.settings import SecureSettings

Handler = Callable[[Any], messages.SecureMessage]


class SecureClient:
    """One site's part in one round. `roster` maps every enrolled site to its public signing key."""

    def __init__(
        self, index: int, settings: SecureSettings, identity: keys.Signer, roster: Mapping[int, bytes], integers: np.ndarray
    ) -> None:
        if integers.shape != (settings.length,) or integers.dtype.kind not in "iu":
            raise SecureSumRefused("expected a vector of integers of the agreed length")
        self.index, self.settings, self.identity, self.roster = index, settings, identity, roster
        self._enrolled = agreement.as_roster(roster, settings)
        self._input = settings.ring.encode(integers)
        self._stage = 0
        self._round = b""
        self._neighbours: dict[int, tuple[bytes, bytes]] = {}  # site -> (sealing key, mask key)
        self._seed = b""  # of its own mask
        self._fingerprint = b""  # of the list of keys it was shown
        self._masked: tuple[int, ...] = ()  # neighbours it shares masks with
        self._held: dict[int, tuple[bytes, bytes]] = {}  # site -> (share of its mask key, share of its seed)
        self._cohort: tuple[int, ...] = ()

    def step(self, incoming: messages.SecureMessage) -> messages.SecureMessage:
        """Answer one message. Messages out of order, of another round, or repeated, are refused."""
        handlers: tuple[Handler, ...] = (self._advertise, self._share, self._mask, self._sign, self._unmask)
        expected = messages.INCOMING[self._stage] if self._stage < len(handlers) else None
        if expected is None or not isinstance(incoming, expected):
            raise SecureSumRefused(f"site {self.index} got {type(incoming).__name__} out of order; start a new round")
        if self._stage and incoming.round_id != self._round:
            raise SecureSumRefused(f"site {self.index} got a message of another round; start a new round")
        handler, self._stage = handlers[self._stage], self._stage + 1
        try:
            return handler(incoming)
        except Exception:
            self._stage = len(handlers)  # a refusal is final
            raise

    def _advertise(self, invitation: messages.Invitation) -> messages.AdvertisedKeys:
        if invitation.settings != self.settings.digest():
            raise SecureSumRefused(f"site {self.index} agreed to other settings than the server uses; compare both sides")
        self.identity.enter(invitation.round_id)
        self._round = invitation.round_id
        self._sealing, self._masking = keys.AgreementKey(), keys.AgreementKey()
        pair = self._sealing.public, self._masking.public
        text = agreement.advert_text(self._round, invitation.settings, self.index, *pair)
        return messages.AdvertisedKeys(self._round, self.index, *pair, self.identity.sign(text))

    def _share(self, listed: messages.KeyList) -> messages.SealedShares:
        book = agreement.read_keys(listed, self.settings, self._enrolled)
        if book.keys.get(self.index) != (self._sealing.public, self._masking.public):
            raise SecureSumRefused(f"site {self.index} is not in the list of keys it was shown; start a new round")
        self._fingerprint = book.fingerprint
        self._neighbours = {site: book.keys[site] for site in book.graph[self.index]}
        self._seed = os.urandom(shamir.SECRET_BYTES)
        holders = (self.index, *self._neighbours)
        secrets = [self._masking.private_bytes(), self._seed]
        dealt = shamir.split(secrets, [site + 1 for site in holders], self.settings.threshold)
        shares = dealt.shares
        self._held[self.index] = (shares[self.index + 1][0], shares[self.index + 1][1])
        sealed = []
        for site, (sealing_key, _) in self._neighbours.items():
            key = self._sealing.agree(sealing_key, self._round, keys.label("seal", self.index, site))
            sealed.append(keys.seal(key, b"".join(shares[site + 1]), keys.label("shares", self.index, site)))
        digests = [[agreement.share_digest(self._round, self.index, h, part) for part in shares[h + 1]] for h in holders]
        of_keys, of_seeds, of_checks = (tuple(column) for column in zip(*digests))
        challenge = agreement.challenge(self._round, self.index, of_keys, of_seeds, of_checks)
        return messages.SealedShares(
            self._round, self.index, holders[1:], tuple(sealed), of_keys, of_seeds, of_checks, dealing.prove(dealt, challenge)
        )

    def _mask(self, deliveries: messages.Deliveries) -> messages.MaskedInput:
        senders = deliveries.senders
        digests = (deliveries.key_digests, deliveries.seed_digests, deliveries.check_digests)
        columns = (deliveries.sealed, deliveries.challenges, deliveries.proofs, *digests)
        if len(set(senders) & set(self._neighbours)) != len(senders) or {len(column) for column in columns} != {len(senders)}:
            raise SecureSumRefused(f"site {self.index} got shares from sites that are not its neighbours")
        if len(senders) + 1 < self.settings.threshold:
            raise SecureSumRefused(f"too few neighbours of site {self.index} are left; nothing is released")
        self._masked = senders
        self._held |= self._fitting(zip(senders, *columns))
        total, ring = self._input.copy(), self.settings.ring
        add_mask(total, self_mask_key(self._round, self.index, self._seed), ring)
        for site in senders:
            add_mask(total, self._pair_key(site), ring, positive=self.index < site)
        masked = ring.fold(total)
        unopened = tuple(site for site in senders if site not in self._held)
        check = agreement.checksum(self._round, self.index, masked)
        return messages.MaskedInput(self._round, self.index, masked, check, unopened)

    def _sign(self, listed: messages.CohortList) -> messages.CohortSignature:
        members = listed.members
        if list(members) != sorted(set(members)) or not set(members) <= set(self.roster) or self.index not in members:
            raise SecureSumRefused(f"site {self.index} got an impossible cohort list; start a new round")
        if len(members) < self.settings.min_cohort:
            raise SecureSumRefused(f"{len(members)} sites are left, {self.settings.min_cohort} are needed; nothing is released")
        if (set(members) & set(self._neighbours)) - set(self._masked):
            raise SecureSumRefused(f"the cohort names a neighbour of site {self.index} that never sent its shares")
        self._cohort = members
        return messages.CohortSignature(self._round, self.index, self.identity.sign(self._cohort_text()))

    def _unmask(self, signed: messages.CohortSignatures) -> messages.UnmaskingShares:
        cohort = set(self._cohort)
        agreed = agreement.signers(signed, self._cohort_text(), self._enrolled) & cohort
        if len(agreed | {self.index}) < self.settings.min_cohort:
            raise SecureSumRefused(f"too few sites signed the keys and the cohort site {self.index} knows; nothing is released")
        staying = tuple(site for site in self._held if site in cohort)
        leaving = tuple(site for site in self._held if site not in cohort)
        apart = tuple(site for site in self._masked if site not in cohort)
        return messages.UnmaskingShares(
            self._round,
            self.index,
            staying,
            tuple(self._held[site][1] for site in staying),
            leaving,
            tuple(self._held[site][0] for site in leaving),
            apart,
            tuple(self._pair_key(site) for site in apart),
        )

    def _fitting(self, deliveries: Iterable[tuple[Any, ...]]) -> dict[int, tuple[bytes, bytes]]:
        """The shares that are what their dealers published, and fit together with those of everybody else."""
        threshold, opened = self.settings.threshold, dict[int, Any]()
        for site, sealed, challenge, proof, *digests in deliveries:
            parts = self._opened(site, sealed)
            published = [agreement.share_digest(self._round, site, self.index, part) for part in parts] == digests
            if published and len(proof) == dealing.proof_bytes(threshold):
                opened[site] = parts, challenge, proof
        shares, challenges, proofs = ([part[i] for part in opened.values()] for i in range(3))
        fit = dealing.fitting(self.index + 1, shares, challenges, proofs, threshold)
        return {site: (parts[0], parts[1]) for good, site, parts in zip(fit, opened, shares) if good}

    def _opened(self, site: int, sealed: bytes) -> tuple[bytes, ...]:
        """The shares a neighbour sealed for this site (of its key, its seed and its check); none where they cannot be opened."""
        key = self._sealing.agree(self._neighbours[site][0], self._round, keys.label("seal", site, self.index))
        plain = keys.unseal(key, sealed, keys.label("shares", site, self.index)) or b""
        size = shamir.SHARE_BYTES
        return (plain[:size], plain[size : 2 * size], plain[2 * size :]) if len(plain) == 2 * size + shamir.CHECK_BYTES else ()

    def _cohort_text(self) -> bytes:
        return agreement.cohort_text(self._round, self._fingerprint, self._cohort)

    def _pair_key(self, site: int) -> bytes:
        return pair_mask_key(self._masking, self._neighbours[site][1], self._round, self.index, site)


def self_mask_key(round_id: bytes, index: int, seed: bytes) -> bytes:
    return keys.derive(seed, round_id, keys.label("self mask", index))


def pair_mask_key(own: keys.AgreementKey, other_public: bytes, round_id: bytes, index: int, other: int) -> bytes:
    """Mask key of an unordered pair; the site with the smaller index adds the mask, the other one subtracts
    it."""
    return own.agree(other_public, round_id, keys.label("pair mask", min(index, other), max(index, other)))
