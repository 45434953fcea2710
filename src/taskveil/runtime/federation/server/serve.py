"""`taskveil serve`: create a federation's files, or run its server until the results are written."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskveil.checks import Name
from taskveil.errors import CheckFailed, DataError, EnvironmentMissing, InputError, OptionError
from taskveil.methods.published import published
from taskveil.privacy.plan import Plan
from taskveil.runtime.checkpoint import write_atomically
from taskveil.runtime.federation import keys
from taskveil.runtime.federation.config import Federation, load_federation
from taskveil.runtime.federation.processes import Child, environment, only_one, speakable, tool, wait_for_port
from taskveil.runtime.federation.server.run_folder import check_same, clean, open_run, read_nodes, refusal
from taskveil.runtime.federation.status import StatusFile, of_server
from taskveil.saved import shipped, write_file

Say = Callable[[str], None]
TEMPLATES = "runtime/federation/templates"  # to be read, edited and passed on by people
STALE = 90.0  # seconds without a heartbeat after which a run is taken for dead
START = 300.0  # seconds a busy machine may need; a process that ends is noticed at once
HEADER = 4096  # bytes of a message beside its arrays, at most


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
    written += write_server_files(folder, name, sites, hosts, port)
    for site in sites:
        written += write_site_files(folder, site, hosts[0], port)
    return written


def write_server_files(folder: Path, name: str, sites: list[str], hosts: list[str], port: int) -> list[Path]:
    entry = shipped(f"{TEMPLATES}/site-entry.toml")
    entries = "".join(entry.format(name=json.dumps(s), plain=s) for s in sites)
    listen = "127.0.0.1" if set(hosts) <= {"localhost", "127.0.0.1"} else "0.0.0.0"
    values = {"name": json.dumps(name), "host": json.dumps(listen), "port": port, "hosts": json.dumps(hosts), "sites": entries}
    path = folder / "federation.toml"
    if not path.exists():
        path.write_text(shipped(f"{TEMPLATES}/federation.toml").format(**values), encoding="utf-8")
    write_app(folder)
    return [path]


def write_app(folder: Path) -> None:
    app = folder / "app"
    app.mkdir(parents=True, exist_ok=True)
    (app / "pyproject.toml").write_text(shipped(f"{TEMPLATES}/app.toml"), encoding="utf-8")


def write_site_files(folder: Path, site: str, host: str, port: int) -> list[Path]:
    """A folder to hand to a site on the same machine: its key, the authority's certificate, its site.toml.

    Across hosts the site makes its own key (`taskveil join --init`) and sends only the public half.
    """
    at = folder / "sites" / site
    at.mkdir(parents=True, exist_ok=True)
    public = folder / "keys" / f"{site}.pub"
    if not public.exists():
        made = keys.make_node_key(at, site)
        public.parent.mkdir(exist_ok=True)
        shutil.copy(made, public)
    shutil.copy(folder / "certificates" / "ca.crt", at / "ca.crt")
    path = at / "site.toml"
    if not path.exists():
        template = shipped(f"{TEMPLATES}/site.toml")
        text = template.format(name=json.dumps(site), plain=site, server=json.dumps(f"{host}:{port}"))
        path.write_text(text.replace('"federation.toml"  ', '"../../federation.toml"', 1), encoding="utf-8")
    return [path]


def serve(config: Path, say: Say) -> Path:
    """Run the federation's server to the end; returns the folder of results."""
    federation = load_federation(config)
    _check_files(federation)
    plan = described(federation)  # a mistake in the file shows here, before anything is started
    with only_one(open_run(federation.folder), "a server"):
        check_same(federation)
        status = StatusFile(federation.folder)
        if not (federation.folder / "results" / "run.json").exists():
            _serve(federation, plan, status, say)
        status.write(of_server(federation, plan, "finished"), now=True)
        clean(federation.folder)
    results = federation.folder / "results"
    say(f"finished; results are in {results}")
    return results


def _serve(federation: Federation, plan: dict[str, Any], status: StatusFile, say: Say) -> None:
    """Start Flower's server, register the sites, and keep both running until results are there."""
    link = _superlink(federation)
    phase, reason = "stopped", None
    try:
        status.write(of_server(federation, plan, "starting"), now=True)
        link.start()
        wait_for_port(_local(federation.host), federation.port, START, link)
        say(f"listening on {federation.host}:{federation.port} (TLS, registered nodes only)")
        register(federation, say)
        _run_to_the_end(federation, link, say, lambda: status.write(of_server(federation, plan, "running")))
    except (CheckFailed, InputError) as error:
        phase, reason = "refused", str(error)
        raise
    finally:
        status.write(of_server(federation, plan, phase, reason), now=True)
        link.stop()


