"""Python runs this at its start in processes whose path begins here: real server and site processes that misbehave.

    TASKVEIL_TEST_ROLE=liar          a site that sends damaged messages instead of its own
    TASKVEIL_TEST_ROLE=slow          a site that needs TASKVEIL_TEST_SECONDS longer
    TASKVEIL_TEST_ROLE=lying-server  TASKVEIL_TEST_COUNT damaged questions to every site beside each right one

Everything damaged that was sent, and what came back, is a line of TASKVEIL_TEST_LOG. Nothing is imported before the process does
it by itself: Flower takes a process that needs long to start for dead, and starts another.
"""

import importlib.util
import json
import os
import sys
import time


class After:
    """Calls `change(module)` as soon as a module has been imported."""

    def __init__(self, name, change):
        self.name, self.change = name, change
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def load_and_change(module):
            load(module)
            self.change(module)

        spec.loader.exec_module = load_and_change
        return spec


def note(**line: object) -> None:
    with open(os.environ["TASKVEIL_TEST_LOG"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def damage(corpus):
    """Damaged messages that are not a right `finish`: a server may end a run whenever it likes."""
    import numpy as np
    from tests.support import fuzz

    for data in fuzz.damaged(corpus, np.random.default_rng(time.time_ns() % 2**32)):
        packet = fuzz._packet(data)
        if packet is None or packet.kind != "finish":
            yield data


def change_answers(change) -> None:
    """`change(reply)` is sent in place of what the site answers."""

    def changed(module):
        honest = module.answer_for

        def answer_for(path):
            answer = honest(path)
            return lambda data: change(answer(data))

        module.answer_for = answer_for

    After("taskveil.runtime.federation.site.decisions", changed)


def liar() -> None:
    def change(reply: bytes) -> bytes:
        from tests.support import fuzz

        note(sent="reply")
        return next(data for data in damage([reply]) if fuzz._packet(data) is None)

    change_answers(change)


def slow() -> None:
    def change(reply: bytes) -> bytes:
        time.sleep(float(os.environ["TASKVEIL_TEST_SECONDS"]))
        return reply

    change_answers(change)


def lying_server() -> None:
    After("taskveil.runtime.federation.server.flower_grid", lie)


def lie(flower_server) -> None:
    from taskveil.runtime import wire

    carrier = flower_server.GridCarrier
    send, pull, ours, lies = carrier.send, carrier._pull, {}, {}
    count = int(os.environ["TASKVEIL_TEST_COUNT"])

    def with_damaged_ones(self, site, data):
        if data not in lies:  # the same ones for all sites that are asked the same
            lies[data] = [bad for _, bad in zip(range(count), damage([data]))]
        for bad in lies[data]:
            message = flower_server.Message(
                flower_server.content(bad), dst_node_id=self.nodes[site], message_type="train", group_id="bad", ttl=self.ttl
            )
            for message_id in self.grid.push_messages([message]):
                ours[message_id] = hash(bad)
                note(sent="question", site=site)
        send(self, site, data)

    def with_their_replies(self):
        for reply in self.grid.pull_messages(list(ours)) if ours else []:
            asked = ours.pop(reply.metadata.reply_to_message_id, None)
            said = wire.decode(self._unwrap(reply) or b"")
            note(reply=said.kind, asked=asked, reason=said.fields.get("reason", ""))
        return pull(self)

    carrier.send, carrier._pull = with_damaged_ones, with_their_replies


ROLES = {"liar": liar, "slow": slow, "lying-server": lying_server}
if os.environ.get("TASKVEIL_TEST_ROLE"):
    ROLES[os.environ["TASKVEIL_TEST_ROLE"]]()
