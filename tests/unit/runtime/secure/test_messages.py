import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.secure_runs import conversation, parties

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import SecureSettings, messages


def test_every_message_of_a_round_survives_the_wire():
    kinds = set()
    for message in conversation():
        kinds.add(type(message))
        again = messages.decode(messages.encode(message))
        assert type(again) is type(message)
        for name in message.__dataclass_fields__:
            assert np.array_equal(getattr(again, name), getattr(message, name))
    assert len(kinds) == 10


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_cleanly(data):
    with pytest.raises(SecureSumRefused):
        messages.decode(data)


def test_truncated_and_padded_messages_are_refused():
    for message in conversation():
        data = messages.encode(message)
        for broken in (data[:-1], data + b"\0", data[:3]):
            with pytest.raises(SecureSumRefused):
                messages.decode(broken)


def test_only_unsigned_words_are_read_as_arrays():
    data = messages.encode(messages.MaskedInput(b"r", 0, np.zeros(3, dtype="<f8"), b""))
    with pytest.raises(SecureSumRefused):
        messages.decode(data)


# ------------------------------------------------------------------- whatever bytes come, one declared error

SAMPLES = [messages.encode(m) for m in conversation()]
HOSTILE = [
    1e999, -1, 1.5, True, None, "x", [], {}, 10**400, [[]], {"a": 1}, [1e999], [-1], [None], ["<u4", -8], ["<u4", 1.5],
    ["<f8", 8], [["<u4"], 8], [2**63] * 4, "\ud800",
]  # fmt: skip


def framed(head: bytes, rest: bytes = b"") -> bytes:
    return len(head).to_bytes(4, "big") + head + rest


def read(data: bytes) -> None:
    """A message, or SecureSumRefused; nothing else may leave."""
    try:
        again = messages.decode(data)
    except SecureSumRefused as error:
        assert "\n" not in str(error)
    else:
        assert messages.decode(messages.encode(again)) is not None


@pytest.mark.parametrize("hostile", HOSTILE, ids=[repr(h)[:20] for h in HOSTILE])
def test_no_value_in_any_field_raises_anything_else(hostile):
    """Infinity raised OverflowError on version 0.1.0."""
    for data in SAMPLES[::3]:
        size = int.from_bytes(data[:4], "big")
        head = json.loads(data[4 : 4 + size])
        for name in head:
            read(framed(json.dumps(head | {name: hostile}).encode("utf-8", "surrogatepass"), data[4 + size :]))


def test_deep_json_is_refused():
    """RecursionError on version 0.1.0."""
    for text in (b"[" * 100_000, b'{"a":' * 50_000, b'{"class":' + b"[" * 50_000):
        with pytest.raises(SecureSumRefused):
            messages.decode(framed(text))


@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_messages_are_read_or_refused(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + draw.draw(st.integers(0, 3))] = draw.draw(st.binary(max_size=3))
    read(bytes(damaged))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)


@settings(max_examples=50, deadline=None)
@given(st.recursive(SCALARS, st.lists, max_leaves=6), st.binary())
def test_any_json_value_as_a_head_is_read_or_refused(value, rest):
    names = [cls.__name__ for cls in (*messages.INCOMING, *messages.ANSWERS)]
    for head in (value, {"class": value}, *({"class": name, "round_id": value} for name in names)):
        read(framed(json.dumps(head).encode(), rest))


@pytest.mark.parametrize("stage", range(5))
def test_what_a_server_sends_is_answered_or_refused_whatever_its_fields_hold(stage):
    """Right kind, right round, and one field from somewhere else: hostile numbers, lengths and lists."""
    config = SecureSettings.choose(4, 5, 20, colluders=1, min_cohort=3)
    pool = {
        "bytes": [b"", b"\xff" * 32, bytes(1000)],
        "tuple[int, ...]": [(), (0,), (0, 0, 0), (3, 2, 1), (10**11, 2), tuple(range(500))],
        "tuple[bytes, ...]": [(), (b"",), (bytes(32),) * 4, (b"x",) * 500],
    }
    for field in fields(messages.INCOMING[stage]):
        for value in pool[str(field.type)]:
            server, clients = parties(np.zeros((4, 5), dtype=np.int64), config)
            outgoing = server.start()
            for _ in range(stage):
                outgoing = server.step({site: clients[site].step(m) for site, m in outgoing.items()})
            try:
                clients[0].step(replace(outgoing[0], **{field.name: value}))
            except SecureSumRefused as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize("stage", range(5))
def test_what_a_site_sends_never_ends_a_round_whatever_its_fields_hold(stage):
    """One of four sites sends one hostile field in one step; one dropout is tolerated, so the others finish."""
    config = SecureSettings.choose(4, 5, 20, colluders=1, min_cohort=3)
    inputs = np.arange(20).reshape(4, 5)
    pool = {
        "int": [0, 3, 10**11],
        "bytes": [b"", b"\xff" * 32, bytes(1000)],
        "np.ndarray": [np.zeros(0, "<u4"), np.zeros(5, "<u1"), np.full(5, 2**32 - 1, "<u4"), np.zeros((5, 1), "<u4")],
        "tuple[int, ...]": [(), (0,), (1, 1, 1), (10**11, 2), tuple(range(500))],
        "tuple[bytes, ...]": [(), (b"",), (bytes(32),) * 4, (b"x",) * 500],
    }
    kinds = ["AdvertisedKeys", "SealedShares", "MaskedInput", "CohortSignature", "UnmaskingShares"]
    for field in fields(getattr(messages, kinds[stage])):
        for value in pool[str(field.type)]:
            server, clients = parties(inputs, config)
            outgoing, step = server.start(), 0
            while outgoing is not None:
                replies = {site: clients[site].step(m) for site, m in outgoing.items()}
                if step == stage and 2 in replies:
                    replies[2] = replace(replies[2], **{field.name: value})
                outgoing, step = server.step(replies), step + 1
            assert np.array_equal(config.ring.centre(server.total), inputs[list(server.cohort)].sum(axis=0))
            disputed = field.name == "unopened"  # whose word counts, nobody can tell: one of the two is out
            assert {0, 1, 3} <= set(server.cohort) or (disputed and len(server.cohort) == 3)