def described(federation: Federation) -> dict[str, Any]:
    """What the run promises, for the status: all of it public."""
    plan = federation.plan()
    _check_room(federation, plan)
    budget = plan.budget
    return {
        "epsilon": budget.epsilon, "delta": budget.delta, "unit": budget.unit.value, "neighbours": budget.neighbours.value,
        "observer": federation.observer(plan), "rounds": len(plan.rounds()),
    }  # fmt: skip


def _check_room(federation: Federation, plan: Plan) -> None:
    """Refuse a plan whose messages, or billboards, are larger than the limit on messages allows."""

    def check(arrays: list[tuple[int, ...]]) -> None:
        least, most = HEADER + sum(8 * math.prod(shape) for shape in arrays), federation.rules.max_bytes
        if least > most:
            raise OptionError(
                f"federation.toml: a message of this plan has more than {least} bytes, rules.max_bytes allows {most}; use fewer "
                "features, or raise it"
            )

    for _, releases in plan.rounds():  # before billboards of that size are made
        check([release.contribution.total_shape for release in releases])
    shown = published(federation.method(), federation.public(), plan)
    for board in shown.boards if shown else ():
        check([array.shape for array in board.values() if not array.per_task])


def register(federation: Federation, say: Say) -> None:
    """Tell Flower the sites' public keys, once; remember the node ids it gives them."""
    path = federation.folder / "run" / "nodes.json"
    nodes = read_nodes(path) if path.exists() else {}
    for member in federation.members:
        if member.name in nodes:
            continue
        key = federation.folder / member.key
        answer = flwr(federation, "supernode", "register", str(key), "here", "--name", member.name, "--format", "json")
        nodes[member.name] = int(answer["node-id"])
        write_atomically(path, json.dumps(nodes).encode())
        say(f"registered site {member.name}")


def flwr(federation: Federation, *arguments: str) -> dict[str, str]:
    """One call of Flower's command line against this server, answered in JSON."""
    command, env = [tool("flwr"), *arguments], _environment(federation)
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=START, check=False)
    except subprocess.TimeoutExpired:  # `serve` tries again
        raise EnvironmentMissing(f"flwr {' '.join(arguments[:2])} did not answer within {START:.0f} s") from None
    start = done.stdout.find("{")
    try:
        answer = json.loads(done.stdout[start:]) if start >= 0 else {}
    except ValueError:
        answer = {}
    if done.returncode or not answer.get("success"):
        words = " ".join((done.stderr or done.stdout).split())[-300:]
        raise EnvironmentMissing(f"flwr {' '.join(arguments[:2])} failed: {words}")
    return answer


def _run_to_the_end(federation: Federation, link: Child, say: Say, look: Callable[[], None]) -> None:
    beat = federation.folder / "run" / "heartbeat"
    finished = federation.folder / "results" / "run.json"
    next_start = 0.0
    if not _training(federation):
        beat.unlink(missing_ok=True)  # of a run that died with an earlier server: another is started at once
    refused = federation.folder / "run" / "refused.json"
    while not finished.exists():
        if refused.exists():
            raise refusal(refused)
        if not link.alive:
            say("the server process ended; starting it again")
        link.keep_running()
        age = abs(time.time() - beat.stat().st_mtime) if beat.exists() else STALE  # a clock that was put back tells nothing
        if link.alive and age >= STALE and time.monotonic() > next_start:
            next_start = time.monotonic() + STALE
            _start_run(federation, say)
        look()
        time.sleep(0.3)


def _training(federation: Federation) -> bool:
    """Whether a run of this federation is alive: it holds a lock, which the kernel drops with it."""
    try:
        with only_one(federation.folder / "run" / "training", "a run of this federation"):
            return False
    except EnvironmentMissing:
        return True


def _start_run(federation: Federation, say: Say) -> None:
    try:
        folder = json.dumps(str(federation.folder))
        flwr(federation, "run", str(federation.folder / "app"), "here", "-c", f"folder={folder}", "--format", "json")
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
    write_file(home / "config.toml", text.encode())
    write_app(federation.folder)
    return env


def _check_files(federation: Federation) -> None:
    at = federation.folder / "certificates"
    for name in ("ca.crt", "server.crt", "server.key"):
        if not (at / name).exists():
            raise DataError(f"{at / name} is missing; run `taskveil serve --init {federation.folder}` first")
    for name in ("server.key", "ca.key"):
        if (at / name).exists():
            keys.check_private(at / name)
    keys.check_certificate(at / "server.crt", at / "ca.crt", at / "server.key")
    federation.roster()
    speakable(federation.folder)


def _local(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host
