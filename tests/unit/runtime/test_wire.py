"""The wire reads what it writes and refuses everything else."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from taskveil.methods.base import View
from taskveil.runtime import wire
from taskveil.runtime.wire import Packet, WireError

ARRAYS = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.bool_]), hnp.array_shapes(min_dims=0, max_dims=4, max_side=3)
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z/]{1,8}", fullmatch=True), ARRAYS, max_size=4))
def test_what_is_encoded_is_decoded(arrays):
    packet = wire.decode(wire.encode(Packet("message", {"number": 3}, arrays)))
    assert packet.kind == "message" and packet.fields == {"number": 3} and set(packet.arrays) == set(arrays)
    for name, array in arrays.items():
        assert packet.arrays[name].dtype == array.dtype and packet.arrays[name].shape == array.shape
        np.testing.assert_array_equal(packet.arrays[name], array)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data):
    for candidate in (data, wire.MAGIC + data):
        with pytest.raises(WireError):
            wire.decode(candidate)


GOOD = wire.encode(Packet("step", {"number": 0}, {"a": np.arange(4.0)}))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_one_changed_byte_never_crashes(position, value):
    data = bytearray(GOOD)
    data[position] = value
    try:
        wire.decode(bytes(data))
    except WireError:
        pass


@pytest.mark.parametrize("cut", [0, 3, 4, 7, 8, 20, len(GOOD) - 1])
def test_truncated_messages_are_refused(cut):
    with pytest.raises(WireError):
        wire.decode(GOOD[:cut])


def test_trailing_bytes_are_refused():
    with pytest.raises(WireError, match="longer"):
        wire.decode(GOOD + b"x")


def with_header(**changes) -> bytes:
    header = {"version": 1, "kind": "step", "fields": {}, "arrays": [], **changes}
    raw = json.dumps(header).encode()
    return wire.MAGIC + struct.pack(">I", len(raw)) + raw


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2}, {"kind": "exec"}, {"fields": []}, {"arrays": {}}, {"arrays": [1]},
        {"arrays": [{"name": "a", "dtype": "object", "shape": [1]}]},
        {"arrays": [{"name": "a", "dtype": "float64", "shape": [-1]}]},
        {"arrays": [{"name": "a", "dtype": "float64", "shape": [2**40]}]},
        {"arrays": [{"name": "a", "dtype": "float64", "shape": [2**20, 2**20]}]},
        {"arrays": [{"name": "../../etc", "dtype": "float64", "shape": [True]}]},
        {"arrays": [{"name": "a" * 200, "dtype": "float64", "shape": [0]}]},
        {"arrays": [{"name": "a", "dtype": "float64", "shape": [0], "more": 1}]},
        {"arrays": [{"name": "a", "dtype": "float64", "shape": [0]}] * 2},
        {"arrays": [{"name": f"a{i}", "dtype": "float64", "shape": [0]} for i in range(300)]},
    ],
)  # fmt: skip
def test_headers_that_do_not_fit_are_refused(changes):
    with pytest.raises(WireError):
        wire.decode(with_header(**changes))


def test_messages_over_the_limit_are_refused_on_both_sides():
    big = Packet("message", {}, {"a": np.zeros(100)})
    with pytest.raises(WireError):
        wire.encode(big, limit=200)
    with pytest.raises(WireError):
        wire.decode(wire.encode(big), limit=200)


def test_objects_and_text_are_not_sent():
    with pytest.raises(WireError):
        wire.encode(Packet("message", {}, {"a": np.array(["secret"])}))


def test_a_packet_does_not_show_its_values():
    assert "7.25" not in repr(Packet("message", {"x": 7.25}, {"a": np.array([7.25])}))


def test_a_view_travels_whole():
    view = View(4, {"scale": np.float64(2.0), "map": np.eye(2)}, np.array([True, False]), np.array([True, True]))
    packet = wire.decode(wire.encode(Packet("step", {}, wire.view_arrays(view))))
    back = wire.view_from(4, packet.arrays)
    assert back.round == 4 and back["scale"].shape == () and back.accepted.tolist() == [True, False]
    np.testing.assert_array_equal(back["map"], np.eye(2))
