"""What travels between server and sites: a kind, a small JSON header and named arrays, as one string of bytes.

    b"TVW1" | header length (4 bytes) | header JSON | arrays, back to back

The header holds version, kind, fields and, for each array, name, dtype and shape; lengths must add up exactly. Nothing else is
read: no pickle, no code, no object arrays. `decode` is total: whatever does not fit is refused with `WireError`, and with nothing
else, before memory is taken for it. Numbers in the header are finite.
Numbers inside arrays are *not* trusted here: receivers check shapes, finiteness and norms against the plan.

`checked_view` is the first thing a site does with a question: is the view one that an honest server could have sent? Only the
packet and public things are looked at, so that a refusal here says nothing about rows. What passes is admissible: every task side
must answer it without failing, whatever its rows are.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.errors import CheckFailed, DataError
from taskveil.methods.base import View
from taskveil.methods.published import TYPES as DTYPES
from taskveil.methods.published import Shown

MAGIC = b"TVW1"
VERSION = 1
MAX_BYTES = 512 * 2**20
MAX_HEADER = 2**20
MAX_ARRAYS = 256
MAX_DIMENSIONS = 5
KINDS = ("step", "message", "secure", "refused", "finish", "done")
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,80}")


class WireError(DataError):
    """Bytes that are not a message of this version."""


@dataclass(frozen=True)
class Packet:
    """One message."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)  # JSON values only
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def __repr__(self) -> str:  # never shows values
        return f"Packet({self.kind!r}, fields={sorted(self.fields)}, arrays={sorted(self.arrays)})"


def encode(packet: Packet, limit: int = MAX_BYTES) -> bytes:
    """The packet as bytes; refuses what `decode` would refuse."""
    if packet.kind not in KINDS:
        raise WireError(f"unknown kind of message {packet.kind!r}")
    specs, parts = [], []
    for name, value in packet.arrays.items():
        array = np.asarray(value)
        _check_spec(name, str(array.dtype), array.shape)
        specs.append({"name": name, "dtype": str(array.dtype), "shape": list(array.shape)})
        parts.append(array.tobytes())
    content = {"version": VERSION, "kind": packet.kind, "fields": packet.fields, "arrays": specs}
    header = json.dumps(content, allow_nan=False).encode()
    data = b"".join([MAGIC, struct.pack(">I", len(header)), header, *parts])
    if len(header) > MAX_HEADER or len(specs) > MAX_ARRAYS or len(data) > limit:
        raise WireError("the message is larger than the wire allows; use fewer features or raise the limit")
    return data


def decode(data: bytes, limit: int = MAX_BYTES) -> Packet:
    """The packet in `data`, or WireError."""
    if not isinstance(data, (bytes, bytearray, memoryview)) or len(data) > limit:
        raise WireError("refused: not bytes, or larger than the limit")
    data = bytes(data)
    if data[:4] != MAGIC or len(data) < 8:
        raise WireError("refused: not a taskveil message of version 1")
    (length,) = struct.unpack(">I", data[4:8])
    if length > MAX_HEADER or 8 + length > len(data):
        raise WireError("refused: the header does not fit")
    header = _header(data[8 : 8 + length])
    return Packet(header["kind"], header["fields"], _arrays(header["arrays"], data, 8 + length))


def _header(raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw, parse_constant=_not_finite, parse_float=_finite)
    except (ValueError, RecursionError):  # a UnicodeDecodeError is a ValueError
        raise WireError("refused: the header is not JSON") from None
    fits = (
        isinstance(header, dict)
        and header.get("version") == VERSION
        and header.get("kind") in KINDS
        and isinstance(header.get("fields"), dict)
        and isinstance(header.get("arrays"), list)
        and len(header["arrays"]) <= MAX_ARRAYS
    )
    if not fits:
        raise WireError("refused: the header is not that of a taskveil message of version 1")
    return header


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text)


def _not_finite(text: str) -> float:
    raise ValueError("NaN and infinity are not JSON")


def _arrays(specs: list[Any], data: bytes, position: int) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for spec in specs:
        if not isinstance(spec, dict) or set(spec) != {"name", "dtype", "shape"}:
            raise WireError("refused: an array is not described by name, dtype and shape")
        shape = spec["shape"]
        _check_spec(spec["name"], spec["dtype"], shape)
        if spec["name"] in arrays:
            raise WireError("refused: an array comes twice")
        dtype = np.dtype(spec["dtype"])
        count = math.prod(shape)
        end = position + count * dtype.itemsize
        if end > len(data):
            raise WireError("refused: the message is shorter than its header says")
        flat = np.frombuffer(data, dtype=dtype, count=count, offset=position)
        arrays[spec["name"]] = _valid_bools(flat).reshape(shape).copy()
        position = end
    if position != len(data):
        raise WireError("refused: the message is longer than its header says")
    return arrays


def _valid_bools(flat: np.ndarray) -> np.ndarray:
    if flat.dtype == np.bool_ and (flat.view(np.uint8) > 1).any():
        raise WireError("refused: a truth value is neither 0 nor 1")
    return flat


def _check_spec(name: Any, dtype: Any, shape: Any) -> None:
    sizes = isinstance(shape, (list, tuple)) and all(type(n) is int and 0 <= n <= 2**31 for n in shape)
    if not (isinstance(name, str) and _NAME.fullmatch(name) and dtype in DTYPES and sizes):
        raise WireError(f"refused: arrays have a short plain name, one of the types {', '.join(DTYPES)} and a shape")
    if len(shape) > MAX_DIMENSIONS or math.prod(max(n, 1) for n in shape) > MAX_BYTES:  # empty arrays have huge shapes too
        raise WireError("refused: an array is larger than the wire allows")


def view_arrays(view: View) -> dict[str, np.ndarray]:
    """A view as named arrays."""
    arrays = {f"view/{name}": np.asarray(value) for name, value in view.values.items()}
    arrays = {n: (a if str(a.dtype) in DTYPES else a.astype(np.float64)) for n, a in arrays.items()}
    if view.accepted is not None:
        arrays["accepted"] = np.asarray(view.accepted, dtype=bool)
    if view.active is not None:
        arrays["active"] = np.asarray(view.active, dtype=bool)
    return arrays


def view_from(number: int, arrays: Mapping[str, np.ndarray]) -> View:
    """The view written by `view_arrays`."""
    values = {name[5:]: array for name, array in arrays.items() if name.startswith("view/")}
    return View(number, values, arrays.get("accepted"), arrays.get("active"))


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
    view = view_from(number, packet.arrays)
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
