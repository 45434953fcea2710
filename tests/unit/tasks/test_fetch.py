"""Fetching: originals rebuilt from the prepared files convert back to them; nothing wrong is ever stored.

The network is replaced by a function. Rebuilding needs the prepared files; without them tests are skipped.
"""

import gzip
import io
import json
import urllib.error
import zipfile

import numpy as np
import pytest

from taskveil.errors import DataError, EnvironmentMissing, UnknownName
from taskveil.tasks import catalogue, fetch, load_tasks
from taskveil.tasks.catalogue import DATASETS
from taskveil.tasks.files import read_npz
from taskveil.tasks.originals import CONVERTERS, _runs, _unique_names, har


def prepared(name):
    for path in catalogue.places(name):
        if path.is_file():
            return read_npz(path)
    pytest.skip(f"the data set {name} is not on this machine")


def by_task(z):
    return [(str(n), z["X"][z["task"] == i], z["y"][z["task"] == i]) for i, n in enumerate(z["task_names"])]


def school_files():
    from scipy.io import savemat

    cells = by_task(prepared("school"))
    X, Y = np.empty((1, len(cells)), dtype=object), np.empty((1, len(cells)), dtype=object)
    for i, (_, x, y) in enumerate(cells):
        X[0, i], Y[0, i] = x.astype(np.uint8), y.astype(np.uint8)[:, None]
    out = io.BytesIO()
    savemat(out, {"X": X, "Y": Y})
    return {"school.mat": out.getvalue()}


def heart_files():
    files = {}
    for name, x, y in by_task(prepared("heart")):
        rows = [[*("?" if np.isnan(v) else repr(float(v)) for v in r), str(t)] for r, t in zip(x, y, strict=True)]
        files[f"processed.{name}.data"] = "\n".join(",".join(r) for r in rows).encode()
    return files


def leaf(name, scale=1.0):
    parts = by_task(prepared(name))
    data = {n: {"x": (x.astype(float) / scale).tolist(), "y": y.astype(float).tolist()} for n, x, y in parts}
    return json.dumps({"users": [n for n, _, _ in parts], "user_data": data}).encode()


def femnist_files():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("mytest.json", leaf("femnist", 255.0))
    return {"mytest.json.zip": out.getvalue()}


def mnist_files():
    z = prepared("mnist_writers")
    back = np.argsort(z["mnist_index"])
    ids = np.asarray([int(str(n).removeprefix("writer_")) for n in z["task_names"]])
    lines = ["class\thsf\twriter\tdigit\tcode\tglobal\tdup\tunused"]
    for r in back:
        t = z["task"][r]
        lines.append(f"{z['y'][r]}\t{z['writer_hsf'][t]}\t{ids[t]}\t{r}\t0\t0\t0\t0")
    pack = {
        "train-images-idx3-ubyte.gz": bytes(16) + z["X"][back].tobytes(),
        "train-labels-idx1-ubyte.gz": bytes(8) + z["y"][back].astype(np.uint8).tobytes(),
        "qmnist-train-labels.tsv.gz": "\n".join(lines).encode(),
    }
    return {k: gzip.compress(v, 1) for k, v in pack.items()}


MAKERS = {
    "school": school_files,
    "heart": heart_files,
    "vehicle": lambda: {"mytrain.json": leaf("vehicle")},
    "femnist": femnist_files,
    "mnist_writers": mnist_files,
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "taskveil"


def network(name, files):
    answers = {url: files[file] for file, url in DATASETS.get(name).urls.items()}
    return lambda url: answers[url]


SLOW = ("femnist", "mnist_writers")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in MAKERS])
def test_an_original_becomes_the_prepared_data(name, cache, monkeypatch):
    z, get = prepared(name), network(name, MAKERS[name]())
    monkeypatch.delenv("TASKVEIL_DATA", raising=False)
    path = fetch.fetch(name, get=get)
    assert path == cache / name / f"{name}.npz"
    made = read_npz(path)
    for key in set(z) & set(made):
        np.testing.assert_array_equal(made[key], z[key])
    assert fetch.verify(name)
    assert load_tasks(name).n_rows == len(z["y"])
    assert "Terms:" in (path.parent / "SOURCE.txt").read_text()
    assert fetch.fetch(name, get=lambda url: pytest.fail("asked again")) == path


