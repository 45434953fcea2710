"""Who is left out when a holder says that a dealer's shares do not open or do not fit together.

One of the two is wrong, and nobody else can tell which. Honest sites never complain about one another, so the dishonest ones
touch every dispute: the fewest sites that touch all of them are no more than those, and the round goes on whenever dropouts
allow for as many. Those who stay have no dispute among themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

SEARCHED = 20  # sites up to which the fewest are found exactly; beyond, the most disputed are left out first


def smallest_cover(disputes: Sequence[tuple[int, int]], most: int) -> frozenset[int] | None:
    """The fewest sites, at most `most`, one of every pair (dealer, holder); in doubt the dealer. None where more are needed."""
    if not disputes:
        return frozenset()
    if most <= 0:
        return None
    counts, accused = Counter(site for pair in disputes for site in pair), Counter(dealer for dealer, _ in disputes)
    site = max(counts, key=lambda s: (counts[s], accused[s]))
    rest = smallest_cover([pair for pair in disputes if site not in pair], most - 1)
    cover = None if rest is None else rest | {site}
    near = {other for pair in disputes if site in pair for other in pair} - {site}
    most = most if cover is None else len(cover) - 1
    if 1 < len(near) <= most <= SEARCHED:  # or the site is right and all those are wrong
        rest = smallest_cover([pair for pair in disputes if not near & set(pair)], most - len(near))
        cover = cover if rest is None else rest | near
    return cover
