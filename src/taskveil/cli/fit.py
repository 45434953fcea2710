"""taskveil fit: train, print the guarantee, save."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from taskveil.checks import Entries, Number, shown
from taskveil.cli import command_file
from taskveil.cli.flags import FLAGS, Given, flag
from taskveil.cli.options import (
    DATA_PANEL,
    PRIVACY_PANEL,
    READING,
    asked_method,
    complete_data,
    help_panels,
    json_option,
    ledger_options,
    load,
    loss_option,
    method_option,
    methods_with,
    parse_settings,
    print_json,
    privacy_options,
    reading_options,
    scaling_options,
    seed_option,
    written_page,
)
from taskveil.cli.out_folder import overwrite_option, prepare_folder
from taskveil.cli.progress import progress_bar
from taskveil.errors import BudgetExceeded, OptionError

ENGINE = ("engine", "wait_for_workers", "no_gain")  # options of runs over partitions
NOT_NOTED = ("data", "out", "overwrite", "sign", "resume", "audit_canaries", "as_json")  # of this call, not of the run


@click.command("fit", epilog="Example: taskveil fit visits.csv --task hospital --target days --epsilon 1 -o model/")
@help_panels(
    your_table=DATA_PANEL,
    model="--method --loss --set --prior --scaling --scaling-share --normalise --seed --strict",
    privacy=f"{PRIVACY_PANEL} --ledger --account --insecure-noise-seed --epsilon-file --audit-canaries",
    results="--out --overwrite --sign --resume --engine --wait-for-workers --no-gain --json --help",
)
@click.argument("data", required=False, shell_complete=complete_data)
@reading_options
@method_option
@loss_option
@click.option(
    "--epsilon",
    type=flag("--epsilon or none"),
    default="1.0",
    show_default=True,
    help="A number, or 'none' to train without privacy.",
)
@click.option(
    "--epsilon-file",
    type=Given(exists=True, dir_okay=False),
    metavar="FILE",
    help='File with a budget for each task, instead of --epsilon: JSON or TOML with {task: epsilon, "*": all others}.',
)
@click.option(
    "--prior",
    type=Given(exists=True),
    metavar="PATH",
    help="Public knowledge to start from: a model folder (its billboard), or a .json or .npz file with coef and origin.",
)
@privacy_options
@scaling_options
@ledger_options
@seed_option
@click.option(
    "--insecure-noise-seed", type=flag("--insecure-noise-seed"), help="Reproducible noise, for tests; it voids the certificate."
)
@click.option(
    "--audit-canaries",
    type=flag("--audit-canaries"),
    metavar="K",
    help="Add K canary tasks to this run and attack it with them; says beforehand what that can show and costs.",
)
@click.option("--strict", is_flag=True, help="Refuse tasks with one row, one class or a constant column.")
@click.option("-o", "--out", type=Given(), help="Folder for models, certificate and report.")
@overwrite_option
@click.option(
    "--sign",
    type=Given(exists=True, dir_okay=False),
    metavar="KEY",
    help="Sign every file of the folder with this private key (`taskveil certify --make-key NAME` makes one).",
)
@click.option("--resume", type=Given(exists=True, file_okay=False), help="Continue the stopped run in this folder.")
@click.option(
    "--engine",
    type=flag("--engine"),
    metavar="dask[:ADDRESS]",
    help="Train on partitions of a folder of Parquet files: dask (all cores of this machine), or dask:tcp://HOST:8786.",
)
@click.option(
    "--wait-for-workers",
    type=flag("--wait-for-workers"),
    metavar="SECONDS",
    help="Seconds to wait if --engine finds no workers, at the start and later. [default: 60]",
)
@click.option("--no-gain", is_flag=True, help="Do not measure what sharing brought (with --engine it takes three times the fit).")
@json_option
def command(
    data: str | None,
    out: str | None,
    overwrite: bool,
    sign: str | None,
    resume: str | None,
    audit_canaries: int | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Train a personal model for every task of DATA (a file or the name of a data set)."""
    key = signing_key(sign, resume or out)
    if overwrite and out is None:
        raise OptionError("--overwrite clears the folder of -o DIR: give one")
    if resume is not None:
        request = {"data": data, "out": out, "overwrite": overwrite, "audit_canaries": audit_canaries, **given}
        data, given = resumed(Path(resume))
        check_the_same(request, {"data": data, "out": resume, **given})
    elif data is None:
        raise click.UsageError("Missing argument 'DATA' (or --resume DIR).")
    elif out is not None:
        if "://" in out:
            raise OptionError("-o is a folder of this machine; models go to an address from Python: est.save('s3://...')")
        begin(Path(out), data, given, overwrite)
    folder = resume or out
    estimator = train(data, folder, given) if audit_canaries is None else train_with_canaries(data, given, audit_canaries)
    with progress_bar("each task compares on its own rows"):
        estimator.gain_ if estimator.method_.linear and not in_partitions(estimator) else None
    if folder:
        write_results(estimator, Path(folder), as_json, key)
    if as_json:
        print_json(document(estimator))
    else:
        click.echo(estimator.summary())
    return BudgetExceeded.exit_code if estimator.record_.warnings else 0


