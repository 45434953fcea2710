"""A federation's files: who can read them, what becomes a path, which run they belong to, what is left at the end."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.federation import Trial

from taskveil.errors import DataError, InputError
from taskveil.runtime.federation import keys
from taskveil.runtime.federation.config import load_federation
from taskveil.runtime.federation.processes import Child, environment, only_one
from taskveil.runtime.federation.server import serve
from taskveil.runtime.federation.server.run_folder import KEEP, check_same, clean, open_run
from taskveil.runtime.federation.site import join


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    serve.init(tmp_path / "trial", ["north", "south"], ["127.0.0.1"], 9092, "trial")
    return tmp_path / "trial"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_run_folder_is_for_its_owner_only_also_if_it_was_there_before(folder):
    (folder / "run").mkdir(mode=0o755)
    assert mode(open_run(folder)) == 0o700


def test_what_a_child_process_writes_is_for_its_owner_only(tmp_path):
    """Flower's superlink.db-wal, with messages before noise, was 0644."""
    code = f"open({str(tmp_path / 'superlink.db-wal')!r}, 'w').write('x')"
    child = Child([sys.executable, "-c", code], tmp_path / "log", environment(tmp_path / "home"))
    child.start()
    for _ in range(200):
        if (tmp_path / "superlink.db-wal").exists():
            break
        time.sleep(0.05)
    child.stop()
    assert mode(tmp_path / "superlink.db-wal") == 0o600


def test_after_the_end_nothing_that_a_site_sent_is_left(folder):
    run = open_run(folder)
    for name in ("superlink.db", "superlink.db-wal", "progress.npz", "nodes.json", *KEEP):
        (run / name).write_bytes(b"message")
    (run / "flower" / "deep").mkdir(parents=True)
    (run / "outside").symlink_to(folder / "certificates")
    clean(folder)
    assert sorted(p.name for p in run.iterdir()) == sorted(KEEP)
    assert (folder / "certificates" / "ca.key").exists()


def changed(folder: Path) -> Path:
    path = folder / "federation.toml"
    path.write_text(path.read_text().replace("epsilon = 1.0", "epsilon = 3.0"))
    return path


def test_a_changed_federation_file_is_refused_while_its_run_is_under_way(folder):
    open_run(folder)
    check_same(load_federation(folder / "federation.toml"))
    check_same(load_federation(folder / "federation.toml"))  # the same file goes on
    with pytest.raises(DataError, match="changed while its run was under way"):
        check_same(load_federation(changed(folder)))


def test_a_changed_federation_file_is_never_shown_the_old_certificate(folder):
    """`serve` used to say 'finished' with the old results."""
    federation = load_federation(folder / "federation.toml")
    (folder / "results").mkdir()
    (folder / "results" / "run.json").write_text(f'{{"federation": "{federation.digest}"}}')
    said: list[str] = []
    assert serve.serve(folder / "federation.toml", said.append) == folder / "results"  # nothing is started for a finished run
    assert "finished" in said[-1]
    with pytest.raises(DataError, match="results of another federation.toml"):
        serve.serve(changed(folder), said.append)


def test_waiting_longer_or_listening_elsewhere_is_no_other_run(folder):
    before = load_federation(folder / "federation.toml").digest
    path = folder / "federation.toml"
    path.write_text(path.read_text().replace("deadline = 600", "deadline = 60").replace("port = 9092", "port = 9093"))
    assert load_federation(path).digest == before
    assert load_federation(changed(folder)).digest != before


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o604, 0o660, 0o622, 0o777])
def test_a_private_key_that_others_can_read_or_change_is_refused_with_the_remedy(bits, folder):
    for path in (folder / "certificates" / "server.key", folder / "sites" / "north" / "north.key"):
        path.chmod(bits)
        with pytest.raises(DataError, match=f"chmod 600 {path}"):
            keys.check_private(path)
    with pytest.raises(DataError, match="chmod 600"):
        serve.serve(folder / "federation.toml", lambda text: None)
    with pytest.raises(DataError, match="chmod 600"):
        join.join(folder / "sites" / "north" / "site.toml", "nothing.csv", lambda text: None)


@pytest.mark.parametrize("bits", [0o600, 0o400])
def test_a_private_key_of_its_owner_is_taken(bits, folder):
    (folder / "certificates" / "server.key").chmod(bits)
    keys.check_private(folder / "certificates" / "server.key")


@pytest.mark.parametrize("name", ["../../x", "a/b", "/tmp/x", "..", ".ssh", "", "a\\b", "x\ny", "-rf"])
def test_a_name_never_becomes_a_path(name, tmp_path):
    inside = tmp_path / "inside"
    for attempt in (
        lambda: join.init(inside, name),
        lambda: keys.make_node_key(inside, name),
        lambda: serve.init(inside, [name], ["127.0.0.1"], 9092, "trial"),
    ):
        with pytest.raises(InputError):
            attempt()
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_new_private_keys_are_0600_whatever_the_umask(tmp_path):
    old = os.umask(0o000)
    try:
        keys.make_node_key(tmp_path, "north")
    finally:
        os.umask(old)
    assert mode(tmp_path / "north.key") == 0o600


def test_a_machine_too_busy_to_answer_flower_does_not_end_the_server(tmp_path, monkeypatch):
    """The timeout of a call of Flower's command line went through `serve` as a defect."""
    federation = load_federation(Trial(tmp_path, 'method = "mean"\nepsilon = 1.0').folder / "federation.toml")
    (federation.folder / "run").mkdir()

    def busy(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(serve.subprocess, "run", busy)
    monkeypatch.setattr(serve, "tool", lambda name: name)
    said: list[str] = []
    serve._start_run(federation, said.append)
    assert len(said) == 1 and said[0].endswith("trying again")


def test_a_run_that_died_with_its_server_is_known_by_its_lock_not_by_its_age(tmp_path):
    federation = load_federation(Trial(tmp_path, 'method = "mean"\nepsilon = 1.0').folder / "federation.toml")
    assert not serve._training(federation)
    with only_one(federation.folder / "run" / "training", "a run"):
        assert serve._training(federation)
    assert not serve._training(federation)
