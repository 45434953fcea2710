"""The folder a command writes to: new, empty, or cleared on request, so that nothing of an older run stays beside the new one."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from taskveil.errors import OptionError

# What commands write; anything else in the folder is the user's and stays.
OURS = (
    "arrays.npz", "audit*.json", "certificate.json", "gain.json", "model.json", "parts", "report*.html", "results.json", "run",
    "signature.json",
)  # fmt: skip
FOLDERS = {  # and what is in them; a folder of these names with anything else in it is the user's too
    "run": (
        "billboard-*.npz", "command.json", "commits.jsonl", "finished", "lock", "plan.json", "state.npz", ".*.tmp",
    ),
    "parts": ("part-*.parquet", "gain-*.parquet"),
}  # fmt: skip

overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Clear results, pages and audits of an older run from -o DIR first."
)


def prepare_folder(folder: Path, overwrite: bool) -> None:
    """An output folder without results of an older run: a page or an audit of it would be read as one of the new run."""
    stopped = (folder / "run" / "plan.json").exists() and not (folder / "run" / "finished").exists()
    if stopped and not overwrite:
        raise OptionError(
            f"{folder} holds a run that was stopped; go on with `taskveil fit --resume {folder}`, or choose another folder "
            "(or --overwrite: what the run committed stays charged)"
        )
    for name, ours in FOLDERS.items():
        other = next((p.name for p in sorted((folder / name).glob("*")) if p.is_dir() or not any(map(p.match, ours))), None)
        if other is not None:
            raise OptionError(
                f"{folder / name} holds what taskveil did not write ({other}) and is not cleared; choose another folder"
            )
    old = sorted({path for pattern in OURS for path in folder.glob(pattern)})
    used = [path.name for path in old if path.name != "run"]  # a refused command leaves nothing but its note in run/
    if used and not overwrite:
        raise OptionError(
            f"{folder} holds results of an older run ({used[0]}); choose another folder, or clear it with --overwrite"
        )
    for path in old:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
