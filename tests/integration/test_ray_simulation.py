"""Flower's Ray simulation as the way to outgrow one machine: the same driver and sites, carried by its grid."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from tests.support.require import require
from tests.support.small import related_tasks

N_TASKS = 3
SEED = 5


def parts():
    """Method, block, sizes and plan; every Ray worker rebuilds them, because nothing but bytes travels."""
    from taskveil import methods
    from taskveil.methods.base import PublicInfo
    from taskveil.privacy.plan import Budget, make_plan
    from taskveil.tasks.prepare.scaling import fit_scaling

    tasks = related_tasks(n_tasks=N_TASKS)
    block = fit_scaling(tasks, "own").apply(tasks)
    public = PublicInfo(N_TASKS, block.n_features, 1, "regression")
    method, budget = methods.get("subspace"), Budget(5.0, 1e-3, "task")
    return method, block, public, make_plan(method.requests(public, budget), budget)


def answer_of(context):
    from taskveil.privacy.randomness import insecure_seeded_noise
    from taskveil.privacy.release import SharedAccount
    from taskveil.runtime.federation.site.owner import Site
    from taskveil.runtime.run import Run

    method, block, public, plan = parts()
    task = int(context.node_config["partition-id"])
    site = Site(f"s{task}", Run(method, public, plan, SharedAccount(), insecure_seeded_noise(SEED)), block.take([task]), [task])
    return site.handle


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_ray_simulation_gives_the_billboard_of_the_in_process_run():
    require("flower")
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed: pip install 'flwr[simulation]'")
    from flwr.simulation import run_simulation

    from taskveil.privacy.randomness import insecure_seeded_noise
    from taskveil.runtime import in_process
    from taskveil.runtime.federation.server.driver import Driver
    from taskveil.runtime.federation.server.flower_grid import GridCarrier, ServerApp
    from taskveil.runtime.federation.site.flower_app import client_app
    from taskveil.runtime.run import Run

    method, block, public, plan = parts()
    boards = []
    server = ServerApp()

    @server.main()
    def main(grid, context):
        nodes = sorted(grid.get_node_ids())
        source = insecure_seeded_noise(SEED)
        members = [[t] for t in range(N_TASKS)]
        driver = Driver(Run(method, public, plan, source=source), GridCarrier(grid, nodes), members)
        boards.append(driver.run().billboards[-1])

    run_simulation(server, client_app(answer_of), N_TASKS, backend_config={"client_resources": {"num_cpus": 1}})
    here = in_process.run(Run(method, public, plan, source=insecure_seeded_noise(SEED)), block)
    # Ray numbers its nodes as it likes; a sum over tasks does not depend on which node holds which task.
    for name, value in here.billboards[-1].values.items():
        np.testing.assert_allclose(boards[0].values[name], value, atol=1e-8)
