"""The server's part of a secure round over a carrier: five questions to the sites instead of one.

    step + Invitation -> AdvertisedKeys -> ... -> UnmaskingShares -> total -> billboard

Sites charge their own accounts and add their noise before the first answer leaves. A site that is late or
refuses or breaks a rule has dropped out; with fewer sites than `min_cohort` the round ends in SecureSumRefused and
nothing is released. So does a total that no honest sites could have made.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from taskveil.errors import SecureSumRefused
from taskveil.methods.base import Billboard
from taskveil.privacy.plan import PlannedRelease
from taskveil.runtime import wire
from taskveil.runtime.federation.server.replies import LYING, Refused, SaidNo, own_words
from taskveil.runtime.secure import messages
from taskveil.runtime.secure.parties import MASKED, noisy_totals, party_settings
from taskveil.runtime.secure.server import Outgoing, SecureServer
from taskveil.runtime.wire import Packet

if TYPE_CHECKING:
    from taskveil.runtime.federation.server.driver import Driver

log = logging.getLogger("taskveil.federation")


def secure_round(
    driver: Driver, billboard: Billboard, number: int, releases: list[PlannedRelease], active: np.ndarray | None
) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """The noisy totals of one round and the sites that are in them.

    A round that fails before any masked message was sent is tried again; after that it is over for good.
    """
    for attempt in range(driver.rules.attempts):
        server = SecureServer(party_settings(releases), driver.roster)
        try:
            _carry(driver, server, billboard, number, active)
            break
        except SecureSumRefused as error:
            if len(server.transcript) >= MASKED or attempt + 1 == driver.rules.attempts:
                raise
            log.warning("round %d: %s; asking again", number, error)
    assert server.total is not None
    return noisy_totals(releases, server.settings.ring.centre(server.total)), server.cohort


def _carry(driver: Driver, server: SecureServer, billboard: Billboard, number: int, active: np.ndarray | None) -> None:
    def read(site: int, data: bytes | None) -> tuple[messages.SecureMessage | None, bool]:
        return driver.checked(site, data, lambda packet: secure_content(driver, packet, number))

    outgoing: Outgoing | None = server.start()
    kind = "step"  # the first question carries the billboard, the others only the protocol
    while outgoing is not None:
        for site, message in outgoing.items():
            fields = {"plan": driver.digest, "number": number, "round": billboard.round}
            arrays = {"secure": np.frombuffer(messages.encode(message), dtype=np.uint8)}
            if kind == "step":
                arrays |= _view_arrays(driver, site, billboard, active)
            driver.carrier.send(site, wire.encode(Packet(kind, fields, arrays), driver.rules.max_bytes))
        replies: dict[int, messages.SecureMessage] = driver.collect(set(outgoing), read)
        before = set(server.excluded)
        try:
            outgoing, kind = server.step(replies), "secure"
        finally:
            for site in set(server.excluded) - before:
                driver.refuse(site, server.excluded[site], LYING)


def _view_arrays(driver: Driver, site: int, billboard: Billboard, active: np.ndarray | None) -> dict[str, np.ndarray]:
    tasks = driver.members[site]
    return wire.view_arrays(billboard.view(tasks).asking(None if active is None else active[tasks]))


def secure_content(driver: Driver, packet: Packet, number: int) -> messages.SecureMessage:
    """The message of the protocol inside a reply to this round."""
    if packet.kind == "refused":
        raise SaidNo("the site refused: " + own_words(packet))
    if packet.kind != "secure" or packet.fields.get("plan") != driver.digest or packet.fields.get("number") != number:
        raise Refused("not an answer to this step of this plan")
    blob = packet.arrays.get("secure")
    if blob is None or blob.dtype != np.uint8:
        raise Refused("the answer holds no message of a secure sum")
    return messages.decode(blob.tobytes())
