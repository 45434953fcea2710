"""A site: the tasks of one owner, what it has agreed to, and what it sends. A site is a safe
(docs/theory/servers-and-sums.md#lying-server).

    packet in -> the plan I agreed to? -> a view an honest server could send? -> charge -> local step -> clip -> noise
              -> remember -> packet out

Whatever the server can see of a site (answer, refusal, error, silence) is a function of public things and of paid messages. Up to
the charge only the packet and public things are looked at, so a refusal depends on them alone. From the charge on there is
exactly one answer, of the planned size: whatever fails inside becomes the zero message, with the site's noise where it adds
noise, and one line in the site's own log. The answer is kept in the site's own files before it leaves, so that asking twice
yields the same bytes: no second release. All of it happens under the lock of the site's memory.

Where noise enters: under 'local' and 'secure' (and for asynchronous methods) the site adds noise before anything leaves. Under
'curator' it sends clipped messages and the server adds noise. The site's own account is charged in every case.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from taskveil.errors import BudgetExceeded, CheckFailed, SecureSumRefused
from taskveil.faults import point
from taskveil.methods.base import Method, Models, PublicInfo, State, TaskSide, View
from taskveil.methods.local import alone_models
from taskveil.methods.published import Published, published
from taskveil.privacy.aggregation import site_message
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contribution import seal_clipped_sum
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.release import Account, release
from taskveil.runtime import wire
from taskveil.runtime.round import bounded, task_step
from taskveil.runtime.run import Run
from taskveil.runtime.secure.parties import Membership, SecureMemory, SecureParty
from taskveil.runtime.wire import Packet, checked_view
from taskveil.tasks.block import TaskBlock

NOISE_AT_SITE = ("local", "local-model", "secure")  # aggregations
SPENT = "this site's own limit does not allow this message; nothing was sent"  # all the server learns of limits
MOST_NOTES = 2**20  # bytes
log = logging.getLogger("taskveil.site")
Last = tuple[int, State, bytes]  # number of the last answered message, task state after it, the answer


class Paid:
    """The releases of one message, charged together before a row is touched; each may then be noised once."""

    def __init__(self, account: Account, releases: Sequence[PlannedRelease]) -> None:
        account.commit(*releases)
        self._left = {planned.id for planned in releases}

    def commit(self, *planned: PlannedRelease) -> str:
        ids = {one.id for one in planned}
        if not ids <= self._left:
            raise BudgetExceeded("a release was not charged with its message, or was noised before. Nothing was sent.")
        self._left -= ids
        return planned[-1].id


def plan_digest(plan: Plan, public: PublicInfo) -> str:
    """A fingerprint of everything that was agreed: sizes, budget, every release and its noise."""
    content = json.dumps({"plan": plan.to_dict(), "public": public.to_dict()}, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def noise_at_site(method: Method, plan: Plan) -> bool:
    """Whether noise is on a message before it leaves its site, which then need not trust the server."""
    return method.schedule == "asynchronous" or plan.budget.aggregation in NOISE_AT_SITE


def note_at_site(words: str) -> None:
    """One line for the owner alone: the file that `taskveil join` names, or this process's log. Never sent."""
    path = os.environ.get("TASKVEIL_SITE_LOG")
    if path is None:
        log.warning("%s", words)
        return
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:  # a full disk must not become an answer
        if file.tell() < MOST_NOTES:  # nor may a server that asks for ever fill it
            file.write(words.rstrip() + "\n")


