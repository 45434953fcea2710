"""Keys are made once, kept from others, and refuse what is none."""

from __future__ import annotations

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