def signing_key(path: str | None, folder: str | None) -> Any:
    """Read before anything is spent: a key that cannot sign must not be found out after the run."""
    if path is None:
        return None
    if folder is None:
        raise OptionError("--sign signs the files of a folder: give -o DIR")
    from taskveil.privacy.signing import private_key

    return private_key(path)


def train(data: str, folder: str | None, given: dict[str, Any]) -> Any:
    """Load, choose, fit."""
    estimator, tasks = configured(data, folder, given)
    with progress_bar("training") as progress:
        estimator.set_params(progress=progress).fit(tasks)
    estimator.progress = None
    if given.get("no_gain"):
        estimator._lazy = None  # where the rows are: pages are written without the gain
    return estimator


def train_with_canaries(data: str, given: dict[str, Any], canaries: int) -> Any:
    """The same with canary tasks among the others; their coins are kept nowhere, so such a run cannot be resumed."""
    from taskveil.audits.one_run import fit_with_canaries

    estimator, tasks = configured(data, None, given)
    return fit_with_canaries(estimator, tasks, canaries, lambda text: click.echo(text, err=True))


def configured(data: str, folder: str | None, given: dict[str, Any]) -> tuple[Any, Any]:
    """The estimator these options describe, and the tasks it is for."""
    from taskveil.estimators import estimator_for

    engine = given.get("engine")
    for name in () if engine else ENGINE[1:]:
        if given.get(name):
            raise OptionError(f"--{name.replace('_', '-')} goes with --engine dask; this run is in memory")
    client = connected(engine, given) if engine else None  # before anything is read
    with progress_bar(f"reading {Path(data).name.partition('?')[0]}"):
        tasks = read(data, given)
    options = {k: v for k, v in given.items() if (k not in READING or k == "exposure") and k not in ENGINE}
    options |= {"runtime": "dask", "client": client} if engine else {}
    sizes = (tasks.n_tasks, tasks.n_features, options["unit"], tasks.kind)
    choice = asked_method(options.pop("method"), options["unit"])
    (method,) = methods_with([choice], parse_settings(tuple(options.pop("settings"))), sizes)
    kind = estimator_for(tasks.kind)
    epsilon: Any = read_epsilon(options.pop("epsilon"))
    each = options.pop("epsilon_file", None)
    epsilon = epsilon if each is None else read_epsilons(each)
    run_dir = Path(folder) / "run" if folder and epsilon is not None and method.linear else None
    return kind(method, epsilon=epsilon, run_dir=run_dir, **options), tasks


