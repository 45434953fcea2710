"""A site's place in secure sums over the network: who it is, who the others are, and what it must not do
twice.

A site takes part as one party with the sum of its tasks' messages. Coalitions and cohorts are counted in
tasks, as the noise is: the parties' settings follow from the public number of tasks of every site.

Never twice: once a site has sent a masked input for a message number it enters no other round for that
number, whatever the server says. Two totals that hold the same message in different company would show it
with one noise share only. Asked again for the same step, it repeats its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.privacy.mechanisms.shared import SharedNoise
from taskveil.privacy.plan import PlannedRelease
from taskveil.privacy.secure_options import SECURITY_BITS
from taskveil.runtime.secure import keys, messages, storage
from taskveil.runtime.secure.client import SecureClient
from taskveil.runtime.secure.settings import SecureSettings

MASKED = 3  # stages a client has behind it once its masked input has left


class SecureMemory(Protocol):
    """Where a site keeps its part in the current round."""

    def load_secure(self) -> bytes | None: ...

    def save_secure(self, data: bytes) -> None: ...


@dataclass(frozen=True)
class Membership:
    """The public facts of all parties and this site's own signing key."""

    index: int
    identity: keys.Signer
    roster: Mapping[int, bytes]
    sizes: Sequence[int]  # tasks of every site


class SecureParty:
    """Answers the steps of secure sums for one site."""

    def __init__(self, membership: Membership, memory: SecureMemory) -> None:
        self.membership, self.memory = membership, memory

    def enter(self, number: int, releases: Sequence[PlannedRelease], integers: np.ndarray, invitation: bytes) -> bytes:
        """The first step of a round for message `number`."""
        stored = self._stored()
        if stored and stored["number"] == number and stored["stage"] >= MASKED:
            raise SecureSumRefused("this site has already sent its masked message; a round is never repeated")
        settings = party_settings(releases, self.membership.sizes)
        client = SecureClient(self.membership.index, settings, self.membership.identity, self.membership.roster, integers)
        return self._step(number, client, invitation)

    def again(self, number: int, releases: Sequence[PlannedRelease], invitation: bytes) -> bytes:
        """The first step, asked for again: the same bytes, or a new round with the same integers if none has
        left this site yet (the server was restarted)."""
        stored = self._stored()
        if stored and stored["number"] == number and stored["incoming"] == _digest(invitation):
            return bytes.fromhex(stored["reply"])
        if not stored or stored["number"] != number or stored["stage"] >= MASKED:
            raise SecureSumRefused("this site has already sent its masked message; a round is never repeated")
        client = self._client(stored)
        return self.enter(number, releases, client.settings.ring.centre(client._input), invitation)

    def answer(self, number: int, incoming: bytes) -> bytes:
        """A later step."""
        stored = self._stored()
        if not stored or stored["number"] != number:
            raise SecureSumRefused("this site is not in such a round; start a new one")
        if stored["incoming"] == _digest(incoming):
            return bytes.fromhex(stored["reply"])  # asked again: the very same bytes
        client = self._client(stored)
        return self._step(number, client, incoming)

    def _step(self, number: int, client: SecureClient, incoming: bytes) -> bytes:
        reply = messages.encode(client.step(messages.decode(incoming)))
        over = client._stage >= len(messages.INCOMING)
        content = {
            "number": number,
            "stage": client._stage,
            "incoming": _digest(incoming),
            "reply": reply.hex(),
            "client": "" if over else storage.dump(client).decode(),
        }
        self.memory.save_secure(json.dumps(content).encode())  # before it leaves
        return reply

    def _client(self, stored: dict[str, Any]) -> SecureClient:
        return storage.load(stored["client"].encode(), self.membership.identity, self.membership.roster)

    def _stored(self) -> dict[str, Any] | None:
        data = self.memory.load_secure()
        return None if data is None else json.loads(data)


def party_settings(releases: Sequence[PlannedRelease], sizes: Sequence[int]) -> SecureSettings:
    """One secure sum for all releases of a round: lengths add up, the widest ring serves all."""
    mechanisms = [shared(planned) for planned in releases]
    first = mechanisms[0]
    ascending = sorted(sizes)
    reached = np.cumsum(ascending)
    colluders = int((reached <= first.colluders).sum())  # most sites that together hold that few tasks
    least = int(np.searchsorted(reached, first.min_cohort)) + 1  # any so many sites hold enough tasks
    return SecureSettings.choose(
        len(sizes),
        sum(m.grid(p.contribution).size for m, p in zip(mechanisms, releases)),
        max(m.bits for m in mechanisms),
        min(colluders, least - 1),
        least,
        SECURITY_BITS,
    )


def shared(planned: PlannedRelease) -> SharedNoise:
    if not isinstance(planned.mechanism, SharedNoise):
        raise SecureSumRefused("a secure sum needs noise shares; plan with aggregation 'secure' and an epsilon")
    return planned.mechanism


def noisy_totals(releases: Sequence[PlannedRelease], integers: np.ndarray) -> dict[str, np.ndarray]:
    """The total of a round, cut into its releases, in real units."""
    totals, start = {}, 0
    for planned in releases:
        mechanism = shared(planned)
        end = start + mechanism.grid(planned.contribution).size
        totals[planned.name] = mechanism.finish(planned.contribution, integers[start:end])
        start = end
    return totals


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
