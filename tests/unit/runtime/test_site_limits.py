"""One limit per site: over all runs, aggregations, units, neighbours and observers; lowered at once; nothing held unasked."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.errors import BudgetExceeded, DataError
from taskveil.privacy.ledger import Book, Key
from taskveil.runtime.federation.config import load_federation, load_site
from taskveil.runtime.federation.site import decisions as federation_site
from taskveil.runtime.federation.site.decisions import ledger_account, prepare
from taskveil.runtime.federation.site.state import SiteState

ROWS = 12
RUNS = {
    "local": 'method = "subspace"\naggregation = "local"',
    "curator": 'method = "subspace"\naggregation = "curator"',
    "add-remove": 'method = "subspace"\naggregation = "local"\nneighbours = "add-remove"',
    "record": 'method = "mean"\nunit = "record"\ndelta = 1e-5\n[run.options]\nrounds = 2',
}


class Place:
    """A site's folder; every run has its own federation file and state, and all share the site's ledger."""

    def __init__(self, folder):
        self.folder = folder
        rng = np.random.default_rng(0)
        rows = [f"{a:.3f},{b:.3f},{a:.3f},here" for a, b in rng.uniform(-1, 1, (ROWS, 2))]
        (folder / "rows.csv").write_text("\n".join(["a,b,y,task", *rows]) + "\n")

    def config(self, run: str, name: str, epsilon: float | str, limit: str, delta: str = "1e-5"):
        sites = "".join(f'\n[[sites]]\nname = "{s}"\nrows = [{ROWS}]\n' for s in ("here", "there"))
        head, _, options = RUNS[run].partition("\n[run.options]")
        (self.folder / f"{name}.toml").write_text(
            '[data]\nkind = "regression"\nfeatures = ["a", "b"]\ntarget = "y"\n'
            '[data.bounds]\nfeatures = { "*" = [-1, 1] }\ntarget = [-3, 3]\n'
            f"[run]\nepsilon = {epsilon}\n{head}\n" + (f"[run.options]{options}\n" if options else "") + sites
        )
        path = self.folder / f"site-{name}.toml"
        path.write_text(
            f'[site]\nname = "here"\nfederation = "{name}.toml"\nserver = "x:1"\nauthority = "a"\nkey = "k"\nstate = "{name}"\n'
            f'[data]\ntask = "task"\n[limit]\ndelta = {delta}\n{limit}\n'
        )
        return path

    def join(self, run: str, name: str, epsilon: float | str = 1.9, limit: str = "epsilon = 2.0", delta: str = "1e-5", **options):
        return prepare(self.config(run, name, epsilon, limit, delta), self.folder / "rows.csv", **options)

    @property
    def book(self):
        return Book(f"sqlite:///{self.folder / 'ledger.db'}")

    def spent(self, unit: str) -> float:
        (row,) = [r for r in self.book.accounts() if r.unit == unit]
        return self.book.spent(Key.of(row))[0]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize("second", ["curator", "record", "local", "add-remove"])
def test_a_limit_of_two_allows_one_task_level_run_of_nearly_two_and_then_nothing_else(place, second):
    assert place.join("local", "first").epsilon == pytest.approx(1.9, rel=1e-2)
    with pytest.raises(BudgetExceeded, match="account here"):
        place.join(second, "second")
    assert place.book.verify() == []


@pytest.mark.parametrize(
    "first, epsilon, second", [("curator", 1.9, "local"), ("curator", 1.9, "record"), ("add-remove", 1, "local")]
)
def test_the_order_of_runs_does_not_matter(place, first, epsilon, second):
    place.join(first, "first", epsilon)
    with pytest.raises(BudgetExceeded):
        place.join(second, "second")


def test_one_account_per_observer_and_unit_would_have_accepted_them(place, monkeypatch):
    """The twin, with the old rule: every run opens an account of its own sentence."""

    def old(book, name, limit, plan):
        observer = "server" if plan.budget.aggregation == "local" else "other-tasks"
        key = Key(name, plan.budget.unit.value, plan.budget.neighbours.value, observer)
        book.set_limit(key, limit["epsilon"], 1e-5)
        return key

    from taskveil.privacy.ledger import book, reach

    def only_its_own(self, account):
        return account.neighbours if (account.unit, account.observer) == (self.unit, self.observers[0]) else None

    monkeypatch.setattr(federation_site, "set_limits", old)
    monkeypatch.setattr(book, "carry_over", lambda transaction, key: None)
    only_named = staticmethod(lambda key, also=(): reach.Reach(key.unit, key.neighbours, (key.observer,)))
    monkeypatch.setattr(reach.Reach, "of", only_named)
    monkeypatch.setattr(reach.Reach, "relation", only_its_own)
    for run in ("local", "curator", "record"):
        place.join(run, run)


@pytest.mark.parametrize("limit", ["record_epsilon = 2.0", "", 'account = "us"'])
def test_a_run_without_a_guarantee_is_refused_by_any_limit(place, limit):
    """A limit for records alone, or for delta alone, let it through."""
    with pytest.raises(BudgetExceeded, match="no privacy guarantee"):
        place.join("local", "first", epsilon='"none"', limit=limit)


def test_a_limit_of_delta_zero_is_a_limit(place):
    """It was taken for no limit, and the run's own delta was used. Gaussian noise has no pure epsilon."""
    with pytest.raises(BudgetExceeded):
        place.join("local", "first", epsilon=0.5, limit="epsilon = 2.0", delta="0.0")
    assert {row.delta for row in place.book.accounts()} == {0.0}


