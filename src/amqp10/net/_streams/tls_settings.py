"""TLS settings in the words of files, and what a verified certificate says of its owner."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from .._url import check_host


@dataclass(frozen=True, slots=True)
class TLS:
    """How to secure a connection (client), or what to show (server).

    Attributes:
        ca: PEM file or directory of the authorities to trust; None for the system's. On a server: clients must show a
            certificate that one of them signed.
        certificate: PEM file of our own certificate, with its chain.
        key: PEM file of its key; None if it is in the certificate's file.
        pkcs12: a PKCS#12 file with certificate, key and chain, in place of the two.
        password: of the key or the PKCS#12 file; never shown.
        verify: check the peer's certificate. False makes anybody the server, so that what others could read there,
            a password by PLAIN or a token, is sent only with `allow_insecure=True`, or to this machine.
        check_hostname: check that the certificate is for the host of the URL, by its subjectAltName.
        server_hostname: the name to check and to send (SNI), when it is not the URL's. It is then also the virtual
            host that the open asks for, unless a `hostname` says otherwise (§2.7.1: the two should agree).
        alpn: application protocols to offer or to take (RFC 7301), the preferred one first. AMQP needs none; some
            gateways tell protocols on one port apart by it.
    """

    ca: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    pkcs12: str | os.PathLike[str] | None = None
    password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True
    server_hostname: str | None = None
    alpn: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.alpn, str):
            raise ValueError(f"alpn must be a sequence of names, not the string {self.alpn!r}")
        if self.pkcs12 is not None and (self.certificate is not None or self.key is not None):
            raise ValueError("give certificate and key, or pkcs12, not both")
        if self.key is not None and self.certificate is None:
            raise ValueError("a key needs a certificate: give both")
        if self.server_hostname is not None:
            check_host(self.server_hostname, "server_hostname")

    def client_context(self) -> ssl.SSLContext:
        """Make the context of a client.

        Raises:
            OSError: a file cannot be read; `ssl.SSLError` (an OSError too) for one that is not what it should be.
            ValueError: the PKCS#12 file cannot be opened with that password.
        """
        context = self._trusting(ssl.Purpose.SERVER_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.hostname_checks_common_name = False  # which is no host's name by any rule (RFC 9525 §2)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif not self.check_hostname:
            context.check_hostname = False
        self._load_own(context)
        if self.alpn:
            context.set_alpn_protocols(list(self.alpn))
        return context

    def server_context(self) -> ssl.SSLContext:
        """Make the context of a server.

        Raises:
            OSError, ValueError: as for `client_context`; ValueError too when there is no certificate to show.
        """
        if self.certificate is None and self.pkcs12 is None:
            raise ValueError("a server needs a certificate: give certificate and key, or pkcs12")
        context = self._trusting(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        self._load_own(context)
        if self.alpn:
            context.set_alpn_protocols(list(self.alpn))
        return context

    def _trusting(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        if self.ca is None:
            return ssl.create_default_context(purpose)
        path = Path(self.ca)
        if path.is_dir():
            return ssl.create_default_context(purpose, capath=path)
        try:
            return ssl.create_default_context(purpose, cafile=_readable(path))
        except ssl.SSLError as error:
            raise ssl.SSLError(error.errno, f"{path}: no certificates in PEM ({error.reason})") from error

    def _load_own(self, context: ssl.SSLContext) -> None:
        if self.certificate is not None:
            _readable(self.certificate)
            if self.key is not None:
                _readable(self.key)
            try:
                # A password even where none is given, lest OpenSSL asks for one on the terminal.
                context.load_cert_chain(self.certificate, self.key, self.password or "")
            except ssl.SSLError as error:
                files = f"{self.certificate} and {self.key}" if self.key is not None else f"{self.certificate}"
                raise ssl.SSLError(
                    error.errno,
                    f"{files}: not a certificate with its key in PEM, or another password ({error.reason})",
                ) from error
        elif self.pkcs12 is not None:
            self._load_pkcs12(context, Path(self.pkcs12))

    def _load_pkcs12(self, context: ssl.SSLContext, path: Path) -> None:
        # Here, not above: to import X.509 is a tenth of the time in which a process starts, and few have PKCS#12.
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

        password = self.password.encode() if self.password is not None else None
        try:
            store = load_pkcs12(path.read_bytes(), password)
        except ValueError as error:
            raise ValueError(f"{path}: not a PKCS#12 file, or another password") from error
        if store.key is None or store.cert is None:
            raise ValueError(f"{path} has no certificate with a key")
        # `ssl` reads keys from files only: this one is encrypted with a password nobody else has, and gone at once.
        secret = os.urandom(24).hex()
        chain = [store.cert.certificate, *(other.certificate for other in store.additional_certs)]
        pem = b"".join(one.public_bytes(Encoding.PEM) for one in chain)
        pem += store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(secret.encode()))
        descriptor, name = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(pem)
            context.load_cert_chain(name, password=secret)
        finally:
            os.unlink(name)


def _readable(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path if it can be read: the errors of `ssl` do not say which file is missing."""
    with open(path, "rb"):
        return path


