"""A site's place in secure sums over the network: who it is, who the others are, and what it must not do
twice.

A site takes part as one party with the sum of its tasks' messages and one share of the noise. Coalitions and
cohorts are counted in sites, as the noise is.

Never twice: once a site has sent a masked input for a message number it enters no other round for that
number, whatever the server says. Two totals that hold the same message in different company would show it
with one noise share only. Asked again for the same step, it repeats its bytes; a refusal is kept as well, so
that no other story can be tried on it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from taskveil.checks import Flag, ListOf, Rule, Text, Whole, check_table, parse_json
from taskveil.errors import DataError, SecureSumRefused
from taskveil.privacy.mechanisms.shared import SharedNoise
from taskveil.privacy.plan import PlannedRelease
from taskveil.runtime.secure import keys, messages
from taskveil.runtime.secure.client import SecureClient
from taskveil.runtime.secure.settings import SecureSettings
from taskveil.saved import MOST_BYTES, total

MASKED = 3  # sets of answers a server has once masked inputs have left
TEXT = Text(MOST_BYTES, at_least=0)
REMEMBERED: dict[str, Rule] = {
    "number": Whole(0), "masked": Flag(), "incoming": TEXT, "reply": TEXT, "refused": TEXT, "client": TEXT,
    "entered": ListOf(TEXT, at_least=0),  # since 0.2.0
}  # fmt: skip


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


class SecureParty:
    """Answers the steps of secure sums for one site."""

    def __init__(self, membership: Membership, memory: SecureMemory) -> None:
        self.membership, self.memory = membership, memory

    def check(self, releases: Sequence[PlannedRelease], invitation: bytes) -> None:
        """Whether this is an invitation to the agreed sum; depends on nothing private, so it comes before the charge."""
        invited = messages.decode(invitation)
        if not isinstance(invited, messages.Invitation) or invited.settings != party_settings(releases).digest():
            raise SecureSumRefused("this site agreed to other settings than the server uses; compare both sides")

    def enter(self, number: int, releases: Sequence[PlannedRelease], integers: np.ndarray, invitation: bytes) -> bytes:
        """The first step of a round for message `number`."""
        stored = self._stored()
        if stored and stored["number"] == number and stored["masked"]:
            raise SecureSumRefused("this site has already sent its masked message; a round is never repeated")
        settings, us = party_settings(releases), self.membership
        if len(us.roster) != settings.n_sites:
            raise SecureSumRefused(f"the plan is for {settings.n_sites} sites, {len(us.roster)} are enrolled; compare the files")
        return self._step(number, SecureClient(us.index, settings, us.identity, us.roster, integers), invitation)

    def again(self, number: int, releases: Sequence[PlannedRelease], invitation: bytes) -> bytes:
        """The first step, asked for again: the same bytes, or a new round with the same integers if none has
        left this site yet (the server was restarted)."""
        stored = self._stored()
        if stored and stored["number"] == number and (stored["incoming"] == _digest(invitation) or self._refused_in(invitation)):
            return _repeated(stored)
        if not stored or stored["number"] != number or stored["masked"]:
            raise SecureSumRefused("this site has already sent its masked message; a round is never repeated")
        if _digest(invitation) in stored.get("entered", []):
            raise SecureSumRefused("this round was entered before; a round is never repeated. Start a new one")
        client = self._client(stored)
        return self.enter(number, releases, client.settings.ring.centre(client._input), invitation)

    def answer(self, number: int, incoming: bytes) -> bytes:
        """A later step."""
        stored = self._stored()
        if not stored or stored["number"] != number:
            raise SecureSumRefused("this site is not in such a round; start a new one")
        if stored["incoming"] == _digest(incoming) or stored["refused"]:
            return _repeated(stored)  # asked again: the very same bytes, or the very same refusal
        return self._step(number, self._client(stored), incoming)

    def _refused_in(self, invitation: bytes) -> bool:
        """Whether the round of this invitation ended here with a refusal: it stands until another round."""
        stored = self._stored() or {}
        return bool(stored.get("refused")) and stored.get("entered", [])[-1:] == [_digest(invitation)]

    def _step(self, number: int, client: SecureClient, incoming: bytes) -> bytes:
        """One step, remembered before its answer leaves; a refusal is remembered too, and ends the round for this site."""
        reply, refused = b"", ""
        try:
            reply = messages.encode(client.step(messages.decode(incoming)))
        except SecureSumRefused as error:
            refused, client._stage = str(error), len(messages.INCOMING)
        before = self._stored() or {}
        entered = before.get("entered", []) if before.get("number") == number else []
        masked = bool(client._masked)  # from here on its input may have left
        over = masked and client._stage >= len(messages.INCOMING)
        content = {
            "number": number,
            "masked": masked,
            "incoming": _digest(incoming),
            "reply": reply.hex(),
            "refused": refused,
            "entered": [*entered, _digest(incoming)] if client._stage == 1 else entered,  # invitations to this number
            "client": "" if over else dump(client).decode(),  # its integers may enter another round
        }
        self.memory.save_secure(json.dumps(content).encode())  # before it leaves
        return _repeated(content)

    def _client(self, stored: dict[str, Any]) -> SecureClient:
        with total("the stored part of this site in a secure sum"):
            return load(stored["client"].encode(), self.membership.identity, self.membership.roster)

    def _stored(self) -> dict[str, Any] | None:
        data = self.memory.load_secure()
        if data is None:
            return None
        stored: dict[str, Any] = parse_json(data, "secure.json", DataError)
        check_table(stored, REMEMBERED, "secure.json", DataError, tuple(REMEMBERED)[:-1], closed=False)
        return stored


def _repeated(stored: dict[str, Any]) -> bytes:
    if stored["refused"]:
        raise SecureSumRefused(stored["refused"])
    return bytes.fromhex(stored["reply"])


def party_settings(releases: Sequence[PlannedRelease]) -> SecureSettings:
    """One secure sum for all releases of a round: lengths add up, the widest ring serves all. Sites are few and far
    apart: everybody masks with everybody."""
    mechanisms = [shared(planned) for planned in releases]
    first = mechanisms[0]
    length = sum(m.grid(p.contribution).size for m, p in zip(mechanisms, releases))
    bits = max(m.bits for m in mechanisms)
    return SecureSettings.choose(first.n_sites, length, bits, first.colluders, first.min_cohort, complete=True)


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


def dump(client: SecureClient) -> bytes:
    """Everything a round needs to go on, for sites that start a new process for every message.

    Without the identity and the roster, which the site has anyway. It holds the round's secrets and the site's integers: it
    belongs into the site's own files (mode 0600) and is emptied as soon as the round is over.
    """
    about: dict[str, Any] = {
        "index": client.index,
        "settings": asdict(client.settings),
        "input": _text(client._input.tobytes()),
        "stage": client._stage,
        "round": _text(client._round),
        "neighbours": {str(t): [_text(k) for k in pair] for t, pair in client._neighbours.items()},
        "held": {str(t): [_text(s) for s in pair] for t, pair in client._held.items()},
        "cohort": list(client._cohort),
        "masked": list(client._masked),
        "fingerprint": _text(client._fingerprint),
        "_seed": _text(client._seed),
    }
    for name in ("_sealing", "_masking"):
        if hasattr(client, name):
            about[name] = _text(getattr(client, name).private_bytes())
    return json.dumps(about).encode()


def load(data: bytes, identity: keys.Signer, roster: Mapping[int, bytes]) -> SecureClient:
    """The client written by `dump`."""
    about = json.loads(data)
    settings = SecureSettings(**about["settings"])
    residues = np.frombuffer(_bytes(about["input"]), dtype=settings.ring.dtype)
    client = SecureClient(about["index"], settings, identity, roster, settings.ring.centre(residues))
    client._stage, client._round, client._fingerprint = about["stage"], _bytes(about["round"]), _bytes(about["fingerprint"])
    client._cohort, client._masked = tuple(about["cohort"]), tuple(about["masked"])
    client._seed = _bytes(about.get("_seed", ""))
    client._neighbours = {int(t): (_bytes(a), _bytes(b)) for t, (a, b) in about["neighbours"].items()}
    client._held = {int(t): (_bytes(a), _bytes(b)) for t, (a, b) in about["held"].items()}
    for name in ("_sealing", "_masking"):
        if name in about:
            setattr(client, name, keys.AgreementKey(_bytes(about[name])))
    return client


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
