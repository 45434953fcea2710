"""`taskveil join`: check the plan, then answer the server until the model is there. The site can always say no."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskveil.errors import DataError, TaskveilError
from taskveil.runtime.federation import keys
from taskveil.runtime.federation.config import SiteFile, load_federation, load_site
from taskveil.runtime.federation.processes import Child, environment, free_port, listening, only_one, speakable, tool
from taskveil.runtime.federation.site.decisions import Agreement, ledger_of, membership, prepare
from taskveil.runtime.federation.site.state import SiteState
from taskveil.runtime.federation.status import StatusFile, of_site

Say = Callable[[str], None]
LOOK_EVERY = 2.0  # seconds between two looks at the ledger, for the status
GONE = 3.0  # seconds without a listening server after which it has ended and is not merely being restarted


def init(folder: Path, name: str) -> Path:
    """A key pair made at the site; the public half goes to whoever runs the server."""
    return keys.make_node_key(folder, name)


def join(config: Path, data: Any, say: Say, agree: Callable[[Agreement], bool] = lambda agreement: True) -> Path:
    """Take part until finished; returns the site's state folder with its models."""
    file = load_site(config)
    for path in (file.authority, file.key, file.federation):
        if not path.exists():
            raise DataError(f"{path} is missing; ask whoever runs the server, or see docs/federation.md")
    keys.site_identity(file.key)
    keys.check_authority(file.authority)
    speakable(file.path)
    federation = load_federation(file.federation)
    if federation.run.get("aggregation") == "secure":
        membership(federation, file)  # everybody's public keys are here, and this site's own is among them
    SiteState(file.state)  # makes the folder, for its owner only
    with only_one(file.state, "this site"):
        look = Look(file)

        def answer(agreement: Agreement) -> bool:
            look.agreement = agreement
            say(f"this run: {agreement}")
            return agree(agreement)

        try:
            agreed = prepare(config, data, answer)
        except TaskveilError as error:
            look("refused", str(error))
            raise
        if agreed is None:
            say("refused at this site; nothing was reserved and nothing was sent")
            look("refused", "refused by whoever runs this site")
            return file.state
        node = _supernode(file)
        try:
            _answer_to_the_end(file, node, say, look)
            say("the models are written; saying goodbye")
            _wait_until_heard(node, file.server, federation.rules.deadline)
        finally:
            look("finished" if SiteState(file.state).finished else "stopped")
            node.stop()
    return file.state


class Look:
    """Writes the site's status: where it stands, what it sent, what is left."""

    def __init__(self, file: SiteFile) -> None:
        self.file = file
        self.agreement: Agreement | None = None
        self.status = StatusFile(file.state)

    def __call__(self, phase: str, reason: str | None = None) -> None:
        url, name = ledger_of(self.file)
        self.status.write(of_site(self.file, self.agreement, phase, name, url, reason), now=True)


def _answer_to_the_end(file: SiteFile, node: Child, say: Say, look: Look) -> None:
    state = SiteState(file.state)
    starts, next_look = 0, 0.0
    while not state.finished:
        node.keep_running()
        if node.starts != starts:
            starts = node.starts
            say(f"connecting to {file.server}" if starts == 1 else "connection lost; connecting again")
        if time.monotonic() > next_look:
            look("taking part" if node.alive else "connecting again")
            next_look = time.monotonic() + LOOK_EVERY
        time.sleep(0.3)


def _wait_until_heard(node: Child, server: str, seconds: float) -> None:
    """Until the server has ended, or as long as it would wait for the last answer.

    Flower hands out no answer of a node that has left: a site that leaves as soon as its answer is sent is lost to a server too
    busy to fetch it at once.
    """
    end = time.monotonic() + seconds
    last_seen = time.monotonic()
    while node.alive and time.monotonic() < end:
        if listening(server):
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > GONE:
            return
        time.sleep(0.5)


def _supernode(file: SiteFile) -> Child:
    command = [
        tool("flower-supernode"), "--root-certificates", str(file.authority), "--superlink", file.server,
        "--auth-supernode-private-key", str(file.key), "--host", "127.0.0.1", "--port", str(free_port()),
        "--node-config", f'site="{file.path}"',
    ]  # fmt: skip
    env = environment(file.state / "flower", TASKVEIL_SITE_LOG=str(file.state / "errors.log"))
    return Child(command, file.state / "supernode.log", env, restart_after=2.0)