def test_a_changed_original_is_not_stored(cache):
    files = heart_files()
    files["processed.va.data"] = files["processed.va.data"].replace(b"1.0", b"0.0", 1)
    with pytest.raises(DataError, match="expected checksum; nothing was stored"):
        fetch.fetch("heart", get=network("heart", files))
    assert not list(cache.rglob("*.npz")) and not list(cache.rglob("*.part"))


@pytest.mark.parametrize("name", CONVERTERS)
def test_rubbish_is_not_stored(name, cache):
    with pytest.raises(DataError, match="nothing was stored"):
        fetch.fetch(name, get=lambda url: b"<html>moved</html>")
    assert not list(cache.rglob("*.npz"))


def test_offline_is_an_environment_error_that_says_what_to_do(cache, monkeypatch):
    def refuse(*a, **k):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(EnvironmentMissing, match=r"cannot reach raw\.githubusercontent\.com.*TASKVEIL_DATA") as caught:
        fetch.fetch("school")
    assert caught.value.exit_code == 4


def test_a_moved_original_is_an_environment_error(cache, monkeypatch):
    def gone(*a, **k):
        raise urllib.error.HTTPError("https://x", 404, "Not Found", {}, None)

    monkeypatch.setattr("urllib.request.urlopen", gone)
    with pytest.raises(EnvironmentMissing, match="answered 404"):
        fetch.fetch("heart")


class Answer(io.BytesIO):
    def __init__(self, body, length):
        super().__init__(body)
        self.headers = {"Content-Length": str(length)}


def test_downloads_report_progress_and_notice_an_early_end(monkeypatch):
    seen = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: Answer(b"x" * 100_000, 100_000))
    assert len(fetch.download("https://example.org/a", lambda *p: seen.append(p[1:]))) == 100_000
    assert seen[-1] == (100_000, 100_000)
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: Answer(b"x" * 10, 100))
    with pytest.raises(EnvironmentMissing, match="ended early"):
        fetch.download("https://example.org/a")


def test_an_endless_answer_is_cut(monkeypatch):
    monkeypatch.setattr(fetch, "LARGEST", 1000)
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: Answer(b"x" * 100_000, 100_000))
    with pytest.raises(DataError, match="larger than any original"):
        fetch.download("https://example.org/a")


def test_only_https_is_fetched():
    with pytest.raises(DataError, match="https only"):
        fetch.download("http://example.org/a")
    assert all(u.startswith("https://") for n in CONVERTERS for u in DATASETS.get(n).urls.values())


def test_an_unknown_name_is_refused_before_any_download():
    with pytest.raises(UnknownName):
        fetch.fetch("cifar", get=lambda url: pytest.fail("asked"))


def test_har_needs_its_published_counts(tmp_path):
    """A small archive in UCI's layout is read whole, then refused because it is not the published one."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("UCI HAR Dataset/features.txt", "1 a\n2 b\n")
        z.writestr("UCI HAR Dataset/activity_labels.txt", "1 WALKING\n2 SITTING\n")
        for part in ("train", "test"):
            root = f"UCI HAR Dataset/{part}"
            z.writestr(f"{root}/X_{part}.txt", "0.1 0.2\n0.3 0.4\n")
            z.writestr(f"{root}/y_{part}.txt", "1\n2\n")
            z.writestr(f"{root}/subject_{part}.txt", "1\n1\n")
            z.writestr(f"{root}/Inertial Signals/total_acc_x_{part}.txt", "1 2 3 4\n3 4 5 6\n")
    with pytest.raises(DataError, match="published counts"):
        har({"har.zip": out.getvalue()})


def test_har_runs_follow_overlapping_windows():
    signal = np.array([[1, 2, 3, 4], [3, 4, 5, 6], [9, 9, 7, 7], [7, 7, 1, 1], [1, 1, 2, 2]], dtype=float)
    seq, run = _runs(np.array([1, 1, 1, 1, 2]), np.zeros(5, dtype=int), signal)
    assert seq.tolist() == [0, 1, 2, 3, 0] and run.tolist() == [1, 1, 2, 2, 1]


def test_repeated_har_names_get_their_axis():
    assert _unique_names(["m", "e", "e", "e"]) == ["m", "e-X", "e-Y", "e-Z"]
