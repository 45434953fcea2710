"""How the public originals of the built-in data sets become our arrays. Where their publishers keep them: catalogue.toml.

Each converter takes the downloaded files (name -> bytes) and returns the arrays X, y, task, task_names, ...
of the prepared file. What comes out is checked against a digest of the prepared arrays, so that neither a
changed file at the source nor a mistake here goes unnoticed. The one exception is `har`: the prepared file
holds features recomputed from the signals, the original holds the published ones; there the published counts
are checked.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping

import numpy as np

from taskveil.errors import DataError

Files = Mapping[str, bytes]
Arrays = dict[str, np.ndarray]


def content_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """sha256 over type, shape and values of X, y and task: the same for any way of storing them."""
    digest = hashlib.sha256()
    for name in ("X", "y", "task"):
        a = np.ascontiguousarray(arrays[name])
        if a.dtype.kind == "f":
            a = np.where(np.isnan(a), np.nan, a + 0.0).astype(a.dtype)  # one kind of NaN, one kind of zero
        digest.update(f"{name}:{a.dtype.str}:{a.shape}:".encode())
        digest.update(a.tobytes())
    return digest.hexdigest()


def school(files: Files) -> Arrays:
    """MALSAR's school.mat: cell arrays X and Y, one cell per school, stacked in order."""
    from scipy.io import loadmat

    mat = loadmat(io.BytesIO(files["school.mat"]))
    cells = [np.asarray(x, dtype=np.float64) for x in mat["X"].ravel()]
    scores = [np.asarray(y, dtype=np.float64).ravel() for y in mat["Y"].ravel()]
    return {
        "X": np.concatenate(cells),
        "y": np.concatenate(scores),
        "task": np.repeat(np.arange(len(cells), dtype=np.int32), [len(c) for c in cells]),
        "task_names": np.asarray([f"school_{i + 1}" for i in range(len(cells))]),
        "feature_names": np.asarray(SCHOOL_FEATURES),
    }


def heart(files: Files) -> Arrays:
    """UCI's four processed files: 13 columns and the diagnosis; ? and -9 mean missing."""
    rows, task = [], []
    for i, site in enumerate(HEART_SITES):
        text = files[f"processed.{site}.data"].decode("ascii", "replace")
        lines = [line for line in csv.reader(io.StringIO(text)) if line]
        rows += [[np.nan if c.strip() in ("?", "-9", "-9.0") else float(c) for c in line] for line in lines]
        task += [i] * len(lines)
    table = np.asarray(rows, dtype=np.float64)
    return {
        "X": np.ascontiguousarray(table[:, :13]),
        "y": table[:, 13].astype(np.int8),
        "task": np.asarray(task, dtype=np.int32),
        "task_names": np.asarray(HEART_SITES),
        "feature_names": np.asarray(HEART_FEATURES),
    }


def vehicle(files: Files) -> Arrays:
    """Ditto's JSON: users with x (100 numbers) and y (+1/-1)."""
    users, X, y, task = _leaf(json.loads(files["mytrain.json"]))
    return {"X": X.astype(np.float32), "y": y.astype(np.int8), "task": task, "task_names": np.asarray(users)}


def femnist(files: Files) -> Arrays:
    """PMTL's zipped LEAF JSON: x is k/255 exactly; stored as k."""
    with zipfile.ZipFile(io.BytesIO(files["mytest.json.zip"])) as z:
        name = next(n for n in z.namelist() if n.endswith(".json") and "__MACOSX" not in n)
        users, X, y, task = _leaf(json.loads(z.read(name)))
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return {
        "X": np.rint(X * 255).astype(np.uint8),
        "y": y.astype(np.int8),
        "task": task,
        "task_names": np.asarray([f"writer_{i:04d}" for i in range(len(users))]),
        "class_names": np.asarray([*"0123456789", *letters, *letters.lower()]),
    }


def mnist_writers(files: Files) -> Arrays:
    """MNIST's training images, ordered by QMNIST's writer ids and each writer's own digit index."""
    images = np.frombuffer(gzip.decompress(files["train-images-idx3-ubyte.gz"]), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress(files["train-labels-idx1-ubyte.gz"]), np.uint8, offset=8)
    text = gzip.decompress(files["qmnist-train-labels.tsv.gz"]).decode("ascii")
    lines = [line.split("\t") for line in text.splitlines()]
    if not lines[0][0].strip().isdigit():
        lines = lines[1:]
    series, writer, digit = (np.asarray([int(line[c]) for line in lines])[: labels.size] for c in (1, 2, 3))
    order = np.lexsort((digit, writer))
    ids, first, task = np.unique(writer[order], return_index=True, return_inverse=True)
    return {
        "X": images.reshape(-1, 784)[order],
        "y": labels[order].astype(np.int8),
        "task": task.astype(np.int32),
        "task_names": np.asarray([f"writer_{i}" for i in ids]),
        "writer_hsf": series[order][first].astype(np.int8),
        "mnist_index": order.astype(np.int32),
    }