class Site:
    """Answers the server's packets for a block of tasks; `positions` are their places among all tasks."""

    def __init__(
        self,
        name: str,
        run: Run,
        block: TaskBlock,
        positions: Sequence[int],
        memory: Memory | None = None,
        limit: int | None = None,
        membership: Membership | None = None,
    ) -> None:
        self.name, self.block, self.positions = name, block, [int(t) for t in positions]
        self.method, self.public, self.plan, self.account, self.source = run.method, run.public, run.plan, run.account, run.source
        self.memory = Volatile() if memory is None else memory
        self.digest = plan_digest(run.plan, run.public)
        self.rounds = [releases for _, releases in run.plan.rounds()]
        self.limit = len(self.rounds) if limit is None else min(limit, len(self.rounds))
        self.party = None if membership is None else SecureParty(membership, self.memory)
        self.asynchronous = run.method.schedule == "asynchronous"
        if self.asynchronous and len(self.positions) != 1:
            raise CheckFailed("an asynchronous site answers for one task; start one site per task")
        self._at_site = noise_at_site(run.method, run.plan)
        self._secure = run.budget.aggregation == "secure" and not self.asynchronous

    @cached_property
    def tasks(self) -> TaskSide:
        """Touches rows: used only after the charge, or for models that never leave."""
        return self.method.task_side(self.block, self.public, self.plan)

    @cached_property
    def published(self) -> Published | None:
        return published(self.method, self.public, self.plan)

    def handle(self, data: bytes) -> bytes:
        """The reply to a packet; refusals are packets too and say which rule was broken, never a value."""
        try:
            packet = wire.decode(data)
            with self.memory.lock():
                return self._handle(packet)
        except BudgetExceeded as error:  # limits and spending are the owner's affair
            note_at_site(f"refused: {error}")
            return self._refusal(SPENT)
        except (wire.WireError, CheckFailed, SecureSumRefused) as error:
            return self._refusal(str(error))

    def _refusal(self, reason: str) -> bytes:
        return wire.encode(Packet("refused", {"site": self.name, "reason": reason}))

    def _handle(self, packet: Packet) -> bytes:
        if packet.fields.get("plan") != self.digest:
            raise CheckFailed("this site agreed to another plan; nothing was sent. Compare the federation files.")
        if packet.kind == "step":
            return self._step(packet)
        if packet.kind == "secure":
            return self._secure_step(packet)
        if packet.kind == "finish":
            return self._finish(packet)
        raise CheckFailed(f"a site does not answer {packet.kind!r}")

    # ------------------------------------------------------------ one message

    def _step(self, packet: Packet) -> bytes:
        number = _whole(packet.fields.get("number"), len(self.rounds))
        last = self.memory.load()
        if last is not None and number == last[0]:
            return self._enter_again(last, packet) if self._secure else last[2]  # the very same bytes
        if last is not None and number < last[0]:
            raise CheckFailed("this message was answered before and a later one has followed; nothing was sent")
        if self.memory.finished:
            raise CheckFailed("this run has ended at this site; nothing was sent")
        if number >= self.limit:
            raise BudgetExceeded(f"message {number} is beyond the {self.limit} that this site agreed to")
        view = self._view(packet, range(number, number + 1), number)
        invitation = _secure_part(packet) if self._secure else b""
        if self._secure:
            self._party().check(self.rounds[number], invitation)  # before any row is touched
        paid = Paid(self.account, self.rounds[number])  # from here on exactly one answer, of the planned size
        point("site.charged")
        state, message = self._message(number, {} if last is None else last[1], view)
        if self._secure:
            reply = self._entered(number, message, invitation)
        else:
            reply = self._packed(number, message, paid)
        self.memory.save(number, state, reply)  # before it leaves: never a second version of the same message
        return reply

    def _view(self, packet: Packet, rounds: range, number: int | None = None) -> View:
        """The view, if an honest server could have sent it; in asynchronous runs its round is the site's own count."""
        if self.asynchronous:
            rounds = range(self.public.n_tasks * len(self.rounds) + 1)
        expected = None if self.published is None else self.published.at
        other = {"secure"} if self._secure and packet.kind == "step" else frozenset()
        view = checked_view(packet, rounds, expected, len(self.positions), other)
        return replace(view, round=number) if self.asynchronous and number is not None else view

    def _message(self, number: int, state: State, view: View) -> tuple[State, dict[str, Bounded]]:
        """The next state and the clipped messages; where anything fails the old state and zero messages."""
        try:
            new, raw = task_step(self.tasks, state or self.tasks.start(), view)
            sent = {p.name: bounded(p, raw[p.name], view.active, self.source, self.positions) for p in self.rounds[number]}
            return new, sent
        except Exception as error:
            note_at_site(f"message {number}: {type(error).__name__} in the local step; the zero message was sent instead")
            return state, {p.name: self._zero(p) for p in self.rounds[number]}

    def _zero(self, planned: PlannedRelease) -> Bounded:
        what, n_tasks = planned.contribution, len(self.positions)
        if self.method.sends_sums(n_tasks, self.public, self.plan):
            return seal_clipped_sum(what, np.zeros(what.total_shape), n_tasks)
        return what.nothing(n_tasks)

    def _packed(self, number: int, message: dict[str, Bounded], paid: Paid) -> bytes:
        arrays = {p.name: self._outgoing(p, message[p.name], paid) for p in self.rounds[number]}
        summed = sorted(name for name, bounded in message.items() if bounded.summed)
        fields = {"site": self.name, "plan": self.digest, "number": number, "summed": summed}
        return wire.encode(Packet("message", fields, arrays))

    def _outgoing(self, planned: PlannedRelease, bounded: Bounded, paid: Any) -> np.ndarray:
        if not self._at_site:
            return np.asarray(planned.contribution.total(bounded) if bounded.summed else bounded.value)
        way = "local" if self.asynchronous else self.plan.budget.aggregation
        noisy = release(planned, bounded, paid, self.source, way, self.positions).value
        return noisy[None] if self.asynchronous else noisy

    # ------------------------------------------------------------ secure sums

    def _entered(self, number: int, message: dict[str, Bounded], invitation: bytes) -> bytes:
        """This site's one noise share is added, then it enters the round's secure sum."""
        parts = [site_message(p, message[p.name], self.source, self.positions) for p in self.rounds[number]]
        return self._of_protocol(
            number, lambda: self._party().enter(number, self.rounds[number], np.concatenate(parts), invitation)
        )

    def _enter_again(self, last: Last, packet: Packet) -> bytes:
        """The first step, asked for again: the same bytes, a new round if none of this one was masked, or the same refusal."""
        number, state, _ = last
        invitation = _secure_part(packet)
        reply = self._of_protocol(number, lambda: self._party().again(number, self.rounds[number], invitation))
        if wire.decode(reply).kind != "refused":  # a refusal of this question changes nothing
            self.memory.save(number, state, reply)
        return reply

    def _secure_step(self, packet: Packet) -> bytes:
        """A later step of the protocol; a refusal is kept like an answer, and stands until a new round."""
        number = _whole(packet.fields.get("number"), len(self.rounds))
        last = self.memory.load()
        if last is None or last[0] != number or not self._secure:
            raise CheckFailed("this site is not in such a round; nothing was sent")
        if wire.decode(last[2]).kind == "refused":
            return last[2]
        part = _secure_part(packet)
        reply = self._of_protocol(number, lambda: self._party().answer(number, part))
        if wire.decode(reply).kind == "refused":
            self.memory.save(number, last[1], reply)
        return reply

    def _of_protocol(self, number: int, answer: Callable[[], bytes]) -> bytes:
        """An answer of the protocol, or its refusal: both depend on the protocol's messages and keys, never on rows."""
        try:
            blob = np.frombuffer(answer(), dtype=np.uint8)
        except SecureSumRefused as error:
            return self._refusal(str(error))
        except Exception as error:
            note_at_site(f"message {number}: {type(error).__name__} in the secure sum; it was refused")
            return self._refusal("a step of the secure sum cannot be answered; leave this site out")
        about = {"site": self.name, "plan": self.digest, "number": number}
        return wire.encode(Packet("secure", about, {"secure": blob}))

    def _party(self) -> SecureParty:
        if self.party is None:
            raise SecureSumRefused("this site has no keys for secure sums; nothing was sent")
        return self.party

    # -------------------------------------------------------------------- end

    def _finish(self, packet: Packet) -> bytes:
        """Keep the models, once, and say that it is done: the same bytes whatever happened inside."""
        view = self._view(packet, range(len(self.rounds) + 1))
        if not self.memory.finished:
            self.account.finish()
            self.memory.keep_models(self._models(view), view)
        return wire.encode(Packet("done", {"site": self.name, "plan": self.digest}))

    def _models(self, view: View) -> Models:
        """The method's models; learnt alone where nothing was shared or anything fails."""
        last = self.memory.load()
        shared = view.round > 0 or not self.rounds

        def finished() -> Models:
            return self.tasks.finish((last[1] if last else {}) or self.tasks.start(), view)

        for make in (finished if shared else None, lambda: alone_models(self.block, self.public)):
            try:
                models = make() if make is not None else None
                if models is not None and np.isfinite(models.coef).all() and np.isfinite(models.intercept).all():
                    return models
            except Exception as error:
                note_at_site(f"the end: {type(error).__name__}; this site's tasks keep what they learn alone")
        shape = (self.block.n_tasks, self.public.n_outputs)
        return Models(np.zeros((*shape, self.public.n_features)), np.zeros(shape), np.zeros(shape[0], dtype=bool))