def connected(engine: str, given: dict[str, Any]) -> Any:
    """A client of the cluster that `--engine` names; refused first is what does not run there."""
    from taskveil import methods
    from taskveil.estimators import estimator_for
    from taskveil.estimators.partitioned.fit import check_engine
    from taskveil.runtime.dask.cluster import WAIT, connect

    options = {k: given.get(k) for k in ("aggregation", "scaling", "variant", "unit", "loss", "person")}
    each = given.get("epsilon_file")
    epsilon: Any = read_epsilon(given["epsilon"]) if each is None else read_epsilons(each)
    name = given["method"] if given["method"] != "auto" else "together"
    check_engine(
        estimator_for(given.get("kind") or "regression")(epsilon=epsilon, **options), methods.get(name).under(given["unit"])
    )
    if given.get("wait_for_workers") is not None:
        import dask

        dask.config.set({WAIT: given["wait_for_workers"]})
    client = connect(engine.partition(":")[2] or None)
    click.echo(f"Dask dashboard: {client.dashboard_link}", err=True)
    return client


def in_partitions(estimator: Any) -> bool:
    """Whether models stayed on a cluster."""
    return hasattr(estimator.models_, "parts")


def read(data: Any, given: dict[str, Any]) -> Any:
    """The tasks of a table, as these options read them."""
    from taskveil.tasks.prepare.step import PrepareRules

    rules = PrepareRules(given["unit"], read_epsilon(given["epsilon"]) is not None, given["variant"] == "sound")
    lazy: dict[str, Any] = {"lazy": True} if given.get("engine") else {}
    return load(data, unusable=rules.unusable, loss=given["loss"], **lazy, **{k: given[k] for k in READING})


def begin(folder: Path, data: str, given: dict[str, Any], overwrite: bool = False) -> None:
    """Note the command, so that `fit --resume` needs nothing else."""
    prepare_folder(folder, overwrite)
    (folder / "run").mkdir()
    command_file.write(folder / "run" / "command.json", data, given)


def resumed(folder: Path) -> tuple[str, dict[str, Any]]:
    """The command that began the run."""
    path = folder / "run" / "command.json"
    if not path.exists():
        raise OptionError(f"{folder} holds no run to resume: {path} is missing")
    data, options = command_file.read(path)
    given = command_file.as_given(command, options, path)
    return data, {k: v for k, v in given.items() if k not in NOT_NOTED}


def check_the_same(request: dict[str, Any], begun: dict[str, Any]) -> None:
    """A run goes on as it was begun: whoever says something else on the way must hear that it would not count."""
    context = get_current_context()
    for name, value in request.items():
        told = context.get_parameter_source(name) is ParameterSource.COMMANDLINE and value is not None
        if told and json.dumps(value) != json.dumps(begun.get(name)):
            option = "DATA" if name == "data" else f"--{name.replace('_', '-')}"
            raise OptionError(f"--resume continues as the run was begun, without {option} {shown(value)}; leave it out")


def read_epsilon(given: str | float | None) -> float | None:
    """A number, or None for the word 'none'; runs of version 0.1 noted numbers as words."""
    rule = FLAGS["--epsilon or none"]
    return rule.check("--epsilon", rule.parse(given) if isinstance(given, str) else given)


def read_epsilons(path: str) -> dict[str, float]:
    """{task: epsilon, "*": epsilon of all others} from a .json or .toml file."""
    from taskveil.saved import read_table

    table = read_table(Path(path))
    return Entries(Number(above=0)).check(f"{path}: the budgets of tasks", table)


def write_results(estimator: Any, folder: Path, quiet: bool, key: Any = None) -> None:
    (folder / "signature.json").unlink(missing_ok=True)  # of what was there before
    estimator.save(folder)
    page = written_page(lambda report: report.write_report(estimator, folder))
    if page is not None and not quiet:
        click.echo(f"report: {page}", err=True)
    if key is not None:
        from taskveil.privacy.signing import sign_folder

        sign_folder(folder, key)


def document(estimator: Any) -> dict[str, Any]:
    """What `fit --json` prints."""
    whole = estimator.method_.linear and not in_partitions(estimator)
    gain = estimator.gain_.to_dict() if whole else {}
    models = {}
    if whole:
        models = {
            name: {"coef": c.tolist(), "intercept": i.tolist()}
            for name, c, i in zip(estimator.task_names_, estimator.coef_, estimator.intercept_)
        }
    return {
        "certificate": json.loads(estimator.certificate_.to_json()),
        "models": models,
        "gain": gain,
        "warnings": list(estimator.warnings_),
    }