def har(files: Files) -> Arrays:
    """UCI's archive (a zip inside a zip): 561 published features.

    Runs are found where windows overlap by half.
    """
    outer = zipfile.ZipFile(io.BytesIO(files["har.zip"]))
    inner = [n for n in outer.namelist() if n.endswith("UCI HAR Dataset.zip")]
    z = zipfile.ZipFile(io.BytesIO(outer.read(inner[0]))) if inner else outer
    both = [_har_part(z, part) for part in ("train", "test")]
    X, y, subject, signal = (np.concatenate(parts) for parts in zip(*both, strict=True))
    order = np.lexsort((np.arange(len(y)), y, subject))
    X, y, subject, signal = X[order], y[order], subject[order], signal[order]
    seq, run = _runs(subject, y, signal)
    names = [line.split()[1] for line in z.read("UCI HAR Dataset/features.txt").decode().splitlines() if line.strip()]
    activities = z.read("UCI HAR Dataset/activity_labels.txt").decode().split()[1::2]
    counts = np.bincount(y).tolist()
    if X.shape != (10_299, 561) or counts != HAR_COUNTS or np.unique(subject).size != 30:
        raise DataError("the downloaded har does not have its published counts (30, 10,299, 561); nothing was stored.")
    return {
        "X": X,
        "y": y,
        "task": (subject - 1).astype(np.int32),
        "task_names": np.asarray([f"subject_{i + 1}" for i in range(30)]),
        "feature_names": np.asarray(_unique_names(names)),
        "activity_names": np.asarray(activities),
        "seq": seq,
        "run": run,
    }


def _har_part(z: zipfile.ZipFile, part: str) -> tuple[np.ndarray, ...]:
    def numbers(path: str) -> np.ndarray:
        text = z.read(f"UCI HAR Dataset/{part}/{path}_{part}.txt")
        return np.loadtxt(io.BytesIO(text), dtype=np.float32, ndmin=1)

    y = numbers("y").astype(np.int8) - 1
    return numbers("X"), y, numbers("subject").astype(np.int64), numbers("Inertial Signals/total_acc_x")


def _runs(subject: np.ndarray, y: np.ndarray, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place within (subject, activity), and which contiguous run.

    a window starts with the half the last one ends on.
    """
    half = signal.shape[1] // 2
    fresh = np.ones(len(y), dtype=bool)
    fresh[1:] = (subject[1:] != subject[:-1]) | (y[1:] != y[:-1])
    joined = np.zeros(len(y), dtype=bool)
    joined[1:] = np.abs(signal[1:, :half] - signal[:-1, half:]).max(axis=1) < 1e-6
    seq, run = np.zeros(len(y), dtype=np.int16), np.zeros(len(y), dtype=np.int16)
    for i in range(len(y)):
        seq[i] = 0 if fresh[i] else seq[i - 1] + 1
        run[i] = 1 if fresh[i] else run[i - 1] + (not joined[i])
    return seq, run


def _unique_names(names: list[str]) -> list[str]:
    """UCI lists the bands-energy names three times, for the axes X, Y, Z in turn."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        if names.count(name) == 1:
            out.append(name)
            continue
        seen[name] = seen.get(name, 0) + 1
        out.append(f"{name}-{'XYZ'[seen[name] - 1]}")
    return out


def _leaf(document: dict[str, dict[str, dict[str, list[float]]]]) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """LEAF's layout: users in order, each with x and y."""
    users = [str(u) for u in document["users"]]
    parts = [document["user_data"][u] for u in users]
    X = np.concatenate([np.asarray(p["x"], dtype=np.float64) for p in parts])
    y = np.concatenate([np.asarray(p["y"], dtype=np.float64) for p in parts])
    task = np.repeat(np.arange(len(users), dtype=np.int32), [len(p["y"]) for p in parts])
    return users, X, y, task


SCHOOL_FEATURES = (
    *(f"year_{i}" for i in (1, 2, 3)),
    "pct_free_school_meals",
    "pct_vr_band_1_in_school",
    "student_gender_a",
    "student_gender_b",
    *(f"vr_band_code_{i}" for i in (1, 2, 3)),
    *(f"ethnic_group_{i}" for i in range(1, 12)),
    *(f"school_gender_{i}" for i in (1, 2, 3)),
    *(f"denomination_{i}" for i in (1, 2, 3)),
    "bias",
)
HEART_SITES = ("cleveland", "hungarian", "switzerland", "va")
HEART_FEATURES = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal")
HAR_COUNTS = [1722, 1544, 1406, 1777, 1906, 1944]
CONVERTERS: dict[str, Callable[[Files], Arrays]] = {
    "school": school, "heart": heart, "vehicle": vehicle, "femnist": femnist, "mnist_writers": mnist_writers, "har": har,
}  # fmt: skip