def end_point_of(certificate: bytes | None) -> bytes | None:
    """Return the hash of a server's certificate that stands for TLS with it (tls-server-end-point, RFC 5929 §4.1).

    It is by the hash function that the certificate is signed with, and by SHA-256 in place of MD5 and SHA-1. None where
    there is no such function (Ed25519), or the certificate cannot be read.
    """
    # Here, as only SASL mechanisms that bind themselves to TLS ask for it.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    try:
        algorithm = load_der_x509_certificate(certificate or b"").signature_hash_algorithm
        if algorithm is None:
            return None
        if isinstance(algorithm, hashes.MD5 | hashes.SHA1):
            algorithm = hashes.SHA256()
        digest = hashes.Hash(algorithm)
    except (ValueError, UnsupportedAlgorithm, InvalidVersion):
        return None
    digest.update(certificate or b"")
    return digest.finalize()


def shown_certificate(context: ssl.SSLContext) -> bytes | None:
    """Return the certificate, in DER, that a server shows with a context of `TLS.server_context`.

    `ssl` does not tell, so it is asked for by a handshake in memory. That is all that such a context can show; what a
    user has made may show several, by the client's name for the server and its algorithms.
    """
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = anyone.wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server, client):
        with suppress(ssl.SSLError):  # it wants to read, or waits for a client's certificate in vain
            side.do_handshake()
    try:
        return client.getpeercert(True)
    except ValueError:  # no handshake, as TLS 1.2 has none without the client's certificate
        return None


CertificateName = Literal["CN", "email", "DNS", "URI", "subject"]
"""The part of a certificate that names its user: see `certificate_identity`."""

_ATTRIBUTES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def certificate_identity(certificate: Mapping[str, Any] | None, part: CertificateName = "CN") -> str | None:
    """Return whom a verified certificate is for, as SASL EXTERNAL names users.

    A certificate that has no such name, or several, is nobody's: None.

    Args:
        certificate: what `SSLSocket.getpeercert()` gives; None without a verified one.
        part: "CN" for the subject's common name; "email", "DNS" or "URI" for an alternative name of that kind;
            "subject" for the whole subject, as in "CN=ann,O=example" (RFC 4514: the last attribute first).
    """
    if not certificate:
        return None
    subject = certificate.get("subject", ())
    if part == "subject":
        return ",".join("+".join(_attribute(*each) for each in several) for several in reversed(subject)) or None
    if part == "CN":
        found = [str(value) for several in subject for name, value in several if name == "commonName"]
    else:
        found = [str(value) for kind, value in certificate.get("subjectAltName", ()) if kind == part]
    return found[0] or None if len(found) == 1 else None


def _attribute(name: str, value: str) -> str:
    """Return one attribute of a distinguished name, with what is special in it escaped (RFC 4514 §2.4)."""
    text = "".join(f"\\{each}" if each in ',+"\\<>;=' else each for each in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    if text.endswith(" ") and len(text) > 1:
        text = f"{text[:-1]}\\ "
    return f"{_ATTRIBUTES.get(name, name)}={text}"
