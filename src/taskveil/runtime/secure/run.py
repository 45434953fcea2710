"""All parties of a secure sum in one process: the real protocol, carried by function calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure.client import SecureClient
from taskveil.runtime.secure.keys import Identity
from taskveil.runtime.secure.messages import SecureMessage
from taskveil.runtime.secure.server import SecureServer
from taskveil.runtime.secure.settings import SecureSettings

Drops = Callable[[int, int], bool]  # (step, task) -> True when the task does not answer this step


def secure_total(
    inputs: np.ndarray,
    settings: SecureSettings,
    identities: Sequence[Identity] | None = None,
    drops: Drops | None = None,
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Total of the rows of `inputs` (tasks, length) as signed integers, and the tasks that are in it."""
    people = [Identity() for _ in range(settings.n_tasks)] if identities is None else identities
    roster = {task: person.public for task, person in enumerate(people)}
    clients = {task: SecureClient(task, settings, people[task], roster, inputs[task]) for task in range(settings.n_tasks)}
    server = SecureServer(settings)
    carry(server, clients, drops)
    assert server.total is not None
    return settings.ring.centre(server.total), server.cohort


def carry(server: SecureServer, clients: Mapping[int, SecureClient], drops: Drops | None = None) -> None:
    """Deliver messages until the server has its total or refuses. A task that refuses has dropped out."""
    outgoing: Mapping[int, SecureMessage] | None = server.start()
    step = 0
    while outgoing is not None:
        replies = {}
        for task, message in outgoing.items():
            if drops is not None and drops(step, task):
                continue
            try:
                replies[task] = clients[task].step(message)
            except SecureSumRefused:
                continue
        outgoing = server.step(replies)
        step += 1
