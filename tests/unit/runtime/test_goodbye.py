"""A site leaves when the server has ended, and not as soon as its last answer is sent.

Flower 1.41 reports a message to a node that has left as failed even if its answer is there: on a busy machine, or with thirty
sites on two cores, sites that had done everything right were lost at the end.
"""

from __future__ import annotations

import socket
import sys
import threading
import time

import numpy as np
import pytest

from taskveil.methods.base import Billboard
from taskveil.runtime.federation.processes import Child, environment
from taskveil.runtime.federation.server import training as server
from taskveil.runtime.federation.site import join
from taskveil.runtime.round import Position


@pytest.fixture
def node(tmp_path):
    child = Child([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log", environment(tmp_path / "home"))
    child.start()
    yield child
    child.stop()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def waited(node, listener, seconds):
    begun = time.monotonic()
    join._wait_until_heard(node, f"127.0.0.1:{listener.getsockname()[1]}", seconds)
    return time.monotonic() - begun


def test_a_site_stays_until_the_server_has_ended(node, listener, monkeypatch):
    monkeypatch.setattr(join, "GONE", 0.5)
    threading.Timer(1.5, listener.close).start()
    assert 1.5 <= waited(node, listener, 60.0) < 30.0


def test_a_server_that_never_ends_is_waited_for_as_long_as_it_would_wait(node, listener):
    assert 1.0 <= waited(node, listener, 1.0) < 30.0


def test_a_node_that_has_died_keeps_nobody(node, listener):
    node.stop()
    assert waited(node, listener, 60.0) < 30.0


def test_a_site_waits_as_long_as_the_deadline(tmp_path, monkeypatch):
    from taskveil.runtime.federation.server import serve

    serve.init(tmp_path / "trial", ["north"], ["127.0.0.1"], 9931, "trial")
    config, data = tmp_path / "trial" / "sites" / "north" / "site.toml", tmp_path / "rows.csv"
    path = tmp_path / "trial" / "federation.toml"
    path.write_text(path.read_text().replace("deadline = 600", "deadline = 900").replace("min_sites = 2", "min_sites = 1"))
    data.write_text("x0,x1,x2,y,task\n" + "\n".join(f"{i},{i % 3},{i % 5},{i / 2},north" for i in range(8)) + "\n")
    calls = []

    class Node:
        def stop(self):
            calls.append("stopped")

    monkeypatch.setattr(join, "_supernode", lambda file: Node())
    monkeypatch.setattr(join, "_answer_to_the_end", lambda *_: None)
    monkeypatch.setattr(join, "_wait_until_heard", lambda node, address, seconds: calls.append((address, seconds)))
    join.join(config, str(data), lambda words: None)
    assert calls == [("127.0.0.1:9931", 900), "stopped"]


def test_a_server_restarted_after_the_last_round_waits_for_nobody():
    """Its sites had heard the end and were gone: it waited for them for ever."""

    class Plan:
        def rounds(self):
            return [(1, []), (2, []), (3, [])]

    board = Billboard(1, {"w": np.zeros(2)})
    for schedule, sent, over in (([None] * 3, [0, 0], True), ([None] * 2, [0, 0], False), ([0, 1, 0], [2, 1], False),
                                 ([0, 1] * 3, [3, 3], True)):  # fmt: skip
        assert server.finished(Position({}, [board], schedule=schedule, sent=sent), Plan()) is over
