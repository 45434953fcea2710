"""`runtime="flower"` on one machine: every task is a Flower node in a thread, messages are copied as on the wire.

The path is the deployed one (wire format, checks, clipping at the site and again at the server, charge, noise), only the
network is missing. Sites are single tasks, or equal blocks of tasks when there are many; asynchronous methods always have one
task per site, and the order of arrivals is the order in which threads finish (recorded; `schedule` replays one).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import EnvironmentMissing
from taskveil.methods.base import State
from taskveil.methods.published import published
from taskveil.privacy.release import SharedAccount
from taskveil.runtime.federation.server.driver import Driver, Rules
from taskveil.runtime.federation.site.owner import Site, Volatile, noise_at_site
from taskveil.runtime.run import Run, RunRecord, agreed_beforehand
from taskveil.runtime.virtual_clock import message_limits, stack_models
from taskveil.tasks.block import TaskBlock

if TYPE_CHECKING:
    from taskveil.runtime.secure.parties import Membership

MANY = 64  # more tasks than this share sites


def run(run: Run, block: TaskBlock, *, schedule: Sequence[int] | None = None, rules: Rules | None = None) -> RunRecord:
    """Train all tasks of the block over threads; the same record as `in_process.run`."""
    try:
        from taskveil.runtime.federation.server.flower_grid import thread_carrier
    except ImportError:
        raise EnvironmentMissing("runtime 'flower' needs Flower: pip install 'taskveil[federated]'") from None
    started = time.perf_counter()
    sites = make_sites(run, block)
    members = [site.positions for site in sites]
    carrier = thread_carrier([site.handle for site in sites], workers=min(8, os.cpu_count() or 1))
    try:
        rules = rules or Rules(attempts=1)  # threads do not get lost: a site that fails once fails again
        roster = sites[0].party.membership.roster if sites[0].party else None
        driver = Driver(run, carrier, members, rules, roster=roster)
        done = driver.run(schedule=schedule)
    finally:
        carrier.grid.close()
    memories: list[Any] = [site.memory for site in sites]
    states = [m.last[1] if m.last is not None else site.tasks.start() for m, site in zip(memories, sites, strict=True)]
    record = RunRecord(
        stack_models([m.models for m in memories]), done.billboards, run.plan, run.public, done.executed,
        run.source.describe(), done.schedule, time.perf_counter() - started,
        _one_state(states),
    )  # fmt: skip
    record.extra = {"refusals": driver.refusals, "messages_per_task": done.sent}
    if run.method.schedule == "asynchronous":
        record.extra |= driver.server.statistics(done.state)
    return record


def _one_state(states: list[State]) -> State:
    """The sites' states as one block's; empty where they do not stack (states padded to a site's own largest task)."""
    names = states[0]
    fits = all(len({s[name].shape[1:] for s in states}) == 1 for name in names)
    return {name: np.concatenate([s[name] for s in states]) for name in names} if fits else {}


def make_sites(run: Run, block: TaskBlock) -> list[Site]:
    """One site per task, or blocks of neighbouring tasks."""
    method, plan = run.method, agreed_beforehand(run.plan)
    at_site = noise_at_site(method, plan)
    theirs = replace(run, account=SharedAccount(run.account if at_site else None))
    parts = np.array_split(np.arange(block.n_tasks), block.n_tasks if at_site else min(block.n_tasks, MANY))
    if plan.budget.secure is not None and plan.budget.secure.site_sizes is not None:
        parts = np.split(np.arange(block.n_tasks), np.cumsum(plan.budget.secure.site_sizes)[:-1])
    limits = message_limits(plan, method, block.n_tasks)
    memberships = _memberships(len(parts)) if plan.budget.aggregation == "secure" else None
    sites = [
        Site(
            f"site-{i}",
            theirs,
            block.take(list(part)),
            part.tolist(),
            Volatile(),
            int(limits[part].min()),
            memberships[i] if memberships else None,
        )
        for i, part in enumerate(parts)
    ]
    shown = published(method, run.public, plan)
    for site in sites:
        site.published = shown  # the same for all of them
    return sites


def _memberships(n_sites: int) -> list[Membership]:
    """Fresh signing keys for secure sums among the sites of this process."""
    from taskveil.runtime.secure import Identity
    from taskveil.runtime.secure.parties import Membership

    identities = [Identity() for _ in range(n_sites)]
    roster = {i: identity.public for i, identity in enumerate(identities)}
    return [Membership(i, identity, roster) for i, identity in enumerate(identities)]
