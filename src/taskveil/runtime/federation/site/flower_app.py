"""The site's end of Flower: a ClientApp that hands bytes to a `Site` and hands its bytes back. One of two files that import flwr.

Every answer comes from a `Site` (owner.py), which checks the run and the plan first; this file only wraps and unwraps. The
installed `app` finds its site in the node configuration (`site="/path/site.toml"`), as `taskveil join` starts it.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # before flwr is imported: it must never call out
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from taskveil.runtime import wire
from taskveil.runtime.federation.site.owner import note_at_site
from taskveil.runtime.wire import Packet, WireError

STYPE = "taskveil.packet"
Answer = Callable[[bytes], bytes]


def content(data: bytes) -> RecordDict:
    """Our bytes as Flower content: one array of bytes, which Flower cuts into chunks when it is large."""
    return RecordDict({"taskveil": ArrayRecord({"packet": Array("uint8", (len(data),), STYPE, data)})})


def data_of(message: Message, limit: int = wire.MAX_BYTES) -> bytes:
    """Our bytes from a Flower message; anything else is refused."""
    if not message.has_content() or list(message.content) != ["taskveil"]:
        raise WireError("refused: not a taskveil message")
    record = message.content["taskveil"]
    if not isinstance(record, ArrayRecord) or list(record) != ["packet"]:
        raise WireError("refused: not a taskveil message")
    array = record["packet"]
    if array.stype != STYPE or len(array.data) > limit:
        raise WireError("refused: not a taskveil message, or larger than the limit")
    return bytes(array.data)


def _bytes_of(message: Message) -> bytes:
    """Our bytes, or none: the site refuses those as it refuses any other, and not before its clock says so."""
    try:
        return data_of(message)
    except Exception:  # whatever a server put into Flower's message
        return b""


def client_app(find_answer: Callable[[Context], Answer]) -> ClientApp:
    """A ClientApp whose sites are found by `find_answer`; errors of a site never carry values out."""
    app = ClientApp()

    @app.train()
    def answer(message: Message, context: Context) -> Message:
        try:
            reply = find_answer(context)(_bytes_of(message))
        except Exception as error:  # files or a ledger that cannot be read: the owner is told, the server only that it failed
            note_at_site("".join(traceback.format_exception(error)))
            reply = wire.encode(Packet("refused", {"reason": "the site could not compute its message"}))
        return Message(content(reply), reply_to=message)

    return app


def _installed_site(context: Context) -> Answer:
    from taskveil.runtime.federation.site.decisions import answer_for

    return answer_for(str(context.node_config["site"]))


app = client_app(_installed_site)
