"""Two attacks on secure sums that worked up to version 0.1.0, beside what they find today.

    site_collusion   a site that answers for many tasks knows all their noise. With one share per task it could subtract
                     most of the noise from the total; with one share per site it can subtract one.
    two_stories      a server shows one list of survivors to some sites and another to the rest, and asks both for what
                     they open. Where both stories find enough votes it reads one site's message, exactly.

Both are computed, not remembered: the old rules are the same code with its checks left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.audits.gallery import Attack, bars
from taskveil.errors import SecureSumRefused
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.events import Charge
from taskveil.privacy.plan import Budget, PlannedRelease, Request, make_plan
from taskveil.privacy.secure_options import SecureOptions
from taskveil.runtime.secure import Identity, SecureClient, SecureServer, SecureSettings, messages, shamir
from taskveil.runtime.secure import client as client_module
from taskveil.runtime.secure.keys import AgreementKey
from taskveil.runtime.secure.masks import add_mask

LAYOUTS = ((1, 9), (1, 1, 28), (5, 5, 5, 5))
DELTA = 1e-5


def site_collusion(seed: int = 0, epsilon: float = 1.0, layouts: Sequence[Sequence[int]] = LAYOUTS) -> Attack:
    """Epsilon against the largest site: with one noise share per task, and with one per site."""
    rows: list[dict[str, Any]] = []
    for sizes in layouts:
        per_task, per_site = planned_sum(sum(sizes), epsilon), planned_sum(sum(sizes), epsilon, sites=list(sizes))
        before = epsilon_of_shares(per_task, sum(sizes) - max(sizes))
        rows.append({"sites": list(sizes), "before": before, "after": epsilon_of_shares(per_site, len(sizes) - 1)})
    worst = max(rows, key=lambda row: row["before"])
    sentence = (
        f"Certified epsilon {epsilon:g}. A site with {max(worst['sites'])} of {sum(worst['sites'])} tasks knew so much of the "
        f"noise that the others had epsilon {worst['before']:.2f} against it; with one share per site it is {worst['after']:.2f}."
    )
    data = {"epsilon": epsilon, "delta": DELTA, "layouts": rows}
    return Attack("site-collusion", sentence, data, lambda: _collusion_figure(rows))


def planned_sum(n_tasks: int, epsilon: float, **options: Any) -> PlannedRelease:
    """A secure sum of short vectors, with one colluder."""
    figures = SecureOptions.for_tasks(n_tasks, colluders=1, **options)
    budget = Budget(epsilon, DELTA, aggregation="secure", secure=figures)
    return make_plan([Request("sum", 1, VectorSum((4,), 1.0))], budget).releases[0]


def epsilon_of_shares(planned: PlannedRelease, unknown: int) -> float:
    """Epsilon for somebody who knows all noise shares in a total but so many."""
    left: Any = replace(planned.mechanism, colluders=0, min_cohort=unknown)  # type: ignore[call-arg]
    return best_epsilon([Charge(left.event(planned.contribution, "replace-one"))], DELTA)[0]


class OldSettings(SecureSettings):
    """The rules of version 0.1.0: any cohort above the colluders, opened by as many shares."""

    def __post_init__(self) -> None: ...

    def withstands(self, holders: int) -> bool:
        return True


def two_stories(seed: int = 0, cases: Sequence[tuple[int, int]] = ((6, 3), (10, 5)), length: int = 16) -> Attack:
    """Whether a server with one colluder reads site 0's message, for (sites, min_cohort): old rules and new."""
    rows = []
    for n, smallest in cases:
        safe = SecureSettings.choose(n, length, 32, 1, (n + 1) // 2 + 1, complete=True)
        rows.append(
            {
                "sites": n,
                "min_cohort": smallest,
                "before": reads_a_message(OldSettings(n, length, 32, 1, smallest, n - 1, smallest)),
                "after_min_cohort": safe.min_cohort,
                "after": reads_a_message(safe),
            }
        )
    sentence = (
        "A server that showed two lists of survivors read one site's message exactly in "
        f"{sum(r['before'] for r in rows)} of {len(rows)} federations; now such tolerances are refused, and with the largest "
        f"allowed ones it does so in {sum(r['after'] for r in rows)}."
    )
    return Attack("two-stories", sentence, {"federations": rows}, lambda: _stories_figure(rows))


def reads_a_message(settings: SecureSettings) -> bool:
    """Runs the attack on the real protocol, on a complete graph, with the last sites colluding."""
    secret = np.random.default_rng(0).integers(-1000, 1000, (settings.n_sites, settings.length))
    identities = [Identity() for _ in range(settings.n_sites)]
    roster = {i: identity.public for i, identity in enumerate(identities)}
    clients = {i: SecureClient(i, settings, identities[i], roster, secret[i]) for i in roster}
    server = SecureServer(settings, roster)
    outgoing = server.start()
    for _ in range(3):
        outgoing = server.step({i: clients[i].step(m) for i, m in outgoing.items()}) or {}
    message = opened_by_two_stories(server, clients)
    return message is not None and np.array_equal(settings.ring.centre(message), secret[0])


def opened_by_two_stories(server: SecureServer, clients: dict[int, SecureClient]) -> np.ndarray | None:
    """Site 0's message, if those who are told that it stayed and those who are told that it left both open a secret.

    The colluders, the last sites, believe both stories. Honest sites are divided as evenly as the votes need.
    """
    settings, n = server.settings, server.settings.n_sites
    honest, traitors = range(n - settings.colluders), range(n - settings.colluders, n)
    half = max(settings.min_cohort - settings.colluders, 1)
    everybody = server.cohort
    stayed = _story(server, clients, [*honest[:half], *traitors], everybody)
    left = _story(server, clients, [*honest[half:], *traitors], everybody[1:])
    seeds = {h + 1: dict(zip(m.self_owners, m.self_shares)).get(0) for h, m in stayed.items()}
    privates = {h + 1: dict(zip(m.key_owners, m.key_shares)).get(0) for h, m in left.items()}
    try:
        seed = shamir.combine({p: s for p, s in seeds.items() if s}, settings.threshold)
        private = AgreementKey(shamir.combine({p: s for p, s in privates.items() if s}, settings.threshold))
    except SecureSumRefused:
        return None
    value = server._inputs[0].copy()
    add_mask(value, client_module.self_mask_key(server.round_id, 0, seed), settings.ring, positive=False)
    for other in everybody[1:]:
        key = client_module.pair_mask_key(private, server._book.keys[other][1], server.round_id, 0, other)
        add_mask(value, key, settings.ring, positive=False)  # site 0 has the smallest number: it added them all
    return settings.ring.fold(value)


def _story(
    server: SecureServer, clients: dict[int, SecureClient], told: list[int], members: tuple[int, ...]
) -> dict[int, messages.UnmaskingShares]:
    """What those who are told this list of survivors open; colluders are copied, so that they can answer twice."""
    listeners = {i: copy(clients[i]) for i in told}
    signed = _answers(listeners, messages.CohortList(server.round_id, members))
    votes = messages.CohortSignatures(server.round_id, tuple(signed), tuple(s.signature for s in signed.values()))
    return _answers({i: listeners[i] for i in signed}, votes)


def _answers(listeners: dict[int, SecureClient], message: messages.SecureMessage) -> dict[int, Any]:
    answers: dict[int, Any] = {}
    for site, client in listeners.items():
        try:
            answers[site] = client.step(message)
        except SecureSumRefused:
            continue
    return answers


def _collusion_figure(rows: list[dict[str, Any]]) -> Any:
    names = [" + ".join(map(str, row["sites"])) + " tasks" for row in rows]
    return bars(_before_and_now(rows), names, "Epsilon against the largest site, certified 1", "epsilon")


def _stories_figure(rows: list[dict[str, Any]]) -> Any:
    names = [f"{row['sites']} sites, cohorts of {row['min_cohort']}" for row in rows]
    return bars(_before_and_now(rows), names, "Messages read by a server with two stories", "messages")


def _before_and_now(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    return {"before": [float(row["before"]) for row in rows], "now": [float(row["after"]) for row in rows]}
