"""Damaged messages through the handlers of sites and server: nothing is raised, nothing is spent twice, no run dies.

A few hundred here; ten thousand in `make faults`. Seeds are fixed, so that a failure can be repeated.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import fuzz
from tests.support.sites import N_TASKS, kind_of, make_site, question, run_of, secure_sites
from tests.unit.runtime.test_bad_messages import BAD_SITE, DirectCarrier

from taskveil.errors import SecureSumRefused
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.runtime import wire
from taskveil.runtime.federation.server.driver import Driver, Rules
from taskveil.runtime.federation.server.replies import check_done
from taskveil.runtime.federation.server.secure_round import secure_content
from taskveil.runtime.run import Run
from taskveil.runtime.secure import SecureServer, messages
from taskveil.runtime.secure.parties import party_settings
from taskveil.runtime.wire import Packet

FEW, MANY, FRESH = 100, 2000, 25  # messages per kind of run, here and in `make faults`; a fresh site every so many
RUNS = {
    "curator": ("subspace", "curator", {"rounds": 3}),
    "local": ("subspace", "local", {"rounds": 3}),
    "rounds": ("low-rank", "local", {"rounds": 3}),
    "async": ("async", "local", {"rounds": 3}),
    "secure": ("subspace", "secure", {}),
}
COUNTS = [FEW, pytest.param(MANY, marks=pytest.mark.faults)]


def fresh(parts, rows: int):
    return secure_sites(parts, rows)[0] if parts[2].budget.aggregation == "secure" else make_site(parts, rows=rows)


def secure_bytes(site) -> list[bytes]:
    """Protocol messages of a round, as a server would send them to a site, and what it answers."""
    server = SecureServer(party_settings(site.rounds[0]), site.party.membership.roster)
    invitation = messages.encode(server.start()[0])
    entered = site.handle(question(site, arrays={"secure": np.frombuffer(invitation, dtype=np.uint8)}))
    return [invitation, wire.decode(entered).arrays["secure"].tobytes()]


def questions(parts) -> list[bytes]:
    """The corpus: every kind of packet a site may be asked."""
    site = fresh(parts, 0)
    extra = {}
    if site.party is not None:
        extra = {"secure": np.frombuffer(secure_bytes(fresh(parts, 0))[0], dtype=np.uint8)}
    steps = [question(site, number=n, arrays=extra, round=n) for n in range(len(site.rounds))]
    found = [*steps, question(site, "finish", round=len(site.rounds))]
    if extra:
        found.append(wire.encode(Packet("secure", {"plan": site.digest, "number": 0}, extra)))
    return found


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("run", RUNS)
def test_sites_with_other_rows_react_alike_to_any_message_and_spend_no_more_than_the_plan(run, count):
    """Kind and length of every reply are the same for two sites with different rows; so are the words of refusals."""
    name, aggregation, options = RUNS[run]
    parts = run_of(name, aggregation, **options)
    asked = questions(parts)
    stream = fuzz.damaged(asked, np.random.default_rng(len(run)))
    one = other = None
    for i, data in enumerate(islice(stream, count)):
        if i % FRESH == 0:
            one, other = fresh(parts, 1), fresh(parts, 2)
        data = asked[i // 5 % len(asked)] if i % 5 == 4 else data  # right ones in between, the end last
        replies = [site.handle(data) for site in (one, other)]
        kinds = [kind_of(reply) for reply in replies]
        assert kinds[0] == kinds[1] and len(replies[0]) == len(replies[1])
        if kinds[0] == "refused":
            assert len({wire.decode(reply).fields["reason"] for reply in replies}) == 1
        for site in (one, other):
            ids = [p.id for releases in site.rounds for p in releases]
            assert len(site.account.spent()) <= len(ids)


def a_driver(parts, carrier, roster=None, **rules) -> Driver:
    method, public, plan = parts
    members = [[t] for t in range(N_TASKS)]
    given = Rules(**{"deadline": 0.02, "attempts": 1, "pause": 0.0, **rules})
    return Driver(Run(method, public, plan, source=insecure_seeded_noise(1)), carrier, members, given, roster=roster)


def replies_of(parts) -> list[bytes]:
    """The corpus: every kind of packet a site may send."""
    site = fresh(parts, 0)
    right = [site.handle(data) for data in questions(parts)[:2]]
    return [*right, wire.encode(Packet("refused", {"reason": "no"})), wire.encode(Packet("done", {"plan": site.digest}))]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("run", RUNS)
def test_whatever_a_site_sends_the_server_takes_it_for_absent_or_for_a_message(run, count):
    name, aggregation, options = RUNS[run]
    parts = run_of(name, aggregation, **options)
    driver = a_driver(parts, None)
    for data in islice(fuzz.damaged(replies_of(parts), np.random.default_rng(7)), count):
        before = len(driver.refusals)
        arrays, _ = driver.read(0, data, 0, driver.rounds[0])
        assert (arrays is None) == (len(driver.refusals) == before + 1)
        if arrays is not None:
            assert all(np.isfinite(a).all() for a in arrays.values())
        driver.is_refusal(data)
        driver.checked(0, data, check_done)
        driver.checked(0, data, lambda packet: secure_content(driver, packet, 0))  # whatever else is raised would end the run


@pytest.mark.parametrize("count", [3, pytest.param(60, marks=pytest.mark.faults)])
@pytest.mark.parametrize("run", ["curator", "local", "rounds", "async"])
def test_a_run_with_a_site_that_sends_rubbish_goes_to_its_end(run, count):
    name, aggregation, options = RUNS[run]
    parts = run_of(name, aggregation, **options)
    stream = fuzz.damaged(replies_of(parts), np.random.default_rng(11))
    for _ in range(count):
        account = MemoryAccount()
        sites = [make_site(parts, rows=5, task=t) for t in range(N_TASKS)]
        carrier = DirectCarrier([s.handle for s in sites], lambda reply: [next(stream)])
        done = a_driver(parts, carrier).run()
        assert all(np.isfinite(v).all() for v in done.billboards[-1].values.values())
        assert account.spent() == [] and sites[0].memory.finished


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=pytest.mark.faults)])
def test_a_secure_run_with_a_site_that_sends_rubbish_at_any_step_goes_to_its_end(count):
    """Damaged packets and damaged protocol messages inside right packets, at one step or at all: a dropout, and no more."""
    parts = run_of("subspace", "secure", secure={"dropouts": 1})
    chance = np.random.default_rng(2)
    for trial in range(count):
        sites, sent = secure_sites(parts), list[bytes]()
        step = None if trial % 3 == 0 else int(chance.integers(6))

        def spoil(reply, inside=trial % 2 == 1, step=step, sent=sent):
            sent.append(reply)
            if step not in (None, len(sent) - 1):
                return [reply]
            return [damaged_inside(reply, chance) if inside else next(fuzz.damaged(sent, chance))]

        driver = a_driver(parts, DirectCarrier([s.handle for s in sites], spoil), roster=sites[0].party.membership.roster)
        done = driver.run()
        assert all(np.isfinite(v).all() for v in done.billboards[-1].values.values())
        assert all(line.startswith(f"site {BAD_SITE}") for line in driver.refusals) and len(done.schedule) == len(driver.rounds)


def damaged_inside(reply: bytes, rng) -> bytes:
    packet = wire.decode(reply)
    if "secure" not in packet.arrays:
        return b""
    inner = next(damaged_bytes([packet.arrays["secure"].tobytes()], rng))
    return wire.encode(Packet(packet.kind, packet.fields, {"secure": np.frombuffer(inner, dtype=np.uint8)}))


def test_every_secure_message_survives_damage_or_is_refused():
    parts = run_of("subspace", "secure")
    corpus = secure_bytes(fresh(parts, 0))
    for data in islice(damaged_bytes(corpus, np.random.default_rng(3)), 300):
        try:
            messages.decode(data)
        except SecureSumRefused:
            pass


def damaged_bytes(corpus, rng):
    """As `fuzz.damaged`, for the messages inside: a four-byte length, a JSON head, bytes."""
    while True:
        data = bytearray(corpus[int(rng.integers(len(corpus)))])
        size = int.from_bytes(data[:4], "big")
        token = fuzz.TOKENS[int(rng.integers(len(fuzz.TOKENS)))]
        at, to = sorted(int(i) for i in rng.integers(4, 4 + size + 1, 2))
        if rng.random() < 0.5:
            data[at:to] = token
            data[:4] = (size - (to - at) + len(token)).to_bytes(4, "big")
        else:
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        yield bytes(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(fields=JSON, arrays=JSON, kind=st.sampled_from(wire.KINDS) | JSON, tail=st.binary(max_size=40))
def test_decode_returns_a_packet_or_raises_wire_error_and_nothing_else(fields, arrays, kind, tail):
    import json

    content = {"version": 1, "kind": kind, "fields": fields, "arrays": arrays}
    try:
        packet = wire.decode(fuzz._joined(json.dumps(content).encode(), tail))
    except wire.WireError:
        return
    assert isinstance(packet, Packet) and packet.kind in wire.KINDS


FOUND = {  # what ended a server's run in version 0.1.0, and its kin
    "a name that is a list": b'{"version":1,"kind":"message","fields":{},"arrays":[{"name":[1],"dtype":"float64","shape":[1]}]}',
    "an empty array of a huge shape": b'{"version":1,"kind":"message","fields":{},"arrays":[{"name":"a","dtype":"float64",'
    b'"shape":[0,2147483648,2147483648,2147483648,2147483648]}]}',
    "a number that is infinite": b'{"version":1,"kind":"message","fields":{"number":Infinity},"arrays":[]}',
    "a number that becomes infinite": b'{"version":1,"kind":"message","fields":{"number":1e999},"arrays":[]}',
    "deep nesting": b'{"version":1,"kind":"message","arrays":[],"fields":{"a":' + fuzz.DEEP.encode() * 9 + b"}}",
    "not text": b"\xff\xfe{",
}


@pytest.mark.parametrize("what", FOUND)
def test_headers_that_once_ended_a_run_are_refused(what):
    with pytest.raises(wire.WireError):
        wire.decode(fuzz._joined(FOUND[what], b""))


HEADS = [b'{"class":"AdvertisedKeys","round_id":0,"sender":1e999}', b"[" * 100_000, b"{", b"7", b'{"class":[]}']


@pytest.mark.parametrize("head", HEADS)
def test_secure_messages_that_once_ended_a_run_are_refused(head):
    with pytest.raises(SecureSumRefused):
        messages.decode(len(head).to_bytes(4, "big") + head)


def test_a_reply_handler_that_lets_an_error_through_would_be_noticed(monkeypatch):
    """The twin: with the old order of checks, a name that cannot be looked up ends the server's loop."""
    monkeypatch.setattr(wire, "_check_spec", lambda *_: None)
    driver = a_driver(run_of(), None)
    with pytest.raises(TypeError):
        driver.read(0, fuzz._joined(FOUND["a name that is a list"], b"\0" * 8), 0, driver.rounds[0])
