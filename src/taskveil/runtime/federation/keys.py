"""Certificates and node keys, made with `cryptography` when `taskveil serve --init` (or `join --init`) asks for them.

ca.crt, ca.key        the federation's own certificate authority; ca.key never leaves the server
server.crt, .key      the server's TLS certificate for its host names and addresses
NAME.key, NAME.pub    a site's key pair (P-384), with which Flower authenticates the node; NAME.key never leaves the site

Private keys are written with mode 0600 and never overwritten.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import stat
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from taskveil.checks import Name
from taskveil.errors import DataError
from taskveil.runtime.secure.keys import NodeIdentity, node_public
from taskveil.saved import read_bytes, total

YEARS = 2
CLOCK_SKEW = dt.timedelta(minutes=10)


def make_authority(folder: Path, name: str) -> None:
    """ca.crt and ca.key."""
    key = _new_key(folder / "ca.key")
    subject = _name(f"{name} federation authority")
    builder = _builder(subject, subject, key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    builder = builder.add_extension(_usage(sign_certificates=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    (folder / "ca.crt").write_bytes(_pem(builder.add_extension(identifier, False).sign(key, hashes.SHA384())))


def make_server_certificate(folder: Path, hosts: list[str]) -> None:
    """server.crt and server.key for these host names and addresses, signed by the authority in the same folder."""
    with total(f"the authority in {folder} (ca.crt, ca.key)"):
        authority = x509.load_pem_x509_certificate(read_bytes(folder / "ca.crt"))
        signer = serialization.load_pem_private_key(read_bytes(folder / "ca.key"), None)
    key = _new_key(folder / "server.key")
    names = x509.SubjectAlternativeName([_host(h) for h in dict.fromkeys([*hosts, "localhost", "127.0.0.1"])])
    builder = _builder(_name(hosts[0]), authority.subject, key.public_key())
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())  # type: ignore[arg-type]
    signed = builder.add_extension(issuer, False).sign(signer, hashes.SHA384())  # type: ignore[arg-type]
    (folder / "server.crt").write_bytes(_pem(signed))


def make_node_key(folder: Path, name: str) -> Path:
    """NAME.key and NAME.pub; returns the path of the public one."""
    Name().check("the name of a site", name)
    key = _new_key(folder / f"{name}.key", serialization.PrivateFormat.OpenSSH)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path = folder / f"{name}.pub"
    path.write_bytes(public)
    return path


def check_private(path: Path) -> None:
    """Refuse a private key that is missing, or that anybody but its owner can read."""
    try:
        mode = path.stat().st_mode
    except OSError:
        raise DataError(f"{path} is missing or cannot be read; a private key is expected there") from None
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} is no file; a private key is expected there")
    if mode & 0o077:
        raise DataError(f"{path} can be read or changed by others; a private key needs mode 600: chmod 600 {path}")


def site_identity(path: Path) -> NodeIdentity:
    """A site's own key; what is none is refused, before Flower tries it again and again."""
    check_private(path)
    try:
        return NodeIdentity(read_bytes(path))
    except Exception:
        raise DataError(f"{path} is not a site's private key without a password; `taskveil join --init` makes one") from None


def check_public(path: Path, site: str) -> bytes:
    """A site's public key; refuses what is none."""
    if not path.exists():
        raise DataError(f"site {site!r} has no public key: expected {path}; ask the site for its .pub file")
    try:
        return node_public(read_bytes(path))
    except Exception:
        raise DataError(f"{path} is not the public key of a site; ask site {site!r} for its .pub file") from None


def check_authority(path: Path) -> None:
    """Refuse what is not a certificate."""
    try:
        x509.load_pem_x509_certificate(read_bytes(path))
    except Exception:
        raise DataError(f"{path} is not a certificate; ask whoever runs the server for ca.crt") from None


def check_certificate(certificate: Path, authority: Path, key: Path) -> None:
    """Refuse a server certificate that is out of date, of another key, or not signed by this authority."""
    try:
        leaf = x509.load_pem_x509_certificate(read_bytes(certificate))
        root = x509.load_pem_x509_certificate(read_bytes(authority))
        leaf.verify_directly_issued_by(root)
    except Exception:
        raise DataError(
            f"{certificate.name} is not a certificate signed by {authority.name}; run `taskveil serve --init` again"
        ) from None
    try:
        own = serialization.load_pem_private_key(read_bytes(key), None).public_key()
    except Exception:
        own = None
    if own != leaf.public_key():
        raise DataError(f"{key.name} is not the private key of {certificate.name}; put it back, or make both anew")
    now = dt.datetime.now(dt.UTC)
    if not leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc:
        raise DataError(f"{certificate.name} is out of date; delete it and run `taskveil serve --init` again")


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + dt.timedelta(days=365 * YEARS))
    )


def _usage(sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=sign_certificates, crl_sign=sign_certificates, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _new_key(path: Path, form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP384R1())
    data = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise DataError(f"{path} exists; private keys are never overwritten. Move it away first.") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
