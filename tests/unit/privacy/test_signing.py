"""Keys are made once, kept from others, and refuse what is none."""

from __future__ import annotations

import hashlib
import json

import pytest

from taskveil.errors import DataError, OptionError
from taskveil.privacy import signing


@pytest.fixture
def keys(tmp_path):
    return signing.make_key(tmp_path / "officer")


def test_a_private_key_is_written_for_its_owner_alone(keys):
    private, public = keys
    assert private.stat().st_mode & 0o777 == 0o600 and b"PRIVATE" not in public.read_bytes()


def test_a_key_is_never_overwritten(keys, tmp_path):
    before = keys[0].read_bytes()
    with pytest.raises(OptionError, match="never overwritten"):
        signing.make_key(tmp_path / "officer")
    assert keys[0].read_bytes() == before


def test_a_key_that_others_can_read_signs_nothing(keys):
    keys[0].chmod(0o640)
    with pytest.raises(DataError, match="chmod 600"):
        signing.private_key(keys[0])


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_refused(tmp_path, content):
    path = tmp_path / "x.pub"
    path.write_bytes(content)
    path.chmod(0o600)
    for read in (signing.public_key, signing.private_key):
        with pytest.raises(DataError, match="Ed25519"):
            read(path)


def test_a_public_key_does_not_sign_and_a_private_one_is_not_given_away(keys):
    keys[1].chmod(0o600)
    with pytest.raises(DataError, match="private Ed25519"):
        signing.private_key(keys[1])
    with pytest.raises(DataError, match="public Ed25519"):
        signing.public_key(keys[0])


def test_a_signature_covers_every_file_below_the_folder(keys, tmp_path):
    folder = tmp_path / "run"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a").write_text("1")
    signing.sign_folder(folder, signing.private_key(keys[0]))
    public = signing.public_key(keys[1])
    assert signing.signature_problems(folder, public) == ([], signing.fingerprint(public))
    (folder / "later").write_text("2")
    assert signing.signature_problems(folder, public)[0] == [] and signing.unsigned_files(folder) == ["later"]
    (folder / "deep" / "a").write_text("3")
    assert signing.signature_problems(folder, public)[0] == ["deep/a was changed or removed after it was signed"]


def forged_list(document, folder):
    """The forger brings the list of hashes up to date, and cannot sign it."""
    document["files"]["a"] = hashlib.sha256((folder / "a").read_bytes()).hexdigest()


def other_name(document, folder):
    """The signature is as it was; who signed is said otherwise."""
    document["key"] = signing.make_key(folder.parent / "forger")[1].read_text()


@pytest.mark.parametrize(("forge", "words"), [(forged_list, "not of this key over this list"), (other_name, "another key")])
def test_a_forged_signature_is_none(keys, tmp_path, forge, words):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a").write_text("epsilon 1")
    signed = signing.sign_folder(folder, signing.private_key(keys[0]))
    document = json.loads(signed.read_text())
    if forge is forged_list:
        (folder / "a").write_text("epsilon 0.1")
    forge(document, folder)
    signed.write_text(json.dumps(document))
    problems, _ = signing.signature_problems(folder, signing.public_key(keys[1]))
    assert len(problems) == 1 and words in problems[0]


def test_a_folder_without_a_signature_is_not_signed_by_a_key_that_is_given(keys, tmp_path):
    assert signing.signature_problems(tmp_path, None) == ([], None)
    assert "not signed by that key" in signing.signature_problems(tmp_path, signing.public_key(keys[1]))[0][0]


def test_a_key_somebody_wrote_in_the_meantime_is_not_overwritten(keys, monkeypatch):
    """Both names were free when they were looked at."""
    before = keys[0].read_bytes()
    monkeypatch.setattr(signing.os.path, "exists", lambda path: False)
    with pytest.raises(OptionError, match="cannot be written"):
        signing.make_key(keys[0].with_suffix(""))
    assert keys[0].read_bytes() == before
