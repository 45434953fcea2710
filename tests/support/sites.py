"""Sites in this process and the questions a server may ask them."""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil import methods
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.privacy.secure_options import SecureOptions
from taskveil.runtime import wire
from taskveil.runtime.federation import threads as thread_grid
from taskveil.runtime.federation.site.owner import Site
from taskveil.runtime.run import Run
from taskveil.runtime.wire import Packet
from tests.support import views

N_TASKS = 4


def run_of(name: str = "subspace", aggregation: str = "local", kind: str = "regression", secure: Any = None, **options: Any):
    """(method, public, plan) of a small private run over N_TASKS tasks."""
    public = PublicInfo(N_TASKS, views.FEATURES, 1, kind, declared_bounds=True)
    method = methods.get(name, **options)
    figures = {"secure": SecureOptions.for_tasks(N_TASKS, **(secure or {}))} if aggregation == "secure" else {}
    budget = method.adjust(Budget(1.0, 1e-5, "task", aggregation=aggregation, **figures))
    return method, public, make_plan(method.requests(public, budget), budget)


def all_rows(seed: int = 0, kind: str = "regression"):
    return views.rows_of("plain", kind, seed, tasks=N_TASKS)


def make_site(parts, memory=None, account=None, rows: int = 0, source=None, task: int = 0) -> Site:
    """The site of one task; its account holds the whole plan."""
    method, public, plan = parts
    if account is None:
        account = MemoryAccount()
        account.reserve(plan)
    block = all_rows(rows, public.kind).take([task])
    return Site("s", Run(method, public, plan, account, source or insecure_seeded_noise(4)), block, [task], memory)


def secure_sites(parts, rows: int = 0) -> list[Site]:
    method, public, plan = parts
    account = MemoryAccount()
    account.reserve(plan)
    return thread_grid.make_sites(Run(method, public, plan, account, insecure_seeded_noise(4)), all_rows(rows))


def question(site: Site, kind: str = "step", number: int = 0, arrays: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """What an honest server would ask first; `arrays` adds, replaces or (None) takes away, `fields` likewise."""
    start = site.method.server_side(site.public, site.plan).start()[1].view(np.array(site.positions))
    shown = {**wire.view_arrays(start), **(arrays or {})}
    about = {"plan": site.digest, "number": number, "round": number, **fields}
    return wire.encode(Packet(kind, about, {n: np.asarray(a) for n, a in shown.items() if a is not None}))


def kind_of(reply: bytes) -> str:
    return wire.decode(reply).kind
