"""All parties of a secure sum in one process: the real protocol, carried by function calls.

`install` plugs it into `privacy.aggregation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.privacy.aggregation import use_integer_sum
from taskveil.privacy.mechanisms.shared import SharedNoise
from taskveil.runtime.secure.client import SecureClient
from taskveil.runtime.secure.keys import Identity
from taskveil.runtime.secure.messages import SecureMessage
from taskveil.runtime.secure.server import SecureServer
from taskveil.runtime.secure.settings import SecureSettings

Drops = Callable[[int, int], bool]  # (step, site) -> True when the site does not answer this step


def secure_total(inputs: np.ndarray, settings: SecureSettings, drops: Drops | None = None) -> tuple[np.ndarray, tuple[int, ...]]:
    """Total of the rows of `inputs` (sites, length) as signed integers, and the sites that are in it."""
    people = [Identity() for _ in range(settings.n_sites)]
    roster = {site: person.public for site, person in enumerate(people)}
    clients = {site: SecureClient(site, settings, people[site], roster, inputs[site]) for site in range(settings.n_sites)}
    server = SecureServer(settings, roster)
    carry(server, clients, drops)
    assert server.total is not None
    return settings.ring.centre(server.total), server.cohort


def carry(server: SecureServer, clients: Mapping[int, SecureClient], drops: Drops | None = None) -> None:
    """Deliver messages until the server has its total or refuses. A site that refuses has dropped out."""
    outgoing: Mapping[int, SecureMessage] | None = server.start()
    step = 0
    while outgoing is not None:
        replies = {}
        for site, message in outgoing.items():
            if drops is not None and drops(step, site):
                continue
            try:
                replies[site] = clients[site].step(message)
            except SecureSumRefused:
                continue
        outgoing = server.step(replies)
        step += 1


def sum_in_process(messages: np.ndarray, mechanism: SharedNoise) -> np.ndarray:
    """The total of all sites' messages, by the protocol: with the mechanism's tolerances, in a ring that holds the sum."""
    m, length = mechanism, messages.shape[1]
    return secure_total(messages, SecureSettings.choose(m.n_sites, length, m.bits, m.colluders, m.min_cohort))[0]


def install() -> None:
    """Make aggregation 'secure' available to `privacy.release`."""
    use_integer_sum(sum_in_process)
