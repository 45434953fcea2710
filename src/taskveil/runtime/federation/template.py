"""The files that `taskveil serve --init` writes, from templates/: to be read, edited and passed on by people."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from taskveil.runtime.federation import keys
from taskveil.saved import shipped

TEMPLATES = "runtime/federation/templates"


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