def _secure_part(packet: Packet) -> bytes:
    array = packet.arrays.get("secure")
    if array is None or array.dtype != np.uint8:
        raise CheckFailed("the packet holds no message of a secure sum; nothing was sent")
    return array.tobytes()


def _whole(value: Any, below: int) -> int:
    if type(value) is not int or not 0 <= value < below:
        raise CheckFailed("the number of a message must be a whole number inside the plan; nothing was sent")
    return value


class Memory(SecureMemory, Protocol):
    """What a site must not forget: files (state.py), or `Volatile`."""

    @property
    def finished(self) -> bool: ...

    def lock(self) -> AbstractContextManager[Any]:
        """Held from reading the memory to saving it: two processes never answer at once."""

    def load(self) -> Last | None: ...

    def save(self, number: int, state: State, reply: bytes) -> None: ...

    def keep_models(self, models: Models, view: View) -> None: ...


class Volatile:
    """Memory of a site that lives and dies with this process."""

    def __init__(self) -> None:
        self.last: Last | None = None
        self.models: Models | None = None
        self.secure: bytes | None = None
        self._lock = threading.Lock()

    @property
    def finished(self) -> bool:
        return self.models is not None

    def lock(self) -> AbstractContextManager[Any]:
        return self._lock

    def load_secure(self) -> bytes | None:
        return self.secure

    def save_secure(self, data: bytes) -> None:
        self.secure = data

    def load(self) -> Last | None:
        return self.last

    def save(self, number: int, state: State, reply: bytes) -> None:
        self.last = (number, state, reply)

    def keep_models(self, models: Models, view: View) -> None:
        self.models = models
