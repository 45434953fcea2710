"""The table of all events, and reading them back from plain data."""

from __future__ import annotations

from typing import Any

from taskveil.errors import DataError
from taskveil.privacy import events
from taskveil.privacy.events import Charge, Event
from taskveil.privacy.fields import check_fields
from taskveil.privacy.secure_events import SharedGaussianEvent, SharedSkellamEvent

EVENTS: dict[str, type[Event]] = {
    e.kind: e
    for e in (
        events.GaussianEvent,
        events.GaussianTotal,
        events.SampledGaussianEvent,
        events.PureEvent,
        events.ZeroEvent,
        events.CappedEvent,
        events.UncertifiedEvent,
        events.SelectEvent,
        SharedGaussianEvent,
        SharedSkellamEvent,
    )
}


def event_from_dict(data: dict[str, Any]) -> Event:
    """The event written by `Event.to_dict`."""
    fields = dict(data)
    kind, version = fields.pop("kind", None), fields.pop("version", None)
    if kind not in EVENTS:
        raise DataError(f"unknown event {kind!r}: expected one of {', '.join(sorted(EVENTS))}")
    if version != EVENTS[kind].version or version is True:
        raise DataError(f"event {kind!r} has version {version!r}; this program reads version {EVENTS[kind].version}")
    plain = {k: v for k, v in fields.items() if (kind, k, v) != ("select", "shape", "inf")}  # JSON has no infinity
    check_fields(EVENTS[kind], plain)
    if kind == "select":
        fields["charges"] = tuple(Charge(event_from_dict(c["event"]), c["count"]) for c in fields["charges"])
        fields["shape"] = float(fields["shape"])
    if kind == "capped":
        fields["inner"] = event_from_dict(fields["inner"])
    try:
        return EVENTS[kind](**fields)
    except TypeError:
        raise DataError(f"event {kind!r} has unexpected or missing fields: got {', '.join(sorted(fields))}") from None
