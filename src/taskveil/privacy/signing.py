"""Signatures on the folder of a run: Ed25519 over the name and hash of every file in it.

    NAME.key         private, PEM, mode 0600: `taskveil fit ... --sign NAME.key`
    NAME.pub         public, PEM: `taskveil certify DIR --key NAME.pub`
    signature.json   in the signed folder: files with their SHA-256, the public key, the signature

What is signed is the canonical JSON of the list of files. A signature proves that the holder of the key wrote exactly these
bytes; it says nothing about whether that person ran what is written there.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from taskveil.errors import DataError, OptionError
from taskveil.saved import read_bytes, read_json

SIGNATURE = "signature.json"
PURPOSE = "taskveil folder signature 1"


def make_key(name: str | Path) -> tuple[Path, Path]:
    """NAME.key and NAME.pub; an existing file is never overwritten."""
    name, secret = Path(name), Ed25519PrivateKey.generate()
    if name.name in ("", ".."):
        raise OptionError(f"a key needs a name of its own; got {str(name)!r}")
    private = secret.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    paths = name.with_name(name.name + ".key"), name.with_name(name.name + ".pub")
    for path in paths:  # both before either is written: half a pair is of no use
        if os.path.exists(path):
            raise OptionError(f"{path} exists; a key is never overwritten, choose another name")
    for path, content, mode in zip(paths, (private, _pem(secret.public_key())), (0o600, 0o644), strict=True):
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
        except OSError as error:
            raise OptionError(f"{path} cannot be written: {error.strerror}") from None
    return paths


def private_key(path: str | Path) -> Ed25519PrivateKey:
    """The key that signs; refused where others may read it."""
    path = Path(path)
    content = read_bytes(path)
    if path.stat().st_mode & 0o077:
        raise DataError(f"{path} can be read by others; a key that signs needs mode 0600: chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise DataError(f"{path} is not a private Ed25519 key; make one with `taskveil certify --make-key NAME`")
    return key


def public_key(path: str | Path) -> Ed25519PublicKey:
    """The key that checks."""
    key = _public(read_bytes(Path(path)))
    if key is None:
        raise DataError(f"{path} is not a public Ed25519 key; expected NAME.pub of `taskveil certify --make-key NAME`")
    return key


def sign_folder(folder: Path, key: Ed25519PrivateKey) -> Path:
    """Write signature.json over all files in the folder."""
    files = _hashes(folder)
    signature = key.sign(_message(files)).hex()
    path = folder / SIGNATURE
    document = {"files": files, "key": _pem(key.public_key()).decode(), "signature": signature}
    path.write_text(json.dumps(document, indent=1))
    return path


def signature_problems(folder: Path, key: Ed25519PublicKey | None) -> tuple[list[str], str | None]:
    """What is wrong with the signature, and the fingerprint of its key; no fingerprint: the folder is not signed.

    Without a `key` the one in the signature is taken: then the files are whole, but anybody may have signed them.
    """
    path = folder / SIGNATURE
    if not path.exists():
        return ([f"{SIGNATURE} is missing: this folder is not signed by that key"] if key is not None else []), None
    try:
        document = read_json(path)
        files, signature = dict(document["files"]), bytes.fromhex(document["signature"])
        named = _public(document["key"].encode())
    except (DataError, ValueError, KeyError, TypeError, AttributeError):
        return [f"{SIGNATURE} is damaged"], "unknown"
    signer = key or named
    if signer is None or named is None:
        return [f"{SIGNATURE} holds no public key"], "unknown"
    wrong = [] if _pem(named) == _pem(signer) else ["the folder was signed by another key"]
    try:
        signer.verify(signature, _message(files))
    except InvalidSignature:
        wrong.append("the signature is not of this key over this list of files")
    now = _hashes(folder)
    return wrong + [f"{name} was changed or removed after it was signed" for name in files if now.get(name) != files[name]], (
        fingerprint(named)
    )


def unsigned_files(folder: Path) -> list[str]:
    """Files that came after the signature (pages for other readers, for example)."""
    return sorted(set(_hashes(folder)) - set(read_json(folder / SIGNATURE)["files"]))


def fingerprint(key: Ed25519PublicKey) -> str:
    """A short name of a public key, to compare by eye."""
    return hashlib.sha256(_pem(key)).hexdigest()[:16]


def _hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / SIGNATURE)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _message(files: dict[str, Any]) -> bytes:
    return json.dumps([PURPOSE, sorted(files.items())], separators=(",", ":")).encode()


def _pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _public(content: bytes) -> Ed25519PublicKey | None:
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, TypeError):
        return None
    return key if isinstance(key, Ed25519PublicKey) else None
