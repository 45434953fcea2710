"""Damaged messages: a corpus of right ones, and ways to make them wrong that know the format."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from taskveil.runtime import wire
from taskveil.runtime.wire import Packet

DEEP = "[" * 3000 + "]" * 3000
NASTY: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, 10**400, -0.5, 1e308, "", "0", "x" * 3000, "\x1b[31m", "\ud800", [], [[]], {}, {"a": [1]},
]  # fmt: skip
TOKENS = [
    b"Infinity", b"-Infinity", b"NaN", b"1e999", b"9" * 5000, DEEP.encode(), b'{"a":' * 2000, b'"\\ud800"', b"null", b"[" * 9,
]  # fmt: skip
NUMBERS = [0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 1e6, -1e6, 1e154, 1e308, 5e-324]
SHAPES = [(), (0,), (1,), (3,), (2, 2), (1, 3), (0, 3), (4, 4), (1, 1, 1)]


def damaged(corpus: list[bytes], rng: np.random.Generator) -> Iterator[bytes]:
    """Endless: bytes changed anywhere, and packets whose fields, arrays or descriptions are wrong."""
    ways = [_bits, _cut, _spliced, _tokens, _fields, _values, _arrays, _specs, _noise]
    while True:
        data = corpus[int(rng.integers(len(corpus)))]
        for _ in range(int(rng.integers(1, 3))):
            data = ways[int(rng.integers(len(ways)))](data, rng, corpus)
        yield data


def _pick(rng: np.random.Generator, options: list[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def _bits(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        if changed:
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)


def _cut(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    at = int(rng.integers(0, len(data) + 1))
    return data[:at] if rng.random() < 0.7 else data + rng.bytes(int(rng.integers(1, 20)))


def _spliced(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    other = _pick(rng, corpus)
    return data[: int(rng.integers(0, len(data) + 1))] + other[int(rng.integers(0, len(other) + 1)) :]


def _noise(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    return (wire.MAGIC if rng.random() < 0.5 else b"") + rng.bytes(int(rng.integers(0, 60)))


def _tokens(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    """A piece of the header replaced by what JSON readers stumble over, with the length put right."""
    head, tail = _split(data)
    if head is None:
        return data
    start, end = sorted(int(i) for i in rng.integers(0, len(head) + 1, 2))
    colons = [i for i, byte in enumerate(head) if byte == ord(":")]
    if colons and rng.random() < 0.7:  # in the place of a value
        start = _pick(rng, colons) + 1
        end = min((i for i in (head.find(b",", start), head.find(b"}", start)) if i >= 0), default=len(head))
    return _joined(head[:start] + _pick(rng, TOKENS) + head[end:], tail)


def _specs(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    """An array described wrongly: names that are no names, shapes of nothing that are huge, types that are none."""
    head, tail = _split(data)
    content = _json(head)
    if not isinstance(content, dict) or not isinstance(content.get("arrays"), list) or not content["arrays"]:
        return data
    wrong = {
        "name": [[1], {}, None, "", "a" * 99, "../x", 7],
        "dtype": ["object", "float16", [], None, "S4", "uint8", "bool", "int64"],
        "shape": [[0, 2**31, 2**31, 2**31, 2**31], [2**40], [-1], [1.5], "3", [[1]], {}, [True], [0], [10**30]],
    }
    spec = _pick(rng, content["arrays"])
    if isinstance(spec, dict):
        key = _pick(rng, list(wrong))
        spec[key] = _pick(rng, wrong[key])
    return _joined(json.dumps(content).encode(), tail)


def _fields(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    packet = _packet(data)
    if packet is None:
        return data
    names = [*packet.fields, "number", "round", "plan", "reason", "summed"]
    fields = {**packet.fields, _pick(rng, names): _pick(rng, NASTY)}
    kind = packet.kind if rng.random() < 0.8 else _pick(rng, list(wire.KINDS))
    return wire.encode(Packet(kind, fields, packet.arrays))


def _values(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    packet = _packet(data)
    if packet is None or not packet.arrays:
        return data
    name = _pick(rng, list(packet.arrays))
    array = packet.arrays[name].copy()
    if array.size:
        where = int(rng.integers(array.size))
        with np.errstate(all="ignore"):
            value = np.asarray(_pick(rng, NUMBERS))
            array.reshape(-1)[where] = value.astype(array.dtype) if np.isfinite(value) or array.dtype.kind == "f" else 1
    return wire.encode(Packet(packet.kind, packet.fields, {**packet.arrays, name: array}))


def _arrays(data: bytes, rng: np.random.Generator, corpus: list[bytes]) -> bytes:
    packet = _packet(data)
    if packet is None:
        return data
    arrays = dict(packet.arrays)
    name = _pick(rng, [*arrays, "view/mean", "active", "accepted", "secure", "x"])
    if name in arrays and rng.random() < 0.4:
        del arrays[name]
    else:
        arrays[name] = np.full(_pick(rng, SHAPES), _pick(rng, [0, 1])).astype(_pick(rng, list(wire.DTYPES)))
    return wire.encode(Packet(packet.kind, packet.fields, arrays))


def _packet(data: bytes) -> Packet | None:
    try:
        return wire.decode(data)
    except wire.WireError:
        return None


def _split(data: bytes) -> tuple[bytes | None, bytes]:
    if len(data) < 8 or data[:4] != wire.MAGIC:
        return None, b""
    (length,) = struct.unpack(">I", data[4:8])
    return data[8 : 8 + length], data[8 + length :]


def _joined(head: bytes, tail: bytes) -> bytes:
    return wire.MAGIC + struct.pack(">I", len(head)) + head + tail


def _json(head: bytes | None) -> Any:
    try:
        return json.loads(head or b"null")
    except (ValueError, RecursionError):
        return None
