"""taskveil declare: blanks by default, marked values with --look, and the kind of target asked where its type is a bad guess."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

from taskveil.cli.main import run
from taskveil.errors import DataError
from taskveil.tasks import PublicBounds

TABLE = ["--task", "site", "--target", "days"]


def call(*arguments):
    with pytest.raises(SystemExit) as stopped:
        run([str(a) for a in arguments])
    return int(stopped.value.code or 0)


@pytest.fixture
def visits(tmp_path):
    rng = np.random.default_rng(0)
    n = 120
    table = pd.DataFrame(
        {
            "site": np.repeat([f"s{i}" for i in range(12)], 10),
            'age, in "years"': rng.uniform(18.25, 94.75, n).round(2),
            "urgent": rng.random(n) < 0.5,
            "ward": rng.choice(["icu", "Hämatologie"], n),
            "days": rng.normal(7, 2, n).round(2),
            "died": rng.integers(0, 2, n),
            "out": rng.choice(["home", "ward"], n),
        }
    )
    path = tmp_path / "visits.csv"
    table.to_csv(path, index=False)
    return path


def test_a_draft_holds_no_value_and_its_blanks_are_refused_by_name(visits, tmp_path, capsys):
    draft = tmp_path / "bounds.toml"
    assert call("declare", visits, *TABLE, "--leave-out", "died,out", "-o", draft) == 0
    text = draft.read_text()
    assert not any(word in text for word in ("icu", "Hämatologie", "18.", "94."))
    assert set(tomllib.loads(text)) == {"target", "features", "levels"}
    with pytest.raises(DataError, match=r"blanks \('\?'\) in target, features.age.*levels.ward; fill them in"):
        PublicBounds.from_file(draft)
    assert call("fit", visits, *TABLE, "--leave-out", "died,out", "--bounds", draft) == 2
    assert "still has blanks" in capsys.readouterr().err
    assert call("declare", visits, *TABLE, "-o", draft) == 2, "a draft somebody filled in is not overwritten"


def test_a_filled_draft_serves_record_level_runs(visits, tmp_path):
    draft = tmp_path / "bounds.toml"
    reading = [visits, *TABLE, "--leave-out", "died,out"]
    call("declare", *reading, "-o", draft)
    filled = draft.read_text().replace('target = ["?", "?"]', "target = [0, 30]").replace('["?", "?"]', "[0, 120]")
    draft.write_text(filled.replace('["?"]', '["icu", "(other)"]'))
    assert call("fit", *reading, "--bounds", draft, "--unit", "record", "--method", "mean", "--json") == 0


def test_what_was_looked_at_is_marked_and_reaches_the_certificate(visits, tmp_path, capsys):
    draft = tmp_path / "bounds.toml"
    reading = [visits, *TABLE, "--leave-out", "died,out"]
    assert call("declare", *reading, "--look", "-o", draft) == 0
    bounds = PublicBounds.from_file(draft)
    assert set(bounds.looked_at) == {"target", 'features.age, in "years"', "levels.ward"}  # true or false needs no look
    assert bounds.levels["ward"] == ("Hämatologie", "icu")
    capsys.readouterr()
    assert call("fit", *reading, "--bounds", draft, "--json") == 0
    said = json.loads(capsys.readouterr().out)["certificate"]["assumptions"]
    assert sum("filled by looking at values" in text for text in said) == 3


def test_labels_are_drafted_and_looked_at_too(visits, capsys):
    assert call("declare", visits, "--task", "site", "--target", "out", "--features", "days") == 0
    assert 'classes = ["?"]' in capsys.readouterr().out
    assert call("declare", visits, "--task", "site", "--target", "out", "--features", "days", "--look") == 0
    drafted = tomllib.loads(capsys.readouterr().out)
    assert drafted["classes"] == ["home", "ward"] and "classes" in drafted["looked_at"]


def test_the_kind_is_announced_and_zeros_and_ones_are_asked_about(visits, capsys):
    features = ["--features", "urgent"]
    assert call("fit", visits, *TABLE, *features) == 0
    assert "target 'days': regression, by the type of the column; --kind changes that" in capsys.readouterr().err
    died = ["fit", visits, "--task", "site", "--target", "died", *features]
    assert call(*died) == 2
    assert "Say --kind classification or --kind regression" in capsys.readouterr().err
    assert call(*died, "--kind", "classification") == 0 and call(*died, "--positive", "1") == 0
    comparing = ["compare", *died[1:], "--methods", "local", "--epsilons", "none", "--repeats", "1"]
    assert call(*comparing, "--metric", "auc") == 0
    assert "target 'died': classification, by --metric auc; --kind changes that" in capsys.readouterr().err
    assert call(*comparing, "--loss", "huber") == 0
    assert "target 'died': regression, by --loss huber; --kind changes that" in capsys.readouterr().err
    assert call(*comparing) == 2


def test_features_only_bounds_for_records_are_refused_at_the_start(visits, tmp_path, capsys):
    bounds = tmp_path / "b.json"
    bounds.write_text(json.dumps({"features": {"*": [0, 120]}}))
    reading = ["fit", visits, *TABLE, "--leave-out", "died,out", "--unit", "record", "--method", "mean", "--bounds", bounds]
    assert call(*reading) == 2
    assert "Declare the target's range" in capsys.readouterr().err
    bounds.write_text(json.dumps({"features": {"*": [0, 120]}, "target": [0, 30]}))
    assert call(*reading) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('target = ["?", 3]', "blanks"),
        ("[features]\na = [1, 1]", "low < high"),
        ("[features]\na = [nan, 1]", "two numbers"),
        ("[features]\na = [inf, 1]", "two numbers"),
        ('looked_at = "age"', "must be a list"),
        ('classes = "yes"', "must be a list"),
    ],
)
def test_declarations_that_say_nothing_are_refused(tmp_path, text, words):
    path = tmp_path / "b.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        PublicBounds.from_file(path)
