"""Checks on what sites send, before any of it is used. Pure functions; nothing here draws noise or charges.

A reply must be a `message` for this plan and this number, with exactly the planned names, float64 arrays of the planned shapes,
all finite. Clipped messages are clipped again by the plan's contribution, so a site cannot send more than its share; sums and
noisy messages, which cannot be clipped row by row here, are scaled to the longest a keeping site could plausibly send.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from taskveil.errors import DataError
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contribution import Contribution, VectorSum, seal_clipped_sum
from taskveil.privacy.contributions import RowSum
from taskveil.privacy.plan import PlannedRelease
from taskveil.privacy.units import Neighbours
from taskveil.runtime.wire import Packet

SILENT, LOST, SLOW, REFUSING, LYING = "silent", "lost", "slow", "refusing", "lying"  # what a site without an answer is
UNLIKELY = 12.0  # standard deviations beyond which a noisy message is taken for poisoned


class Refused(DataError):
    """A reply that breaks a rule; no other reply to the same question will come."""

    kind = LYING


class Late(Refused):
    """A reply to an earlier question; the one to this question may still come."""

    kind = SLOW


class SaidNo(Refused):
    """The site itself refused, in its own words."""

    kind = REFUSING


def checked_arrays(
    packet: Packet, digest: str, number: int, releases: Sequence[PlannedRelease], n_tasks: int, stacked: bool
) -> dict[str, np.ndarray]:
    """The arrays of a reply; sums over the site's tasks are marked by shape alone."""
    if packet.kind == "refused":
        raise SaidNo("the site refused: " + own_words(packet))
    if packet.kind != "message" or packet.fields.get("plan") != digest:
        raise Refused("not a message for this plan")
    if packet.fields.get("number") != number or type(packet.fields.get("number")) is not int:
        raise Late("a message of another round, late or replayed")
    if set(packet.arrays) != {p.name for p in releases}:
        raise Refused("not exactly the planned arrays")
    summed = packet.fields.get("summed")
    for planned in releases:
        array, contribution = packet.arrays[planned.name], planned.contribution
        as_stack = stacked and planned.name not in (summed if isinstance(summed, list) else [])
        expected = (n_tasks, *contribution.message_shape) if as_stack else contribution.total_shape
        if stacked and not as_stack and not isinstance(contribution, VectorSum):
            raise Refused(f"release {planned.name!r} cannot be sent as a sum")
        if array.dtype != np.float64 or array.shape != expected:
            raise Refused(f"release {planned.name!r} has the wrong type or shape")
        if not np.isfinite(array).all():
            raise Refused(f"release {planned.name!r} holds NaN or infinity")
    return packet.arrays


def check_done(packet: Packet) -> None:
    """Refuse what does not confirm the end of a run; an answer to a round may still be on its way."""
    if packet.kind == "refused":
        raise SaidNo("refused to finish")
    if packet.kind != "done":
        raise Late("a late message of a round")


def combined(planned: PlannedRelease, parts: dict[int, np.ndarray], members: Sequence[np.ndarray], units: np.ndarray) -> Bounded:
    """All sites' clipped messages as one bounded value; absent tasks are zero. `units` of every task: 1, or its public rows."""
    contribution, n_tasks = planned.contribution, len(units)
    if isinstance(contribution, RowSum):
        return _combined_rows(contribution, parts, members, units)
    sums = {s for s, a in parts.items() if _is_sum(a, contribution, len(members[s]))}
    raw = np.zeros((n_tasks, *contribution.message_shape))
    for site in parts.keys() - sums:
        raw[members[site]] = parts[site]
    clipped = contribution.clip(raw)  # again: what a site calls clipped is only a claim
    if not sums:
        return clipped
    total = np.array(contribution.total(clipped))  # a site that sends a sum silences nobody else
    for site in sums:
        total += shortened(parts[site], len(members[site]) * contribution.bound)
    return seal_clipped_sum(contribution, total, n_tasks)


def _combined_rows(
    contribution: RowSum, parts: dict[int, np.ndarray], members: Sequence[np.ndarray], units: np.ndarray
) -> Bounded:
    """Sums of rows cannot be clipped row by row again: each is no longer than its public number of rows allows."""
    total = np.zeros(contribution.total_shape)
    for site, array in parts.items():
        tasks = units[members[site]]
        summed = _is_sum(array, contribution, len(tasks))
        for part, rows in [(array, tasks.sum())] if summed else zip(array, tasks, strict=True):
            total += shortened(part, float(rows) * contribution.bound)
    return seal_clipped_sum(contribution, total, int(units.sum()))


def noisy_total(planned: PlannedRelease, parts: dict[int, np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """Sum of messages that carry their own noise; `sizes` are the units each site holds."""
    total = np.zeros(planned.contribution.total_shape)
    for site, array in parts.items():
        total += shortened(array, longest_noisy(planned, sizes[site]))
    return total


def longest_noisy(planned: PlannedRelease, units: int) -> float:
    """A norm that a site with `units` units (tasks, or rows where the unit is the record) hardly ever exceeds."""
    one = planned.contribution.sensitivity(Neighbours.ADD_REMOVE).l2
    size = math.prod(planned.contribution.total_shape)
    spread = planned.mechanism.scale if planned.mechanism.family != "none" else 0.0
    growth = size if planned.mechanism.family == "pure" else math.sqrt(size)
    return units * one + spread * (growth + UNLIKELY * math.sqrt(growth) + UNLIKELY)


def shortened(array: np.ndarray, norm: float) -> np.ndarray:
    """The array scaled to this norm if it is longer: a bound on what poison can do, not a privacy step."""
    largest = float(np.abs(array).max(initial=0.0))
    if largest == 0.0:
        return array
    unit = array / largest  # so that huge entries do not overflow
    length = float(np.linalg.norm(unit))
    return array if largest * length <= norm else unit * (norm / length)


def _is_sum(array: np.ndarray, contribution: Contribution, n_tasks: int) -> bool:
    return array.shape != (n_tasks, *contribution.message_shape)


def own_words(packet: Packet) -> str:
    """A site's reason, shortened and without control characters, for the log; whatever is not text says nothing."""
    reason = packet.fields.get("reason")
    return "".join(c for c in reason[:200] if c.isprintable()) if isinstance(reason, str) else "no reason"
