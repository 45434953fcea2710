"""`taskveil serve`: create a federation's files, or run its server until the results are written."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from taskveil.checks import Name
from taskveil.errors import DataError, EnvironmentMissing, OptionError, SecureSumRefused
from taskveil.runtime.federation import keys, template
from taskveil.runtime.federation.config import Federation, load_federation
from taskveil.runtime.federation.locks import only_one
from taskveil.runtime.federation.processes import Child, environment, tool, wait_for_port

Say = Callable[[str], None]
STALE = 90.0  # seconds without a heartbeat after which a run is taken for dead
START = 60.0


def init(folder: Path, sites: list[str], hosts: list[str], port: int, name: str) -> list[Path]:
    """Certificates, node keys and files to edit. Existing files are kept."""
    for site in sites:
        Name().check("a site's name", site)
    if len({site.casefold() for site in sites}) < len(sites):
        raise OptionError(f"names of sites must differ, also but for capitals; got {', '.join(sites)}")
    certificates = folder / "certificates"
    certificates.mkdir(parents=True, exist_ok=True)
    if not (certificates / "ca.crt").exists():
        keys.make_authority(certificates, name)
    if not (certificates / "server.crt").exists():
        keys.make_server_certificate(certificates, hosts)
    written = [certificates / "ca.crt", certificates / "server.crt"]
    written += template.write_server_files(folder, name, sites, hosts, port)
    for site in sites:
        written += template.write_site_files(folder, site, hosts[0], port)
    return written


def serve(config: Path, say: Say) -> Path:
    """Run the federation's server to the end; returns the folder of results."""
    federation = load_federation(config)
    folder = federation.folder
    _check_files(federation)
    federation.plan()  # a mistake in the file shows here, before anything is started
    with only_one(folder / "run", "a server"):
        link = _superlink(federation)
        try:
            link.start()
            wait_for_port(_local(federation.host), federation.port, START, link)
            say(f"listening on {federation.host}:{federation.port} (TLS, registered nodes only)")
            register(federation, say)
            return _run_to_the_end(federation, link, say)
        finally:
            link.stop()


def register(federation: Federation, say: Say) -> None:
    """Tell Flower the sites' public keys, once; remember the node ids it gives them."""
    path = federation.folder / "nodes.json"
    nodes = json.loads(path.read_text()) if path.exists() else {}
    for member in federation.members:
        if member.name in nodes:
            continue
        key = federation.folder / member.key
        if not key.exists():
            raise DataError(
                f"site {member.name!r} has no public key: expected {key}; ask the site for its .pub file"
            )
        answer = flwr(
            federation, "supernode", "register", str(key), "here", "--name", member.name, "--format", "json"
        )
        nodes[member.name] = int(answer["node-id"])
        path.write_text(json.dumps(nodes))
        say(f"registered site {member.name}")


def flwr(federation: Federation, *arguments: str) -> dict[str, str]:
    """One call of Flower's command line against this server, answered in JSON."""
    done = subprocess.run(
        [tool("flwr"), *arguments],
        env=_environment(federation),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    start = done.stdout.find("{")
    try:
        answer = json.loads(done.stdout[start:]) if start >= 0 else {}
    except ValueError:
        answer = {}
    if done.returncode or not answer.get("success"):
        words = " ".join((done.stderr or done.stdout).split())[-300:]
        raise EnvironmentMissing(f"flwr {' '.join(arguments[:2])} failed: {words}")
    return answer


def _run_to_the_end(federation: Federation, link: Child, say: Say) -> Path:
    results, beat = federation.folder / "results", federation.folder / "run" / "heartbeat"
    finished = results / "run.json"
    started = 0.0
    refused = federation.folder / "run" / "refused.json"
    while not finished.exists():
        if refused.exists():
            raise SecureSumRefused(json.loads(refused.read_text())["reason"])
        if not link.alive:
            say("the server process ended; starting it again")
        link.keep_running()
        age = time.time() - max(started, beat.stat().st_mtime if beat.exists() else 0.0)
        if link.alive and age > STALE:
            started = time.time()
            _start_run(federation, say)
        time.sleep(0.3)
    say(f"finished; results are in {results}")
    return results


def _start_run(federation: Federation, say: Say) -> None:
    try:
        folder = json.dumps(str(federation.folder))
        flwr(
            federation,
            "run",
            str(federation.folder / "app"),
            "here",
            "-c",
            f"folder={folder}",
            "--format",
            "json",
        )
        say("run started; waiting for sites")
    except EnvironmentMissing as error:
        say(f"{error}; trying again")


def _superlink(federation: Federation) -> Child:
    at = federation.folder / "certificates"
    command = [
        tool("flower-superlink"), "--ssl-ca-certfile", str(at / "ca.crt"), "--ssl-certfile", str(at / "server.crt"),
        "--ssl-keyfile", str(at / "server.key"), "--enable-supernode-auth", "--disable-runtime-dependency-installation",
        "--database", str(federation.folder / "run" / "superlink.db"), "--host", federation.host,
        "--port", str(federation.port),
    ]  # fmt: skip
    return Child(command, federation.folder / "run" / "superlink.log", _environment(federation))


def _environment(federation: Federation) -> dict[str, str]:
    home = federation.folder / "run" / "flower"
    env = environment(home)
    authority = federation.folder / "certificates" / "ca.crt"
    text = (
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{_local(federation.host)}:{federation.port}"\n'
        f"root-certificates = {json.dumps(str(authority))}\n"
    )
    if not (home / "config.toml").exists() or (home / "config.toml").read_text() != text:
        (home / "config.toml").write_text(text)
    template.write_app(federation.folder)
    return env


def _check_files(federation: Federation) -> None:
    at = federation.folder / "certificates"
    for name in ("ca.crt", "server.crt", "server.key"):
        if not (at / name).exists():
            raise DataError(f"{at / name} is missing; run `taskveil serve --init {federation.folder}` first")
    keys.check_certificate(at / "server.crt", at / "ca.crt")
    if os.stat(at / "server.key").st_mode & 0o077:
        raise DataError(f"{at / 'server.key'} can be read by others; chmod 600 it")


def _local(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host
