"""A site leaves when its last answer has left, however long a busy machine takes, and not before: else the server has lost it."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from taskveil.runtime.federation import join
from taskveil.runtime.federation.processes import Child, environment

PAIR = "Received successfully\n", "Sent successfully\n"


@pytest.fixture
def node(tmp_path):
    """A node that lives on and says nothing; the test writes its log."""
    child = Child([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log", environment(tmp_path / "home"))
    child.start()
    yield child
    child.stop()


def say(node, words):
    with open(node.log, "a") as log:
        log.write(words)


def test_the_last_answer_is_waited_for(node):
    say(node, PAIR[0])
    threading.Timer(1.0, say, (node, PAIR[1])).start()
    begun = time.monotonic()
    join._wait_until_said(node, 30.0)
    assert 1.0 <= time.monotonic() - begun < 20.0


def test_a_question_of_an_earlier_life_is_not(tmp_path, node):
    """A killed node never answers what it had received: its site waited for that answer at the end."""
    say(node, PAIR[0])
    node.start()
    say(node, "".join(PAIR))
    begun = time.monotonic()
    join._wait_until_said(node, 30.0)
    assert time.monotonic() - begun < 20.0


def test_a_site_waits_as_long_as_the_server_would(tmp_path, monkeypatch):
    """It left after 30 seconds: with thirty sites on two cores, 24 of them were lost at the end."""
    from taskveil.runtime.federation import serve

    serve.init(tmp_path / "trial", ["north"], ["127.0.0.1"], 9931, "trial")
    config, data = tmp_path / "trial" / "sites" / "north" / "site.toml", tmp_path / "rows.csv"
    path = tmp_path / "trial" / "federation.toml"
    path.write_text(path.read_text().replace("deadline = 600", "deadline = 900").replace("min_sites = 2", "min_sites = 1"))
    data.write_text("x0,x1,x2,y,task\n" + "\n".join(f"{i},{i % 3},{i % 5},{i / 2},north" for i in range(8)) + "\n")
    waited = []

    class Node:
        def stop(self):
            waited.append("stopped")

    monkeypatch.setattr(join, "_supernode", lambda file: Node())
    monkeypatch.setattr(join, "_answer_to_the_end", lambda *_: None)
    monkeypatch.setattr(join, "_wait_until_said", lambda node, seconds: waited.append(seconds))
    join.join(config, str(data), lambda words: None)
    assert waited == [900, "stopped"]
