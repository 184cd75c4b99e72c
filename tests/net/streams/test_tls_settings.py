"""TLS settings: what they make of files, what they refuse, and whom a certificate names."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from amqp10.net import TLS, CertificateName
from amqp10.net._streams.tls_settings import certificate_identity
from amqp10.testing import CertificateAuthority


def test_verifies_by_default() -> None:
    """Nothing said: the system's authorities, the name checked, TLS 1.2 at least."""
    context = TLS().client_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_verification_off() -> None:
    """In two steps: the name only, or everything."""
    context = TLS(check_hostname=False).client_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    context = TLS(verify=False).client_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_authorities(authority: CertificateAuthority) -> None:
    """A file, and only what is in it; or a directory."""
    context = TLS(ca=authority.ca).client_context()
    assert [dict(part[0] for part in one["subject"]) for one in context.get_ca_certs()] == [  # type: ignore[misc]
        {"commonName": "amqp10 test authority"}
    ]
    assert TLS(ca=authority.ca.parent).client_context().get_ca_certs() == []  # read when first needed


def test_server(authority: CertificateAuthority) -> None:
    """With authorities clients must show a certificate; without, they need none."""
    files = authority.server()
    assert TLS(certificate=files.certificate, key=files.key).server_context().verify_mode is ssl.CERT_NONE
    context = TLS(certificate=files.certificate, key=files.key, ca=authority.ca).server_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    with pytest.raises(ValueError, match="needs a certificate"):
        TLS(ca=authority.ca).server_context()


def test_no_other_handshakes(authority: CertificateAuthority) -> None:
    """A server refuses them to clients of TLS 1.2 with each version of OpenSSL: each costs it far more than them."""
    files = authority.server()
    assert TLS(certificate=files.certificate, key=files.key).server_context().options & ssl.OP_NO_RENEGOTIATION


def test_pkcs12_leaves_no_file(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key goes through a file for a moment, encrypted, and readable by nobody else."""
    files = authority.client("ann")
    seen: list[tuple[int, bytes]] = []
    load = ssl.SSLContext.load_cert_chain

    def spy(self: ssl.SSLContext, certfile: str, *args: Any, **kwargs: Any) -> None:
        seen.append((os.stat(certfile).st_mode & 0o777, Path(certfile).read_bytes()))
        load(self, certfile, *args, **kwargs)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    TLS(pkcs12=files.pkcs12, password=files.password).client_context()
    [(mode, pem)] = seen
    assert mode == 0o600
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in pem
    assert pem.count(b"BEGIN CERTIFICATE") == 2
    assert list(tmp_path.iterdir()) == []


def test_pkcs12_refused(authority: CertificateAuthority, tmp_path: Path) -> None:
    """Another password, or no PKCS#12 at all: one error, with the file's name and not the password."""
    files = authority.client("ann")
    for settings in (
        TLS(pkcs12=files.pkcs12, password="wrong"),
        TLS(pkcs12=files.pkcs12),
        TLS(pkcs12=files.certificate, password="wrong"),
    ):
        with pytest.raises(ValueError, match="not a PKCS#12 file, or another password") as caught:
            settings.client_context()
        assert "wrong" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"none\.p12"):
        TLS(pkcs12=tmp_path / "none.p12").client_context()


def test_encrypted_key(authority: CertificateAuthority, tmp_path: Path) -> None:
    """A key with a password; without it the load fails, rather than asking on the terminal."""
    files = authority.client("ann")
    key = load_pem_private_key(files.key.read_bytes(), None)
    encrypted = tmp_path / "ann.key"
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open")))
    TLS(certificate=files.certificate, key=encrypted, password="open").client_context()
    for password in ("wrong", None):
        with pytest.raises(ssl.SSLError, match=r"or another password$"):
            TLS(certificate=files.certificate, key=encrypted, password=password).client_context()


def test_missing_files(authority: CertificateAuthority, tmp_path: Path) -> None:
    """The error says which file is missing."""
    files = authority.client("ann")
    none = tmp_path / "none.pem"
    for settings in (TLS(ca=none), TLS(certificate=none), TLS(certificate=files.certificate, key=none)):
        with pytest.raises(FileNotFoundError, match=r"none\.pem"):
            settings.client_context()


def test_contradictions(authority: CertificateAuthority) -> None:
    """Two sources of a certificate, or a key without one."""
    with pytest.raises(ValueError, match="not both"):
        TLS(certificate="a", pkcs12="b")
    with pytest.raises(ValueError, match="needs a certificate"):
        TLS(key="a")


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"pkcs12": "a", "password": "open\0sesame"}, "NUL: no PKCS#12"),
        ({"pkcs12": "a", "password": "open\udc80sesame"}, "text of at most 1024 octets in UTF-8"),
        ({"certificate": "a", "password": "open\udc80sesame"}, "text of at most 1024 octets in UTF-8"),
        ({"certificate": "a", "password": "open sesame" * 100}, "text of at most 1024 octets in UTF-8"),
    ],
)
def test_passwords_that_cannot_be(settings: dict[str, Any], rule: str) -> None:
    """They are refused by their rule before a library shows them: one ends the task with the octets of the password."""
    with pytest.raises(ValueError, match=rf"^password .*{rule}") as caught:
        TLS(**settings)
    assert "sesame" not in repr(caught.value)
    assert caught.value.__context__ is None


