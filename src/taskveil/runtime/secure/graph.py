"""Who masks with whom: everybody with everybody, or a circulant when there are many sites.

Bonawitz et al. 2017 mask along the complete graph; Bell et al. 2020 along a random sparse one, whose guarantee is a
quantile of that randomness and assumes a server that does not choose it. A lying server chooses a lot: who dropped out
after the graph is known, which lists each site is shown, and (through its colluders' keys) how a hash comes out. So
nothing here rests on chance. With c colluders, d dropouts and `threshold` of `holders` shares to open a secret:

  quorum     a site opens nothing before `min_cohort` of all n sites have signed its own list of keys and members.
             Honest sites sign once, so with 2 min_cohort > n + c there is one list; whoever was shown another one, or
             was left out, is not among its signers: at most d honest sites.
  degree     k > c + d. A circulant is k-connected whatever the order of its members, so the honest signers, and with
             them all honest members, hang together: no part of the total can be opened. (The complete graph always.)
  threshold  2 threshold > holders + c: no secret pair of one site is opened by two stories, even without the quorum.
             threshold > c + d: a site that was lied to has still masked with one honest site that stays.
  alive      threshold <= holders - d: within the tolerance a round never fails.

The last three hold together iff holders > 2 d + c. The proof is in docs/secure_sum.md; tests remove every set of
c + d sites from small graphs. The order of the circle is a hash of all keys: it changes nothing above, and spreads
correlated failures.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskveil.runtime.secure import keys


def choose_degree(n_sites: int, colluders: int, dropouts: int, complete: bool = False) -> tuple[int, int]:
    """Neighbours per site and shares that open a secret; (n - 1, n - dropouts) is the complete graph."""
    degree = max(2 * dropouts + colluders, colluders + dropouts + 1)
    degree += degree % 2
    if complete or degree >= n_sites // 2:
        return n_sites - 1, n_sites - dropouts
    return degree, degree + 1 - dropouts


def holders_suffice(holders: int, threshold: int, colluders: int, dropouts: int) -> bool:
    """Whether secrets dealt to so many holders withstand two stories and one site that was lied to."""
    return 2 * threshold > holders + colluders and threshold > colluders + dropouts and threshold <= holders


def circle_graph(members: Sequence[int], degree: int, seed: bytes) -> dict[int, tuple[int, ...]]:
    """Neighbours of every member: all others, or the nearest `degree` on a circle in the order of a hash."""
    n = len(members)
    if degree >= n - 1:
        return {site: tuple(other for other in members if other != site) for site in members}
    order = sorted(members, key=lambda site: keys.digest(b"place", seed, site.to_bytes(8, "big")))
    half = degree // 2
    steps = [*range(-half, 0), *range(1, half + 1)]
    return {site: tuple(sorted(order[(i + step) % n] for step in steps)) for i, site in enumerate(order)}
