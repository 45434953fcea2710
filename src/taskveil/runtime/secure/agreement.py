"""What all sites of a round must agree on before anything is opened: the list of keys, the graph, the cohort.

The server shows everybody one list of signed keys. Each site checks all of it, works out the graph from it by itself,
and puts a fingerprint of it under its signature on the cohort. So a server that shows different lists, fewer members
or neighbours of its choice finds no quorum (graph.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import keys, messages
from taskveil.runtime.secure.graph import circle_graph
from taskveil.runtime.secure.settings import SecureSettings

Roster = tuple[tuple[int, bytes], ...]  # site, public signing key; ascending


@dataclass(frozen=True)
class KeyBook:
    """A checked list of keys: every member's (sealing key, mask key), the graph over them, and a fingerprint."""

    keys: Mapping[int, tuple[bytes, bytes]]
    graph: Mapping[int, tuple[int, ...]]
    fingerprint: bytes


def as_roster(public_keys: Mapping[int, bytes], settings: SecureSettings) -> Roster:
    """The enrolled sites; one key is one vote, and there are no more votes than the settings count."""
    if len(set(public_keys.values())) != len(public_keys) or not set(public_keys) <= set(range(settings.n_sites)):
        raise SecureSumRefused("two sites have the same signing key, or more are enrolled than agreed; compare the public keys")
    return tuple(sorted(public_keys.items()))


@lru_cache(maxsize=32)  # sites that live in one process read one list once
def read_keys(listed: messages.KeyList, settings: SecureSettings, roster: Roster) -> KeyBook:
    """Every rule a list of keys must keep; the answer does not depend on who asks."""
    columns, enrolled = (listed.senders, listed.sealing_keys, listed.mask_keys, listed.signatures), dict(roster)
    if len({len(column) for column in columns}) != 1:
        raise SecureSumRefused("the list of keys is incomplete; start a new round")
    members = listed.senders
    if list(members) != sorted(set(members)) or not set(members) <= set(enrolled) or len(members) < settings.min_cohort:
        raise SecureSumRefused("the list of keys names too few or unknown sites; start a new round")
    pairs = dict(zip(members, zip(listed.sealing_keys, listed.mask_keys)))
    for site, signature in zip(members, listed.signatures):
        if not keys.verify(enrolled[site], signature, advert_text(listed.round_id, settings.digest(), site, *pairs[site])):
            raise SecureSumRefused(f"the keys of site {site} are not signed by it; start a new round")
    texts = [part for site, pair in pairs.items() for part in (site.to_bytes(8, "big"), *pair)]
    fingerprint = keys.digest(b"keys", listed.round_id, settings.digest(), *texts)
    graph = circle_graph(members, settings.degree, fingerprint)
    if not all(settings.withstands(len(near) + 1) for near in graph.values()):
        raise SecureSumRefused("shares dealt to these sites would not withstand a server with two stories; start a new round")
    return KeyBook(pairs, graph, fingerprint)


@lru_cache(maxsize=32)
def signers(signed: messages.CohortSignatures, text: bytes, roster: Roster) -> frozenset[int]:
    """Who has validly signed this text."""
    enrolled = dict(roster)
    pairs = zip(signed.senders, signed.signatures)
    return frozenset(s for s, signature in pairs if s in enrolled and keys.verify(enrolled[s], signature, text))


def advert_text(round_id: bytes, settings: bytes, index: int, sealing_key: bytes, mask_key: bytes) -> bytes:
    """What a site signs when it advertises its keys."""
    return keys.digest(b"advert", round_id, settings, index.to_bytes(8, "big"), sealing_key, mask_key)


def cohort_text(round_id: bytes, fingerprint: bytes, members: tuple[int, ...]) -> bytes:
    """What a site signs when it agrees to a cohort among the listed keys."""
    return keys.digest(b"cohort", round_id, fingerprint, np.asarray(members, dtype=">u8").tobytes())


def checksum(round_id: bytes, index: int, values: np.ndarray) -> bytes:
    return keys.digest(b"masked", round_id, index.to_bytes(8, "big"), values.tobytes())


def challenge(round_id: bytes, dealer: int, *digests: tuple[bytes, ...]) -> bytes:
    """What a dealer's proof answers: it follows from all its shares (dealing.py)."""
    return keys.digest(b"challenge", round_id, dealer.to_bytes(8, "big"), *(part for column in digests for part in column))


def share_digest(round_id: bytes, owner: int, holder: int, share: bytes) -> bytes:
    """What a dealer publishes of every share, so that the server can tell whose answer is wrong. A share is some 300
    random bits: its digest says nothing about it."""
    return keys.digest(b"share", round_id, owner.to_bytes(8, "big"), holder.to_bytes(8, "big"), share)