def test_a_long_password(authority: CertificateAuthority, tmp_path: Path) -> None:
    """The longest that is taken opens a key, and so does one with NUL."""
    files = authority.client("ann")
    key = load_pem_private_key(files.key.read_bytes(), None)
    encrypted = tmp_path / "ann.key"
    for password in ("ö" * 511, "open\0sesame"):
        encryption = BestAvailableEncryption(password.encode())
        encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        TLS(certificate=files.certificate, key=encrypted, password=password).client_context()
        with pytest.raises((OSError, ValueError)):  # it is needed to the last character
            TLS(certificate=files.certificate, key=encrypted, password=password[:-1]).client_context()


@pytest.mark.parametrize("name", ["", "a" * 256, "ä"])
def test_names_of_protocols(name: str) -> None:
    """A name that ALPN cannot say is refused with the argument, not when it is too late (RFC 7301 §3.1)."""
    with pytest.raises(ValueError, match=r"each name in alpn must have 1 to 255 ASCII characters"):
        TLS(alpn=["amqp", name])


def test_repr_hides_the_password() -> None:
    """The files may be seen, the password not."""
    assert "secret" not in repr(TLS(pkcs12="a.p12", password="secret"))


@pytest.mark.parametrize(
    ("certificate", "identity"),
    [
        (None, None),
        ({}, None),
        ({"subject": ((("countryName", "X"),), (("commonName", "ann"),))}, "ann"),
        ({"subject": ((("commonName", "ann"),),), "subjectAltName": (("DNS", "h"),)}, "ann"),
        ({"subject": ((("commonName", "ann"),), (("commonName", "bob"),))}, None),
        ({"subject": (), "subjectAltName": (("IP Address", "::1"), ("email", "ann@h"))}, None),
        ({"subject": ((("commonName", ""),),), "subjectAltName": (("URI", "spiffe://ann"),)}, None),
        ({"subject": ((("organizationName", "X"),),)}, None),
    ],
)
def test_identity(certificate: dict[str, Any] | None, identity: str | None) -> None:
    """The common name, if there is one and no other."""
    assert certificate_identity(certificate) == identity


def test_identity_by_another_part() -> None:
    """Whoever runs the server says which part of a certificate names its user."""
    names = (("DNS", "h"), ("email", "ann@h"), ("URI", "spiffe://one"), ("URI", "spiffe://two"))
    subject = ((("organizationName", "a, b"),), (("commonName", "ann"), ("serialNumber", "7")))
    certificate = {"subject": subject, "subjectAltName": names}
    found = {part: certificate_identity(certificate, part) for part in get_args(CertificateName)}
    assert found == {
        "CN": "ann",
        "email": "ann@h",
        "DNS": "h",
        "URI": None,
        "subject": r"CN=ann+serialNumber=7,O=a\, b",
    }
    assert certificate_identity({"subject": ()}, "subject") is None
    assert certificate_identity({"subject": ((("commonName", " #\\ "),),)}, "subject") == r"CN=\ #\\\ "


@pytest.mark.parametrize(
    ("offered", "taken", "agreed"),
    [((), (), None), (("amqp",), (), None), ((), ("amqp",), None), (("x", "amqp"), ("amqp", "x"), "amqp")],
)
def test_alpn(authority: CertificateAuthority, offered: Any, taken: Any, agreed: str | None) -> None:
    """Both sides name protocols on demand, and the server's preference decides (RFC 7301)."""
    files = authority.server("localhost")
    there = TLS(certificate=files.certificate, key=files.key, alpn=taken).server_context()
    here = TLS(ca=authority.ca, alpn=offered).client_context()
    wires = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = here.wrap_bio(wires[0], wires[1], server_hostname="localhost")
    server = there.wrap_bio(wires[1], wires[0], server_side=True)
    for end in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert client.selected_alpn_protocol() == server.selected_alpn_protocol() == agreed


def test_alpn_is_several_names() -> None:
    """One string would be taken for its letters."""
    with pytest.raises(TypeError, match="alpn must be a sequence of str"):
        TLS(alpn="amqp")


def test_server_name_indication(authority: CertificateAuthority) -> None:
    """What is sent to the server is the name to check, nobody's address."""
    files = authority.server("inside.example")
    there = TLS(certificate=files.certificate, key=files.key).server_context()
    seen = []
    there.sni_callback = lambda connection, name, context: seen.append(name)
    wires = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = TLS(ca=authority.ca, server_hostname="inside.example")
    client = tls.client_context().wrap_bio(wires[0], wires[1], server_hostname=tls.server_hostname)
    server = there.wrap_bio(wires[1], wires[0], server_side=True)
    for end in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert seen == ["inside.example"]


def test_no_common_names(tmp_path: Path) -> None:
    """L12: a certificate says its hosts by subjectAltName (RFC 9525 §2); one that has only a common name is refused."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )
    named = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    for each, taken in ((named, True), (builder, False)):
        pem = tmp_path / f"{taken}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        pem.write_bytes(each.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM) + private)
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = TLS(ca=pem).client_context().wrap_bio(to_client, to_server, server_hostname="localhost")
        server = TLS(certificate=pem).server_context().wrap_bio(to_server, to_client, server_side=True)

        with nullcontext() if taken else pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            for side in (client, server, client, server):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
            assert client.version() is not None
