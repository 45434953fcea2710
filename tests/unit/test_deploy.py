"""deploy/: not root, nothing writable but its own folder, secrets as files, and commands that our entry point understands."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import click
import pytest
from tests.support import deployment

from taskveil.cli.main import main

ROLES = ("server", "site")
HARDENED = {
    "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes", "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "", "UMask": "0077", "StateDirectoryMode": "0700", "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes", "Type": "exec",
}  # fmt: skip


def test_the_container_runs_as_nobody_special_from_a_pinned_image():
    instructions = dict(deployment.container())
    user = instructions["USER"].split(":")[0]
    assert user.isdigit() and int(user) >= 10000
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", instructions["FROM"])
    assert instructions["ENTRYPOINT"] == '["taskveil"]'
    text = (deployment.DEPLOY / "Containerfile").read_text()
    assert "ADD " not in text and ":latest" not in text and "constraints.txt" in text and "sudo" not in text
    secrets = re.findall(r"^COPY .*(?:\.key|secret|\.toml)\b.*", text, re.M)
    assert [line for line in secrets if "pyproject.toml" not in line] == []


@pytest.mark.parametrize("role", ROLES)
def test_a_service_is_read_only_unprivileged_and_takes_its_key_from_a_secret_file(role):
    service = deployment.compose()["services"][role]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"] and "privileged" not in service
    assert int(service["user"].split(":")[0]) >= 10000
    (secret,) = service["secrets"]
    assert secret["mode"] == 0o400 and secret["source"] in deployment.compose()["secrets"]
    writable = [v.split(":")[1] for v in service["volumes"] if not v.endswith(":ro")]
    assert writable == ["/data"]
    assert not any("KEY" in k or "PASSWORD" in k for k in service.get("environment", {}))


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_is_hardened_and_not_restarted_where_that_cannot_help(role):
    service = deployment.unit(role)["Service"]
    assert {k: service.get(k) for k in HARDENED} == HARDENED
    assert service["User"] not in ("", "root") and service["Group"] not in ("", "root")
    assert service["RestartPreventExitStatus"].split() == ["2", "3"]


@pytest.mark.parametrize("role", ROLES)
def test_systemd_itself_finds_nothing_wrong_with_a_unit(role, tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not on this machine")
    path = tmp_path / deployment.UNITS[role].name
    stand_in = shutil.which("true")
    path.write_text(deployment.UNITS[role].read_text().replace("/opt/taskveil/bin/taskveil", str(stand_in)))
    done = subprocess.run([program, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if path.name.partition("@")[0] in line]
    assert done.returncode == 0 and not said, done.stderr


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("source", [deployment.container_command, deployment.unit_command])
def test_the_command_is_one_our_entry_point_understands(source, role, tmp_path):
    program, *arguments = source(role)
    assert Path(program).name == "taskveil"
    scripts = {e.name: e.value for e in metadata.distribution("taskveil").entry_points}
    assert scripts["taskveil"] == "taskveil.cli.__main__:run"
    for i, part in enumerate(arguments):
        if part.startswith("/"):
            (tmp_path / Path(part).name).write_text("")
            arguments[i] = str(tmp_path / Path(part).name)
    context = click.Context(main)
    command = main.get_command(context, arguments[0])
    assert command is not None
    parsed = command.make_context(arguments[0], arguments[1:], parent=context).params
    assert parsed["config"] == str(tmp_path / ("federation.toml" if role == "server" else "site.toml"))


@pytest.mark.parametrize("role", ROLES)
def test_the_health_check_is_a_command_of_ours(role):
    word, program, command, folder = deployment.compose()["services"][role]["healthcheck"]["test"]
    assert (word, program, folder) == ("CMD", "taskveil", "/data") and main.get_command(click.Context(main), command)


def test_the_version_in_the_files_is_the_packages():
    version = re.search(r'^version = "([^"]+)"', (deployment.DEPLOY.parent / "pyproject.toml").read_text(), re.M)
    assert version is not None
    for name in ("Containerfile", "compose.yaml"):
        assert f"taskveil:{version[1]}" in (deployment.DEPLOY / name).read_text()
