"""The seal covers every value of all three files; a file that carries another one is named."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.privacy.seal import SEAL, broken_seals, is_sealed, seal_of

CERTIFICATE, MODEL = {"method": "mean"}, {"plan": {"rounds": 3}, "salt": "ab"}
ARRAYS = {"coef": np.arange(6.0).reshape(2, 3), "kept": np.array([True, False])}
NAMES = ("certificate.json", "model.json", "arrays.npz")
EDITS = {
    "certificate": ({"method": "subspace"}, MODEL, ARRAYS),
    "model": (CERTIFICATE, {**MODEL, "plan": {"rounds": 4}}, ARRAYS),
    "salt": (CERTIFICATE, {**MODEL, "salt": "ac"}, ARRAYS),
    "values": (CERTIFICATE, MODEL, {**ARRAYS, "coef": ARRAYS["coef"] + 1.0}),
    "shape": (CERTIFICATE, MODEL, {**ARRAYS, "coef": ARRAYS["coef"].reshape(3, 2)}),
    "type": (CERTIFICATE, MODEL, {**ARRAYS, "kept": ARRAYS["kept"].view(np.uint8)}),
    "name": (CERTIFICATE, MODEL, {"other": ARRAYS["coef"], "kept": ARRAYS["kept"]}),
}


def sealed():
    seal = seal_of(CERTIFICATE, MODEL, ARRAYS)
    return {**CERTIFICATE, SEAL: seal}, {**MODEL, SEAL: seal}, {**ARRAYS, SEAL: np.asarray(seal)}


@pytest.mark.parametrize("what", EDITS)
def test_any_edit_gives_another_seal(what):
    assert seal_of(*EDITS[what]) != seal_of(CERTIFICATE, MODEL, ARRAYS)


def test_the_file_with_another_seal_is_named():
    files = sealed()
    assert seal_of(*files) == files[0][SEAL] and broken_seals(*files, NAMES) == []
    assert broken_seals({**files[0], SEAL: "00"}, *files[1:], NAMES) == ["certificate.json"]
    assert broken_seals(files[0], files[1], ARRAYS, NAMES) == ["arrays.npz"]


def test_a_folder_counts_as_sealed_while_any_file_carries_a_seal():
    files = sealed()
    assert is_sealed(*files) and is_sealed(CERTIFICATE, files[1], ARRAYS) and not is_sealed(CERTIFICATE, MODEL, ARRAYS)
