"""tls-server-end-point (RFC 5929 §4.1): the hash that stands for TLS with a server's certificate."""

from __future__ import annotations

import hashlib
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from scramp.core import CBindData

from amqp10.net import TLS, end_point_of, shown_certificate
from amqp10.testing import CertificateAuthority

RSA = rsa.generate_private_key(65537, 2048)
OID = bytes.fromhex("2a864886f70d0101")
"""Where the signature algorithms of PKCS#1 are; 0b is SHA-256 with RSA, 05 is SHA-1, 04 is MD5."""


def certificate(key: Any, algorithm: Any, **how: Any) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
    )
    return builder.sign(key, algorithm, **how).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("signed", "used"),
    [
        (hashes.SHA224(), "sha224"),
        (hashes.SHA256(), "sha256"),
        (hashes.SHA384(), "sha384"),
        (hashes.SHA512(), "sha512"),
        (hashes.SHA3_256(), "sha3_256"),
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_the_hash_that_it_is_signed_with(signed: hashes.HashAlgorithm, used: str) -> None:
    """Of the whole certificate."""
    der = certificate(RSA, signed)
    assert end_point_of(der) == hashlib.new(used, der).digest()


def test_pss() -> None:
    """RSASSA-PSS says it in its parameters."""
    pss = padding.PSS(padding.MGF1(hashes.SHA384()), 48)
    der = certificate(RSA, hashes.SHA384(), rsa_padding=pss)
    assert end_point_of(der) == hashlib.sha384(der).digest()


@pytest.mark.parametrize("old", ["05", "04"], ids=["SHA-1", "MD5"])
def test_old_hashes(old: str) -> None:
    """SHA-256 in their place."""
    der = certificate(RSA, hashes.SHA256())
    assert der.count(OID + b"\x0b") == 2
    der = der.replace(OID + b"\x0b", OID + bytes.fromhex(old))
    assert end_point_of(der) == hashlib.sha256(der).digest()


@pytest.mark.parametrize("algorithm", [hashes.SHA256(), hashes.SHA512()], ids=lambda each: each.name)
def test_as_others_do(algorithm: hashes.HashAlgorithm) -> None:
    """`scramp` makes the same of it."""
    der = certificate(RSA, algorithm)
    assert end_point_of(der) == bytes(CBindData.from_der(der))


def test_none() -> None:
    """A signature without a hash function, no certificate, and what is none."""
    assert end_point_of(certificate(ed25519.Ed25519PrivateKey.generate(), None)) is None
    der = certificate(RSA, hashes.SHA256())
    for each in (None, b"", b"0", der[:-1], der.replace(OID + b"\x0b", OID + b"\x7f")):
        assert end_point_of(each) is None


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_shown(tmp_path: Path, mutual: bool, newest: ssl.TLSVersion) -> None:
    """Our own certificate, the first of its file; not to be had where clients show theirs first, in TLS 1.2."""
    authority = CertificateAuthority(tmp_path)
    files = authority.server("broker.example")
    pem = files.certificate.read_bytes()
    chain = tmp_path / "chain.pem"
    chain.write_bytes(files.key.read_bytes() + pem + authority.ca.read_bytes())
    ca = authority.ca if mutual else None
    for tls in (
        TLS(certificate=files.certificate, key=files.key, ca=ca),
        TLS(certificate=chain, ca=ca),
        TLS(pkcs12=files.pkcs12, password=files.password, ca=ca, alpn=["amqp"]),
    ):
        context = tls.server_context()
        context.maximum_version = newest
        shown = shown_certificate(context)
        if mutual and newest is ssl.TLSVersion.TLSv1_2:
            assert shown is None
        else:
            assert shown == ssl.PEM_cert_to_DER_cert(pem.decode())


def test_nothing_to_show() -> None:
    """A context without a certificate."""
    assert shown_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) is None
