"""The files that `taskveil serve --init` writes: to be read, edited and passed on by people."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from taskveil.runtime.federation import keys

APP = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "taskveil-federation"
version = "1.0.0"
description = "Starts the taskveil package that is installed on this machine; contains no code of its own."
license = "Apache-2.0"
dependencies = ["flwr==1.41.0"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "taskveil"

[tool.flwr.app.components]
serverapp = "taskveil.runtime.federation.server.flower_grid:app"
clientapp = "taskveil.runtime.federation.site.flower_app:app"

[tool.flwr.app.config]
folder = ""
"""

FEDERATION = """\
# federation.toml: public. Every site gets the same file and computes the same plan from it.

[federation]
name = {name}
host = {host}          # where the server listens
port = {port}
hosts = {hosts}        # names and addresses in the server's certificate

[data]
kind = "regression"                       # or "classification", then classes = ["no", "yes"]
features = ["x0", "x1", "x2"]             # columns every site has
# text = ["x2"]                           # columns of text, hashed into 16 public buckets at every site
target = "y"
# [data.bounds]                           # declared public ranges; needed for unit = "record"
# features = {{ "*" = [-1, 1] }}
# target = [-1, 1]

[run]
method = "subspace"
epsilon = 1.0
# delta = 1e-6
unit = "task"                             # or "record" (methods together, async, mean, pooled, fedavg)
neighbours = "replace-one"
aggregation = "local"                     # noise at each site: the server is not trusted; "curator": the server adds it;
                                          # "secure": shares of the noise in a secure sum (needs keys/*.pub at every site)
# secure = {{ colluders = 1, dropouts = 0 }}  # what a secure sum withstands, in sites
[run.options]                             # options of the method, for example rounds = 10

[rules]
deadline = 600                            # seconds a round waits for late sites
min_sites = 2                             # with fewer answers the round is asked again; the noise never gets smaller
# answer_at = 60                          # sites answer this many seconds after a question, so that computing time does not show
{sites}"""

SITE_ENTRY = """
[[sites]]
name = {name}
tasks = [{name}]                          # names in the task column of the site's table
key = "keys/{plain}.pub"                  # the site's public key; its private key never leaves the site
# rows = [120]                            # public number of rows of each task; needed for unit = "record"
"""

SITE = """\
# site.toml: this site's own file. Nothing in it is sent.

[site]
name = {name}
federation = "federation.toml"            # the public file, as this site has read it and agrees to it
server = {server}
authority = "ca.crt"
key = "{plain}.key"
state = "state"                           # where this site keeps what it must remember, and its models

[data]
task = "task"                             # column that says which task a row belongs to

[limit]
epsilon = 2.0                             # this site's own limit over all runs; it refuses what would exceed it
# record_epsilon = 2.0                    # for single rows; runs that protect whole tasks count here too
# ledger = "sqlite:////var/lib/taskveil/ledger.db"     # a ledger shared with other runs, see `taskveil ledger`
"""


def write_server_files(folder: Path, name: str, sites: list[str], hosts: list[str], port: int) -> list[Path]:
    entries = "".join(SITE_ENTRY.format(name=json.dumps(s), plain=s) for s in sites)
    listen = "127.0.0.1" if set(hosts) <= {"localhost", "127.0.0.1"} else "0.0.0.0"
    text = FEDERATION.format(name=json.dumps(name), host=json.dumps(listen), port=port, hosts=json.dumps(hosts), sites=entries)
    path = folder / "federation.toml"
    if not path.exists():
        path.write_text(text, encoding="utf-8")
    write_app(folder)
    return [path]


def write_app(folder: Path) -> None:
    app = folder / "app"
    app.mkdir(parents=True, exist_ok=True)
    (app / "pyproject.toml").write_text(APP, encoding="utf-8")


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
        text = SITE.format(name=json.dumps(site), plain=site, server=json.dumps(f"{host}:{port}"))
        path.write_text(text.replace('"federation.toml"  ', '"../../federation.toml"', 1), encoding="utf-8")
    return [path]
