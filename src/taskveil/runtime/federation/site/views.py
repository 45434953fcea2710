"""The first thing a site does with a question: is the view one that an honest server could have sent?

Only the packet and public things are looked at, so that a refusal here says nothing about rows. What passes is admissible: every
task side must answer it without failing, whatever its rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

import numpy as np

from taskveil.errors import CheckFailed
from taskveil.methods.base import View
from taskveil.methods.published import Shown
from taskveil.runtime import wire
from taskveil.runtime.wire import Packet

ABOUT_TASKS = frozenset({"accepted", "active"})


def checked_view(
    packet: Packet, rounds: range, at: Callable[[int], Mapping[str, Shown]] | None, n_tasks: int, other: Set[str] = frozenset()
) -> View:
    """The view of a block of `n_tasks` tasks; `rounds` may be shown now, `other` arrays belong to the carrier.

    `at` says what to expect in a round; None: the run promises nothing, and what it shows may be anything.
    """
    number = packet.fields.get("round")
    if type(number) is not int or number not in rounds:
        raise CheckFailed("the billboard is of another round than this message needs; nothing was sent")
    view = wire.view_from(number, packet.arrays)
    for name in ABOUT_TASKS & packet.arrays.keys():
        if packet.arrays[name].dtype != np.bool_ or packet.arrays[name].shape != (n_tasks,):
            raise CheckFailed(f"{name!r} must hold one truth value for each task of this site; nothing was sent")
    if at is None:
        return view
    expected = at(number)
    strangers = packet.arrays.keys() - {f"view/{name}" for name in view.values} - ABOUT_TASKS - other
    if strangers or view.values.keys() != expected.keys():
        raise CheckFailed("the billboard does not hold exactly what this method publishes; nothing was sent")
    for name, array in view.values.items():
        rule = expected[name].broken_rule(array, n_tasks)
        if rule is not None:
            raise CheckFailed(f"{name!r} on the billboard {rule}; nothing was sent")
    return view
