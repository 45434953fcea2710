"""What the server does in a secure sum: forwards, checks, and removes masks from the total, one step per set
of answers.

    start()             Invitation to everybody
    AdvertisedKeys      keys that are signed and usable                    -> KeyList, the same for all
    SealedShares        forward                                            -> Deliveries
    MaskedInput         who delivered, and can be opened, is the cohort    -> CohortList
    CohortSignature     forward the valid ones                             -> CohortSignatures
    UnmaskingShares     open the self masks of the cohort and the pairwise masks towards those who left;
                        subtract

A site that does not answer a step, or answers with something invalid (a bad signature, unusable keys, shares that do
not open or do not fit together, shares its dealer did not deal), has dropped out: it is named in `excluded`, and the round
goes on while `min_cohort` sites are left. Members of the cohort have all accepted one another's shares, so any `threshold`
of them open a mask. A member that masks with another seed than it dealt adds a wrong vector to the total, as it may anyway.

The server keeps everything it was sent in `transcript`: the tests of what it can learn work on that.

`smallest_cover`. Who is left out when a holder says that a dealer's shares do not open or do not fit together.

One of the two is wrong, and nobody else can tell which. Honest sites never complain about one another, so the dishonest ones
touch every dispute: the fewest sites that touch all of them are no more than those, and the round goes on whenever dropouts
allow for as many. Those who stay have no dispute among themselves.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import agreement, client, dealing, keys, messages, shamir
from taskveil.runtime.secure.masks import add_mask
from taskveil.runtime.secure.settings import SecureSettings

Replies = Mapping[int, messages.SecureMessage]
Outgoing = dict[int, messages.SecureMessage]
Handler = Callable[[Any], Outgoing | None]
Shares = dict[int, dict[int, bytes]]  # owner -> point of the holder -> share
SEARCHED = 20  # sites up to which the fewest are found exactly; beyond, the most disputed are left out first


class SecureServer:
    """One round: `step` takes the answers that arrived, returns the next messages; None: `total` is there."""

    def __init__(self, settings: SecureSettings, roster: Mapping[int, bytes]) -> None:
        self.settings, self.roster = settings, roster
        self.round_id = secrets.token_bytes(keys.KEY_BYTES)
        self.transcript: list[Replies] = []
        self.cohort: tuple[int, ...] = ()
        self.total: np.ndarray | None = None
        self.excluded: dict[int, str] = {}  # sites that broke a rule, and which
        self._asked: tuple[int, ...] = tuple(range(settings.n_sites))
        self._shared: dict[int, messages.SealedShares] = {}
        self._dealt_keys: Shares = {}  # digests of shares: owner -> holder -> digest
        self._dealt_seeds: Shares = {}
        self._inputs: dict[int, np.ndarray] = {}

    def start(self) -> Outgoing:
        invitation = messages.Invitation(self.round_id, self.settings.digest())
        return dict.fromkeys(self._asked, invitation)

    def step(self, replies: Replies) -> Outgoing | None:
        handlers: tuple[Handler, ...] = (
            self._key_list, self._deliveries, self._cohort_list, self._cohort_signatures, self._finish,
        )  # fmt: skip
        if len(self.transcript) >= len(handlers):
            raise SecureSumRefused("this round is over; start a new one")
        expected, handler = messages.ANSWERS[len(self.transcript)], handlers[len(self.transcript)]
        answers = {site: reply for site, reply in sorted(replies.items()) if site in self._asked}
        valid = self._keep(
            answers, lambda site, reply: isinstance(reply, expected) and self._belongs(site, reply), "not an answer to this step"
        )
        self.transcript.append(valid)
        outgoing = handler(valid)
        self._asked = tuple(outgoing or ())
        return outgoing

    def _belongs(self, site: int, reply: Any) -> bool:
        return bool(reply.round_id == self.round_id and reply.sender == site)

    def _keep(self, replies: Mapping[int, Any], rule: Callable[[int, Any], bool], reason: str) -> dict[int, Any]:
        """The replies that keep a rule; whoever breaks it has dropped out."""
        kept = {site: reply for site, reply in replies.items() if rule(site, reply)}
        self.excluded |= {site: reason for site in replies if site not in kept}
        return kept

    def _need(self, got: int) -> None:
        if got < self.settings.min_cohort:
            raise SecureSumRefused(
                f"{got} sites answered, {self.settings.min_cohort} are needed; nothing is released. Try again with more"
            )

    def _key_list(self, adverts: dict[int, messages.AdvertisedKeys]) -> Outgoing:
        good = self._keep(adverts, self._signed, "its keys are not signed by it, or not usable")
        self._need(len(good))
        columns = zip(*((a.sender, a.sealing_key, a.mask_key, a.signature) for a in good.values()))
        listed = messages.KeyList(self.round_id, *columns)
        self._book = agreement.read_keys(listed, self.settings, agreement.as_roster(self.roster, self.settings))
        return dict.fromkeys(good, listed)

    def _signed(self, site: int, advert: messages.AdvertisedKeys) -> bool:
        pair = advert.sealing_key, advert.mask_key
        text = agreement.advert_text(self.round_id, self.settings.digest(), site, *pair)
        return keys.verify(self.roster.get(site, b""), advert.signature, text) and all(map(keys.usable, pair))

    def _deliveries(self, shared: dict[int, messages.SealedShares]) -> Outgoing:
        self._shared = self._keep(shared, self._dealt, "it did not deal its shares to its neighbours")
        self._need(len(self._shared))
        challenges: dict[int, bytes] = {}
        for site, message in self._shared.items():
            holders = (site, *message.receivers)
            self._dealt_keys[site] = dict(zip(holders, message.key_digests))
            self._dealt_seeds[site] = dict(zip(holders, message.seed_digests))
            digests = message.key_digests, message.seed_digests, message.check_digests
            challenges[site] = agreement.challenge(self.round_id, site, *digests)
        boxes: dict[int, list[tuple[Any, ...]]] = {site: [] for site in self._shared}
        for sender, message in self._shared.items():
            digests = message.key_digests[1:], message.seed_digests[1:], message.check_digests[1:]
            for receiver, *delivery in zip(message.receivers, message.sealed, *digests):
                if receiver in boxes:
                    boxes[receiver].append((sender, *delivery, challenges[sender], message.proof))
        empty: tuple[Any, ...] = ((),) * 7
        return {site: messages.Deliveries(self.round_id, *(zip(*box) if box else empty)) for site, box in boxes.items()}

    def _dealt(self, site: int, message: messages.SealedShares) -> bool:
        holders = len(message.receivers) + 1
        sizes = {len(column) for column in (message.key_digests, message.seed_digests, message.check_digests)}
        complete = sizes == {holders} == {len(message.sealed) + 1}
        proved = len(message.proof) == dealing.proof_bytes(self.settings.threshold)
        return complete and proved and message.receivers == self._book.graph[site]

    def _cohort_list(self, inputs: dict[int, messages.MaskedInput]) -> Outgoing:
        good = self._keep(inputs, self._undamaged, "its masked message is damaged")
        self._need(len(good))
        near = self._book.graph
        pairs = [(dealer, h) for h, m in good.items() for dealer in m.unopened if dealer in good and dealer in near[h]]
        apart = smallest_cover(pairs, len(good) - self.settings.min_cohort)
        if apart is None:
            raise SecureSumRefused("more sites than may drop out disagree about the shares they dealt; nothing is released")
        good = self._keep(good, lambda site, _: site not in apart, "it and another site disagree about shares one of them dealt")
        self._inputs, self.cohort = {site: message.values for site, message in good.items()}, tuple(good)
        listed = messages.CohortList(self.round_id, self.cohort)
        return dict.fromkeys(self.cohort, listed)

    def _undamaged(self, site: int, message: messages.MaskedInput) -> bool:
        values, ring = message.values, self.settings.ring
        fits = values.shape == (self.settings.length,) and values.dtype == ring.dtype
        return fits and message.checksum == agreement.checksum(self.round_id, site, values)

    def _cohort_signatures(self, signed: dict[int, messages.CohortSignature]) -> Outgoing:
        text = agreement.cohort_text(self.round_id, self._book.fingerprint, self.cohort)
        good = self._keep(signed, lambda site, s: keys.verify(self.roster[site], s.signature, text), "a bad signature")
        self._need(len(good))
        forwarded = messages.CohortSignatures(self.round_id, tuple(good), tuple(s.signature for s in good.values()))
        return dict.fromkeys(good, forwarded)

    def _finish(self, opened: dict[int, messages.UnmaskingShares]) -> None:
        seeds: Shares = {site: {} for site in self.cohort}
        privates: Shares = {site: {} for site in self._shared if site not in self._inputs}
        for holder, message in opened.items():
            self._collect(seeds, holder, message.self_owners, message.self_shares, self._dealt_seeds)
            self._collect(privates, holder, message.key_owners, message.key_shares, self._dealt_keys)
        ring = self.settings.ring
        total = np.zeros(self.settings.length, dtype=ring.dtype)
        for values in self._inputs.values():
            np.add(total, values, out=total)
        for site, shares in seeds.items():
            seed = shamir.combine(shares, self.settings.threshold)
            add_mask(total, client.self_mask_key(self.round_id, site, seed), ring, positive=False)
        for site, shares in privates.items():
            for near, key in self._pair_masks(site, shares, opened).items():
                add_mask(total, key, ring, positive=site < near)  # undo: the member had the other sign
        self.total = ring.fold(total)

    def _collect(self, table: Shares, holder: int, owners: tuple[int, ...], shares: tuple[bytes, ...], dealt: Shares) -> None:
        """File one holder's shares under their owners if they are what was dealt; points are site numbers plus one."""
        for owner, share in zip(owners, shares):
            if owner in table and holder in dealt[owner]:
                dealt_so = agreement.share_digest(self.round_id, owner, holder, share) == dealt[owner][holder]
                if dealt_so and len(share) == shamir.SHARE_BYTES:  # a dealer may publish digests of anything
                    table[owner][holder + 1] = share
                else:
                    self.excluded[holder] = "it returned shares that were not dealt"

    def _pair_masks(
        self, gone: int, shares: dict[int, bytes], opened: Mapping[int, messages.UnmaskingShares]
    ) -> dict[int, bytes]:
        """Keys of the masks that members of the cohort share with a site that left after sending its shares: from
        its key if that opens, else from the members themselves."""
        near = [site for site in self._book.graph[gone] if site in self._inputs]
        if len(shares) >= self.settings.threshold:
            key = self._private_key(gone, shares)
            if key is not None:
                public = {site: self._book.keys[site][1] for site in near}
                return {site: client.pair_mask_key(key, public[site], self.round_id, gone, site) for site in near}
        told = {h: dict(zip(m.pair_owners, m.pair_keys)) for h, m in opened.items()}
        pairs = {site: told.get(site, {}).get(gone, b"") for site in near}
        if any(len(key) != keys.KEY_BYTES for key in pairs.values()):
            raise SecureSumRefused(f"the masks of site {gone}, which left, cannot be removed; nothing is released")
        return pairs

    def _private_key(self, gone: int, shares: dict[int, bytes]) -> keys.AgreementKey | None:
        try:
            key = keys.AgreementKey(shamir.combine(shares, self.settings.threshold))
        except SecureSumRefused:
            return None
        return key if key.public == self._book.keys[gone][1] else None


def smallest_cover(disputes: Sequence[tuple[int, int]], most: int) -> frozenset[int] | None:
    """The fewest sites, at most `most`, one of every pair (dealer, holder); in doubt the dealer. None where more are needed."""
    if not disputes:
        return frozenset()
    if most <= 0:
        return None
    counts, accused = Counter(site for pair in disputes for site in pair), Counter(dealer for dealer, _ in disputes)
    site = max(counts, key=lambda s: (counts[s], accused[s]))
    rest = smallest_cover([pair for pair in disputes if site not in pair], most - 1)
    cover = None if rest is None else rest | {site}
    near = {other for pair in disputes if site in pair for other in pair} - {site}
    most = most if cover is None else len(cover) - 1
    if 1 < len(near) <= most <= SEARCHED:  # or the site is right and all those are wrong
        rest = smallest_cover([pair for pair in disputes if not near & set(pair)], most - len(near))
        cover = cover if rest is None else rest | near
    return cover
