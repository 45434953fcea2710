"""A site: the tasks of one owner, what it has agreed to, and what it sends.

    packet in -> is this the run and the plan I agreed to? -> local step -> clip -> (charge, noise) -> remember -> packet out

A site computes the plan itself, from the public sizes it was told, and answers only for that plan. The reply to a message
is kept (in the site's own files) before it leaves, so that asking twice yields the same bytes: no second release. An answer
that cannot be computed is the zero message, never an error that depends on the rows.

Where noise enters: under 'local' (and for asynchronous methods) the site charges its own account, then adds noise, and only
then anything leaves. Under 'curator' it charges its own account and sends clipped messages; the server adds noise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from taskveil.errors import BudgetExceeded, CheckFailed
from taskveil.methods.base import Message, Method, Models, PublicInfo, State, View
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.aggregation import site_message
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.randomness import NoiseSource
from taskveil.privacy.release import release
from taskveil.privacy.spending import Account
from taskveil.runtime import wire
from taskveil.runtime.in_process import task_step
from taskveil.runtime.rows import bounded_rows
from taskveil.runtime.secure.parties import Membership, SecureParty
from taskveil.runtime.wire import Packet
from taskveil.tasks.block import TaskBlock

NOISE_AT_SITE = ("local", "local-model", "secure")


class Memory(Protocol):
    """What a site must not forget: see site_state.py (files) and `Volatile` (this process only)."""

    def load(self) -> tuple[int, State, bytes] | None: ...

    def save(self, number: int, state: State, reply: bytes) -> None: ...

    def keep_models(self, models: Models, view: View) -> None: ...

    def load_secure(self) -> bytes | None: ...

    def save_secure(self, data: bytes) -> None: ...


class Volatile:
    """Memory of a site that lives and dies with this process."""

    def __init__(self) -> None:
        self.last: tuple[int, State, bytes] | None = None
        self.models: Models | None = None
        self.secure: bytes | None = None

    def load_secure(self) -> bytes | None:
        return self.secure

    def save_secure(self, data: bytes) -> None:
        self.secure = data

    def load(self) -> tuple[int, State, bytes] | None:
        return self.last

    def save(self, number: int, state: State, reply: bytes) -> None:
        self.last = (number, state, reply)

    def keep_models(self, models: Models, view: View) -> None:
        self.models = models


def plan_digest(plan: Plan, public: PublicInfo) -> str:
    """A fingerprint of everything that was agreed: sizes, budget, every release and its noise."""
    content = json.dumps({"plan": plan.to_dict(), "public": public.to_dict()}, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


class Site:
    """Answers the server's packets for a block of tasks; `positions` are their places among all tasks."""

    def __init__(
        self,
        name: str,
        method: Method,
        block: TaskBlock,
        positions: Sequence[int],
        public: PublicInfo,
        plan: Plan,
        account: Account,
        source: NoiseSource,
        memory: Memory | None = None,
        limit: int | None = None,
        membership: Membership | None = None,
    ) -> None:
        self.name, self.method, self.block, self.public, self.plan = name, method, block, public, plan
        self.positions = [int(t) for t in positions]
        self.account, self.source = account, source
        self.memory = Volatile() if memory is None else memory
        self.digest = plan_digest(plan, public)
        self.rounds = [releases for _, releases in plan.rounds()]
        self.limit = len(self.rounds) if limit is None else min(limit, len(self.rounds))
        self.tasks = method.task_side(block, public, plan)
        self.party = None if membership is None else SecureParty(membership, self.memory)
        self.asynchronous = method.schedule == "asynchronous"
        self._at_site = self.asynchronous or plan.budget.aggregation in NOISE_AT_SITE

    def handle(self, data: bytes) -> bytes:
        """The reply to a packet; refusals are packets too and say which rule was broken, never a value."""
        try:
            return self._handle(wire.decode(data))
        except (wire.WireError, CheckFailed, BudgetExceeded) as error:
            return wire.encode(Packet("refused", {"site": self.name, "reason": str(error)}))

    def _handle(self, packet: Packet) -> bytes:
        if packet.kind == "hello":
            return wire.encode(Packet("welcome", {"site": self.name, "plan": self.digest}))
        if packet.fields.get("plan") != self.digest:
            raise CheckFailed(
                "this site agreed to another plan; nothing was sent. Compare the federation files."
            )
        if packet.kind == "step":
            return self._step(packet)
        if packet.kind == "secure":
            return self._secure_step(packet)
        if packet.kind == "finish":
            return self._finish(packet)
        raise CheckFailed(f"a site does not answer {packet.kind!r}")

    def _step(self, packet: Packet) -> bytes:
        number = _whole(packet.fields.get("number"), len(self.rounds))
        last = self.memory.load()
        done = -1 if last is None else last[0]
        if last is not None and number == done and self.plan.budget.aggregation == "secure":
            answer = self._party().again(number, self.rounds[number], _secure_part(packet))
            return self._secure_packet(number, answer)
        if last is not None and number == done:
            return last[2]  # asked again: the very same bytes
        if number < done:
            raise CheckFailed(
                "this message was answered before and a later one has followed; nothing was sent"
            )
        if number >= self.limit:
            raise BudgetExceeded("this site's own budget is spent; it sends no further messages")
        if self.plan.budget.aggregation == "secure" and not self.asynchronous:
            self._party().check(self.rounds[number], _secure_part(packet))  # before any row is touched
        state = self.tasks.start() if last is None else last[1]
        view = wire.view_from(
            number if self.asynchronous else int(packet.fields.get("round", number)), packet.arrays
        )
        state, message = task_step(self.tasks, state, view)
        if self.plan.budget.aggregation == "secure" and not self.asynchronous:
            return self._enter(number, state, message, view, packet)
        arrays = {p.name: self._outgoing(p, message, view) for p in self.rounds[number]}
        summed = sorted(p.name for p in self.rounds[number] if self._is_sum(message[p.name]))
        fields = {"site": self.name, "plan": self.digest, "number": number, "summed": summed}
        reply = wire.encode(Packet("message", fields, arrays))
        self.memory.save(number, state, reply)  # before it leaves: never a second version of the same message
        return reply

    def _enter(self, number: int, state: State, message: Message, view: View, packet: Packet) -> bytes:
        """Charge, add this site's one noise share, and enter the round's secure sum."""
        parts = []
        for planned in self.rounds[number]:
            bounded = self._bounded(planned, message[planned.name], view)
            self.account.commit(planned)
            parts.append(site_message(planned, bounded, self.source, self.positions))
        answer = self._party().enter(number, self.rounds[number], np.concatenate(parts), _secure_part(packet))
        reply = self._secure_packet(number, answer)
        self.memory.save(number, state, reply)
        return reply

    def _secure_step(self, packet: Packet) -> bytes:
        number = _whole(packet.fields.get("number"), len(self.rounds))
        return self._secure_packet(number, self._party().answer(number, _secure_part(packet)))

    def _secure_packet(self, number: int, answer: bytes) -> bytes:
        fields = {"site": self.name, "plan": self.digest, "number": number}
        return wire.encode(Packet("secure", fields, {"secure": np.frombuffer(answer, dtype=np.uint8)}))

    def _party(self) -> SecureParty:
        if self.party is None:
            raise CheckFailed("this site has no keys for secure sums; nothing was sent")
        return self.party

    def _finish(self, packet: Packet) -> bytes:
        last = self.memory.load()
        state = self.tasks.start() if last is None else last[1]
        view = wire.view_from(int(packet.fields.get("round", 0)), packet.arrays)
        models = self.tasks.finish(state, view)
        self.memory.keep_models(models, view)
        self.account.finish()
        return wire.encode(Packet("done", {"site": self.name, "plan": self.digest}))

    def _outgoing(self, planned: PlannedRelease, message: Message, view: View) -> np.ndarray:
        bounded = self._bounded(planned, message[planned.name], view)
        if self.asynchronous:
            parts = [self._noisy(planned, one, [t]) for one, t in self._singly(planned, bounded, message)]
            return np.stack(parts)
        if self._at_site:
            return self._noisy(planned, bounded, self.positions)
        self.account.commit(planned)
        return np.asarray(planned.contribution.total(bounded) if bounded.summed else bounded.value)

    def _noisy(self, planned: PlannedRelease, bounded: Bounded, tasks: Sequence[int]) -> np.ndarray:
        way = "local" if self.asynchronous else self.plan.budget.aggregation
        return release(planned, bounded, self.account, self.source, way, tasks).value

    def _bounded(self, planned: PlannedRelease, raw: Any, view: View) -> Bounded:
        if isinstance(raw, Bounded):
            return raw
        if isinstance(raw, RowGradients):
            return bounded_rows(planned, raw, self.source, self.positions)
        if view.active is not None:
            raw = np.where(view.active.reshape((-1,) + (1,) * (raw.ndim - 1)), raw, 0.0)
        return planned.contribution.clip(raw)

    def _singly(
        self, planned: PlannedRelease, bounded: Bounded, message: Message
    ) -> list[tuple[Bounded, int]]:
        """One bounded message per task, for asynchronous methods (a site usually has one task)."""
        if len(self.positions) == 1:
            return [(bounded, self.positions[0])]
        raise CheckFailed("an asynchronous site answers for one task; start one site per task")

    def _is_sum(self, raw: Any) -> bool:
        return isinstance(raw, Bounded) and raw.summed


def _secure_part(packet: Packet) -> bytes:
    array = packet.arrays.get("secure")
    if array is None or array.dtype != np.uint8:
        raise CheckFailed("the packet holds no message of a secure sum; nothing was sent")
    return array.tobytes()


def _whole(value: Any, below: int) -> int:
    if type(value) is not int or not 0 <= value < below:
        raise CheckFailed("the number of a message must be a whole number inside the plan; nothing was sent")
    return value
