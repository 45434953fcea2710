"""The server's end of Flower: a carrier over its Grid, a Grid of threads, and the ServerApp.

One of the two files that import flwr.
"""

from __future__ import annotations

import copy
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # before flwr is imported: it must never call out
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from taskveil.runtime.federation.site.flower_app import content, data_of

DAY = 24 * 3600.0  # a message lives for at least that long: as long as clocks may differ, and never shorter than the deadline
POLL = 0.5
AGAIN = 10.0  # seconds until a message that Flower lost is sent once more: a busy node's next heartbeat may bring it back
log = logging.getLogger("taskveil.federation")


@dataclass(frozen=True)
class Sent:
    """A message on its way."""

    site: int
    data: bytes
    may_repeat: bool


class GridCarrier:
    """Carries bytes over a Flower Grid; site s is the node `nodes[s]`.

    Flower reports a message as failed when its node sends no heartbeat for a minute, or the process that answers does not: on a
    busy machine both happen to sites that are well. It takes none for a node that has never been there. So a failed message is
    sent once more after `again` seconds (a site repeats its bytes and is charged once); failed twice, it is reported as None.
    """

    def __init__(
        self, grid: Grid, nodes: Sequence[int], ttl: float = DAY, poll: float = POLL, again: float | None = AGAIN
    ) -> None:
        self.grid, self.nodes, self.ttl, self.poll, self.again = grid, list(nodes), ttl, poll, again
        self._open: dict[str, Sent] = {}  # by Flower's message id
        self._failed: list[tuple[float, Sent]] = []  # when to send what again
        self._given_up: list[int] = []  # sites whose message has failed for good
        self._round = 0

    def send(self, site: int, data: bytes) -> None:
        self._failed = [(due, sent) for due, sent in self._failed if sent.site != site]  # a new question replaces the old one
        self._push(Sent(site, data, self.again is not None))

    def _push(self, sent: Sent) -> None:
        self._round += 1
        message = Message(
            content(sent.data), dst_node_id=self.nodes[sent.site], message_type="train", group_id=str(self._round), ttl=self.ttl
        )
        (message_id,) = self.grid.push_messages([message])
        if message_id:
            self._open[message_id] = sent
        else:  # Flower takes no message for a node that has never been there
            self._fail(sent)

    def _fail(self, sent: Sent) -> None:
        if sent.may_repeat and self.again is not None:
            self._failed.append((time.monotonic() + self.again, replace(sent, may_repeat=False)))
        else:
            self._given_up.append(sent.site)

    def receive(self, seconds: float) -> list[tuple[int, bytes | None]]:
        end = time.monotonic() + seconds
        while True:
            arrived = self._pull()
            if arrived or time.monotonic() >= end:
                return arrived
            time.sleep(min(self.poll, max(end - time.monotonic(), 0.0)))

    def _pull(self) -> list[tuple[int, bytes | None]]:
        arrived: list[tuple[int, bytes | None]] = []
        now = time.monotonic()
        due, self._failed = [s for t, s in self._failed if t <= now], [(t, s) for t, s in self._failed if t > now]
        for sent in due:
            self._push(sent)
        for reply in self.grid.pull_messages(list(self._open)) if self._open else ():
            if reply.metadata.reply_to_message_id not in self._open:
                continue
            sent = self._open.pop(reply.metadata.reply_to_message_id)
            if reply.has_error():
                log.warning("site %d: Flower reports error %d for a message", sent.site, reply.error.code)
                self._fail(sent)
            else:
                arrived.append((sent.site, self._unwrap(reply)))
        given_up, self._given_up = self._given_up, []
        return arrived + [(site, None) for site in given_up]

    def _unwrap(self, reply: Message) -> bytes | None:
        try:
            return None if reply.has_error() else data_of(reply)
        except Exception:  # whatever a site put into Flower's message: arrived, but not ours, and the driver refuses it
            return b""


class ThreadGrid(Grid):
    """A Grid inside this process: every node is a ClientApp called in a thread, on deep copies of the messages."""

    def __init__(self, apps: dict[int, ClientApp], workers: int = 4) -> None:
        self.apps = apps
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="taskveil-site")
        self._replies: dict[str, Message] = {}
        self._lock = threading.Lock()
        self._arrived: queue.SimpleQueue[str] = queue.SimpleQueue()
        _identify_process()
        self._contexts = {n: Context(1, n, {"node": n}, RecordDict(), {}) for n in apps}

    def set_run(self, run: Any) -> None:
        """There is one run."""

    @property
    def run(self) -> Any:
        return None

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id=dst_node_id, message_type=message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.apps)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            sent = copy.deepcopy(message)
            sent.metadata.__dict__["_message_id"] = uuid.uuid4().hex
            ids.append(sent.metadata.message_id)
            self._pool.submit(self._deliver, sent)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        with self._lock:
            ready = [m for m in message_ids if m in self._replies]
            return [self._replies.pop(m) for m in ready]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        waiting, replies = set(self.push_messages(messages)), []
        end = time.monotonic() + (timeout if timeout is not None else 1e9)
        while waiting and time.monotonic() < end:
            for reply in self.pull_messages(list(waiting)):
                waiting.discard(reply.metadata.reply_to_message_id)
                replies.append(reply)
            self.wait(0.1)
        return replies

    def wait(self, seconds: float) -> None:
        """Until a reply is there, or the time is over."""
        try:
            self._arrived.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _deliver(self, message: Message) -> None:
        from flwr.app import Error

        node = message.metadata.dst_node_id
        try:
            reply = copy.deepcopy(self.apps[node](message, self._contexts[node]))
        except Exception:  # as Flower does: the caller learns that it failed, not why
            reply = Message(Error(code=2, reason="the site failed"), reply_to=message)
        reply.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
        with self._lock:
            self._replies[message.metadata.message_id] = reply
        self._arrived.put(message.metadata.message_id)


def _identify_process() -> None:
    """Flower 1.41 refuses to create messages in a process it did not start; give this one an identity if it has none."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("run_id", "node_id", "task_id"):
        try:
            getattr(TaskIdentity, name)
        except RuntimeError:
            setattr(TaskIdentity, name, 1)


class ThreadCarrier(GridCarrier):
    """A carrier over threads: waits for the next reply instead of polling."""

    grid: ThreadGrid

    def receive(self, seconds: float) -> list[tuple[int, bytes | None]]:
        end = time.monotonic() + seconds
        while not (arrived := self._pull()) and (left := end - time.monotonic()) > 0:
            self.grid.wait(left)
        return arrived


def thread_carrier(answers: Sequence[Callable[[bytes], bytes]], workers: int = 4) -> ThreadCarrier:
    """A carrier to sites given as functions from bytes to bytes."""
    from taskveil.runtime.federation.site.flower_app import client_app

    def app_for(answer: Callable[[bytes], bytes]) -> ClientApp:
        return client_app(lambda context: answer)

    grid = ThreadGrid({s + 1: app_for(answer) for s, answer in enumerate(answers)}, workers)
    return ThreadCarrier(grid, [s + 1 for s in range(len(answers))], again=None)


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """What `taskveil serve` runs inside Flower: find the federation's folder and train."""
    from taskveil.runtime.federation.server.training import train

    folder = str(context.run_config["folder"])
    train(
        folder,
        lambda: {n.node_id: bytes(n.public_key) for n in grid.get_nodes()},
        lambda nodes, deadline: GridCarrier(grid, nodes, ttl=DAY + 2 * deadline),
    )