def test_joining_another_run_with_the_state_of_the_first_changes_nothing(place):
    """The rows were prepared and written anew before the other plan was noticed."""
    place.join("local", "first", epsilon=0.5)
    before = (place.folder / "first" / "rows.npz").read_bytes()
    path = place.config("local", "first", 0.5, "epsilon = 2.0")
    (place.folder / "first.toml").write_text((place.folder / "first.toml").read_text().replace("[-1, 1]", "[-4, 4]"))
    with pytest.raises(DataError, match="another plan"):
        prepare(path, place.folder / "rows.csv")
    assert (place.folder / "first" / "rows.npz").read_bytes() == before


def test_a_record_level_run_leaves_the_limit_for_tasks_alone(place):
    place.join("record", "first")
    assert place.spent("task") == 0.0 and place.spent("record") > 1.5
    with pytest.raises(BudgetExceeded, match="record"):
        place.join("local", "second")


def test_records_may_have_a_limit_of_their_own(place):
    place.join("local", "first", limit="epsilon = 2.0\nrecord_epsilon = 5.0")
    place.join("record", "second", limit="epsilon = 2.0\nrecord_epsilon = 5.0")
    with pytest.raises(BudgetExceeded):
        place.join("curator", "third", limit="epsilon = 2.0\nrecord_epsilon = 5.0")


def test_answering_no_leaves_nothing_behind(place):
    asked = []
    assert place.join("local", "first", agree=lambda agreement: asked.append(agreement)) is None
    assert asked and not (place.folder / "ledger.db").exists() and not (place.folder / "first" / "run.json").exists()
    assert place.join("local", "first") is not None


def test_a_limit_lowered_in_site_toml_stops_the_run_it_was_agreed_for(place):
    """The site's next answer reads its files again, as every answer does."""
    place.join("local", "first")
    lowered = place.config("local", "first", 1.9, "epsilon = 1.0")
    file = load_site(lowered)
    federation = load_federation(file.federation)
    plan, state = federation.plan(), SiteState(file.state)
    account = ledger_account(file, state, plan, federation, state.agreed()["ledger_run"])
    with pytest.raises(BudgetExceeded, match="lowered"):
        account.commit(plan.releases[0])
    with pytest.raises(BudgetExceeded):
        place.join("curator", "second", epsilon=0.1, limit="epsilon = 1.0")


def test_site_toml_lowers_a_limit_in_a_shared_ledger_and_never_raises_it(place, tmp_path):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    Book(url).set_limit(Key("here", observer="server"), 3.0, 1e-5)
    place.join("local", "first", epsilon=0.5, limit=f'ledger = "{url}"\nepsilon = 9.0')
    assert Book(url).spent(Key("here", observer="server"))[1] == 3.0
    place.join("local", "second", epsilon=0.5, limit=f'ledger = "{url}"\nepsilon = 2.0')
    assert Book(url).spent(Key("here", observer="server"))[1] == 2.0


def test_a_site_that_only_had_an_account_against_the_server_keeps_its_history(place):
    """As version 0.1.0 left it after one run with aggregation 'local'."""
    from taskveil.privacy.events import Charge, GaussianEvent

    key = Key("here", observer="server")
    place.book.set_limit(key, 2.0, 1e-5)
    run = place.book.reserve(key, [Charge(GaussianEvent(2.6))], 1e-5)
    place.book.commit(key, run, "1/x", GaussianEvent(2.6))
    with pytest.raises(BudgetExceeded):
        place.join("curator", "now")


def test_a_new_state_folder_anywhere_is_no_new_limit(place, tmp_path_factory):
    """The ledger lay beside the state folder: a second run with its state elsewhere began at nothing."""
    place.join("local", "first")
    path = place.config("local", "second", 1.9, "epsilon = 2.0")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "state"
    path.write_text(path.read_text().replace('state = "second"', f'state = "{elsewhere}"'))
    with pytest.raises(BudgetExceeded, match="account here"):
        prepare(path, place.folder / "rows.csv")


def test_a_ledger_beside_an_old_state_folder_is_not_forgotten(place):
    place.join("local", "first")
    old = place.folder / "old"
    old.mkdir()
    (place.folder / "ledger.db").rename(old / "ledger.db")
    path = place.config("local", "second", 1.9, "epsilon = 2.0")
    path.write_text(path.read_text().replace('state = "second"', 'state = "old/second"'))
    with pytest.raises(DataError, match="move it to"):
        prepare(path, place.folder / "rows.csv")
    (old / "ledger.db").rename(place.folder / "ledger.db")
    with pytest.raises(BudgetExceeded):
        prepare(path, place.folder / "rows.csv")


def test_a_ledger_named_by_a_relative_path_is_one_ledger_wherever_the_command_is_started(place, monkeypatch, tmp_path_factory):
    """Each working folder had its own file, and its own limit."""
    limit = 'epsilon = 2.0\nledger = "sqlite:///ours.db"'
    file = load_site(place.config("local", "first", 1.9, limit))
    urls = set()
    for folder in (place.folder, tmp_path_factory.mktemp("other")):
        monkeypatch.chdir(folder)
        urls.add(federation_site.ledger_of(file))
    assert urls == {(f"sqlite:///{place.folder / 'ours.db'}", "here")}
