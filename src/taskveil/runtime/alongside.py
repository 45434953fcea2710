"""Steps 2 and 3 of a round (round.py) for sums that a device computes while their noise is drawn here.

Charged first, durably; then the computation is sent off, the noise and the next cohort are drawn, and only then is the sum
waited for. A run that is killed in between has paid for a round it never saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from taskveil.faults import point
from taskveil.methods.base import State, TaskSide, View
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.plan import PlannedRelease
from taskveil.privacy.randomness import again
from taskveil.privacy.release import release_alongside
from taskveil.runtime.round import Round, bounded


def released_alongside(
    rounds: Round, releases: Sequence[PlannedRelease], tasks: TaskSide, state: State, view: View, tries: Counter[str]
) -> tuple[State, dict[str, np.ndarray]]:
    """The tasks' next state and the noisy sums; `tries` counts earlier tries of a resumed run."""
    run, states = rounds.run, []

    def start() -> Callable[[], list[Bounded]]:
        new_state, wait = tasks.begin(state, view)
        states.append(new_state)

        def sums() -> list[Bounded]:
            if rounds.follows(releases):
                tasks.expect(releases[0].round, rounds.look_ahead(releases))
            message = wait()
            return [bounded(planned, message[planned.name], view.active, run.source) for planned in releases]

        return sums

    pairs, noisy = [(planned, again(run.source, tries[planned.id])) for planned in releases], {}
    for done in release_alongside(pairs, start, run.account):
        noisy[done.name] = done.value
        point("noise.drawn")
    tries.update(planned.id for planned in releases)
    return states[0], noisy
