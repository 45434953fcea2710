"""What the server does in a secure sum: forwards, counts, and removes masks from the total, one step per set
of answers.

    start()             Invitation to everybody
    AdvertisedKeys      draw the graph over those who answered             -> Neighbourhood
    SealedShares        forward                                            -> Deliveries
    MaskedInput         who delivered is the cohort                        -> CohortList
    CohortSignature     forward                                            -> CohortSignatures
    UnmaskingShares     open the self masks of the cohort and the pairwise masks towards those who left;
                        subtract

A task that does not answer a step has dropped out. The total is right or the round is refused: every opened
seed is checked against its commitment and every opened key against its public half. With fewer than
`min_cohort` answers at any step up to the masked inputs, or too few shares at the end, nothing is released.

The server keeps everything it was sent in `transcript`: the tests of what it can learn work on that.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import client, keys, messages, shamir
from taskveil.runtime.secure.graph import draw_graph
from taskveil.runtime.secure.masks import add_mask
from taskveil.runtime.secure.settings import SecureSettings

Replies = Mapping[int, messages.SecureMessage]
Outgoing = dict[int, messages.SecureMessage]


class SecureServer:
    """One round: `step` takes the answers that arrived, returns the next messages; None: `total` is there."""

    def __init__(self, settings: SecureSettings, tasks: Sequence[int] | None = None) -> None:
        self.settings = settings
        self.tasks = tuple(range(settings.n_tasks)) if tasks is None else tuple(sorted(tasks))
        self.round_id = secrets.token_bytes(keys.KEY_BYTES)
        self.transcript: list[Replies] = []
        self.cohort: tuple[int, ...] = ()
        self.total: np.ndarray | None = None
        self._asked: tuple[int, ...] = self.tasks
        self._adverts: dict[int, messages.AdvertisedKeys] = {}
        self._graph: dict[int, tuple[int, ...]] = {}
        self._shared: dict[int, messages.SealedShares] = {}
        self._inputs: dict[int, np.ndarray] = {}

    def start(self) -> Outgoing:
        invitation = messages.Invitation(self.round_id, self.settings.digest())
        return dict.fromkeys(self.tasks, invitation)

    def step(self, replies: Replies) -> Outgoing | None:
        stages: tuple[tuple[type, Callable[[Any], Outgoing | None]], ...] = (
            (messages.AdvertisedKeys, self._neighbourhoods),
            (messages.SealedShares, self._deliveries),
            (messages.MaskedInput, self._cohort_list),
            (messages.CohortSignature, self._cohort_signatures),
            (messages.UnmaskingShares, self._finish),
        )
        if len(self.transcript) >= len(stages):
            raise SecureSumRefused("this round is over; start a new one")
        expected, handler = stages[len(self.transcript)]
        valid = {
            task: reply
            for task, reply in sorted(replies.items())
            if task in self._asked and isinstance(reply, expected) and self._belongs(task, reply)
        }
        self.transcript.append(valid)
        self._need(len(valid), self._least())
        outgoing = handler(valid)
        self._asked = tuple(outgoing or ())
        return outgoing

    def _belongs(self, task: int, reply: messages.SecureMessage) -> bool:
        return reply.round_id == self.round_id and getattr(reply, "sender", None) == task

    def _least(self) -> int:
        """Answers without which no round can end well."""
        in_sum = len(self.transcript) <= 3 or self.settings.complete
        return self.settings.min_cohort if in_sum else self.settings.threshold

    def _need(self, got: int, needed: int) -> None:
        if got < needed:
            raise SecureSumRefused(f"{got} tasks answered, {needed} are needed; nothing is released. Try again with more")

    def _neighbourhoods(self, adverts: dict[int, messages.AdvertisedKeys]) -> Outgoing:
        self._adverts = adverts
        self._graph = draw_graph(list(adverts), self.settings.degree)
        return {task: self._neighbourhood([adverts[other] for other in self._graph[task]]) for task in adverts}

    def _neighbourhood(self, others: list[messages.AdvertisedKeys]) -> messages.Neighbourhood:
        columns = zip(*((a.sender, a.sealing_key, a.mask_key, a.signature) for a in others))
        return messages.Neighbourhood(self.round_id, *columns)

    def _deliveries(self, shared: dict[int, messages.SealedShares]) -> Outgoing:
        self._shared = {task: s for task, s in shared.items() if set(s.receivers) == set(self._graph[task])}
        self._need(len(self._shared), self.settings.min_cohort)
        boxes: dict[int, list[tuple[int, bytes]]] = {task: [] for task in self._shared}
        for sender, message in self._shared.items():
            for receiver, sealed in zip(message.receivers, message.sealed):
                if receiver in boxes:
                    boxes[receiver].append((sender, sealed))
        return {
            task: messages.Deliveries(self.round_id, tuple(s for s, _ in box), tuple(c for _, c in box))
            for task, box in boxes.items()
        }

    def _cohort_list(self, inputs: dict[int, messages.MaskedInput]) -> Outgoing:
        good = {task: message.values for task, message in inputs.items() if self._undamaged(message)}
        self._need(len(good), self.settings.min_cohort)
        self._inputs, self.cohort = good, tuple(good)
        listed = messages.CohortList(self.round_id, self.cohort)
        return dict.fromkeys(self.cohort, listed)

    def _undamaged(self, message: messages.MaskedInput) -> bool:
        values, ring = message.values, self.settings.ring
        fits = values.shape == (self.settings.length,) and values.dtype == ring.dtype
        return fits and message.checksum == client.checksum(self.round_id, message.sender, values)

    def _cohort_signatures(self, signed: dict[int, messages.CohortSignature]) -> Outgoing:
        outgoing: Outgoing = {}
        for task in signed:
            near = tuple(other for other in self._graph[task] if other in signed)
            outgoing[task] = messages.CohortSignatures(self.round_id, near, tuple(signed[other].signature for other in near))
        return outgoing

    def _finish(self, opened: dict[int, messages.UnmaskingShares]) -> None:
        self_shares: dict[int, dict[int, bytes]] = {task: {} for task in self.cohort}
        key_shares: dict[int, dict[int, bytes]] = {task: {} for task in self._shared if task not in self._inputs}
        for holder, message in opened.items():
            collect(self_shares, holder, message.self_owners, message.self_shares)
            collect(key_shares, holder, message.key_owners, message.key_shares)
        ring = self.settings.ring
        total = np.zeros(self.settings.length, dtype=ring.dtype)
        for values in self._inputs.values():
            np.add(total, values, out=total)
        for task, shares in self_shares.items():
            add_mask(total, self._self_mask(task, shares), ring, positive=False)
        for task, shares in key_shares.items():
            self._remove_pair_masks(total, task, shares)
        self.total = ring.fold(total)

    def _self_mask(self, task: int, shares: dict[int, bytes]) -> bytes:
        seed = shamir.combine(shares, self.settings.threshold)
        if client.seed_commitment(self.round_id, task, seed) != self._shared[task].commitment:
            raise SecureSumRefused(f"the shares of task {task} do not open its mask; nothing is released")
        return client.self_mask_key(self.round_id, task, seed)

    def _remove_pair_masks(self, total: np.ndarray, gone: int, shares: dict[int, bytes]) -> None:
        """Masks that members of the cohort share with a task that left after sending its shares."""
        near = [task for task in self._graph[gone] if task in self._inputs]
        if not near:
            return
        key = keys.AgreementKey(shamir.combine(shares, self.settings.threshold))
        if key.public != self._adverts[gone].mask_key:
            raise SecureSumRefused(f"the shares of task {gone} do not open its key; nothing is released")
        for task in near:
            mask = client.pair_mask_key(key, self._adverts[task].mask_key, self.round_id, gone, task)
            add_mask(total, mask, self.settings.ring, positive=gone < task)  # undo: the member had the other sign


def collect(table: dict[int, dict[int, bytes]], holder: int, owners: tuple[int, ...], shares: tuple[bytes, ...]) -> None:
    """File one holder's shares under their owners; points are task numbers plus one, as in client.py."""
    for owner, share in zip(owners, shares):
        if owner in table:
            table[owner][holder + 1] = share
