"""Small secure sums for tests: parties, conversations, and what a server with colluders can work out."""

from __future__ import annotations

import numpy as np

from taskveil.runtime.secure import Identity, SecureClient, SecureServer, SecureSettings, shamir
from taskveil.runtime.secure import client as client_module
from taskveil.runtime.secure.masks import add_mask


def parties(inputs: np.ndarray, settings: SecureSettings) -> tuple[SecureServer, dict[int, SecureClient]]:
    identities = [Identity() for _ in range(settings.n_sites)]
    roster = {task: identity.public for task, identity in enumerate(identities)}
    clients = {t: SecureClient(t, settings, identities[t], roster, inputs[t]) for t in range(settings.n_sites)}
    return SecureServer(settings, roster), clients


def conversation(n_tasks: int = 3):
    """All messages of one round, in order."""
    settings = SecureSettings.choose(n_tasks, 5, 20, colluders=1, min_cohort=n_tasks)
    server, clients = parties(np.arange(5 * n_tasks).reshape(n_tasks, 5), settings)
    outgoing = server.start()
    while outgoing is not None:
        yield from outgoing.values()
        replies = {task: clients[task].step(message) for task, message in outgoing.items()}
        yield from replies.values()
        outgoing = server.step(replies)


def unmasked_by_colluders(server: SecureServer, clients: dict[int, SecureClient], victim: int, colluders: set[int]) -> np.ndarray:
    """The victim's masked input minus every mask the server and its colluders can compute (complete
    graph)."""
    settings, ring = server.settings, server.settings.ring
    value = server.transcript[2][victim].values.copy()
    shares = {holder + 1: dict(zip(m.self_owners, m.self_shares))[victim] for holder, m in server.transcript[4].items()}
    seed = shamir.combine(shares, settings.threshold)
    add_mask(value, client_module.self_mask_key(server.round_id, victim, seed), ring, positive=False)
    public = server.transcript[0][victim].mask_key
    for other in colluders:
        key = client_module.pair_mask_key(clients[other]._masking, public, server.round_id, other, victim)
        add_mask(value, key, ring, positive=not victim < other)
    return ring.fold(value)
