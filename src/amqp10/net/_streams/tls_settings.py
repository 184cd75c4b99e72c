"""TLS settings from files, and the identity in a verified certificate."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from ..._arguments import checked, file_of
from .._url import check_host

MAX_PASSWORD: Final = 1024
"""The most octets of a key's password that `ssl` takes."""


@checked
@dataclass(frozen=True, slots=True)
class TLS:
    """TLS settings of a client or server.

    Attributes:
        ca: PEM file or directory of trusted authorities; None for the system's. On a server, clients must then present
            a certificate that one of them signed.
        certificate: PEM file of our own certificate, with its chain.
        key: PEM file of its key; None if it is in the certificate's file.
       pkcs12: a PKCS#12 file with certificate, key and chain, in place of `certificate` and `key`.
        password: the password of the key or the PKCS#12 file, at most 1024 octets in UTF-8; never shown.
        verify: verify the peer's certificate. If False, anybody can pose as the server, so a password by PLAIN or a
        token
            is sent only with `allow_insecure=True`, or to this machine.
        check_hostname: check that the certificate is for the host of the URL, by its subjectAltName.
        server_hostname: the name to check and to send (SNI), if it is not the URL's. It is also the virtual host of the
            open, unless `hostname` is set (§2.7.1: the two should agree).
        alpn: application protocols to offer or accept (RFC 7301), the preferred one first. AMQP needs none, but some
            gateways use them to tell protocols on one port apart.
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
        if self.pkcs12 is not None and (self.certificate is not None or self.key is not None):
            raise ValueError("give certificate and key, or pkcs12, not both")
        if self.key is not None and self.certificate is None:
            raise ValueError("a key needs a certificate: give both")
        if self.server_hostname is not None:
            check_host(self.server_hostname, "server_hostname")
        if self.password is not None:
            self._check_password(self.password)
        for name in self.alpn:
            if not (name.isascii() and 1 <= len(name) <= 255):
                raise ValueError(f"each name in alpn must have 1 to 255 ASCII characters, unlike {name!r:.80}")

    def _check_password(self, password: str) -> None:
        # Errors of Python, and those of `cryptography` about NUL above all, would show the password.
        octets = password.encode(errors="replace")
        if octets.decode() != password or len(octets) > MAX_PASSWORD:
            raise ValueError(f"password must be text of at most {MAX_PASSWORD} octets in UTF-8")
        if self.pkcs12 is not None and "\0" in password:
            raise ValueError("password must not have NUL: no PKCS#12 file can be opened with that")

    def client_context(self) -> ssl.SSLContext:
        """Return the context of a client.

        Raises:
            OSError: a file cannot be read; `ssl.SSLError`, a subclass, if a file has the wrong content.
            ValueError: the PKCS#12 file cannot be opened with `password`.
        """
        context = self._trusting(ssl.Purpose.SERVER_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.hostname_checks_common_name = False  # not a host name by any rule (RFC 9525 §2)
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
        """Return the context of a server.

        Raises:
            OSError, ValueError: as for `client_context`; ValueError also if no certificate is set.
        """
        if self.certificate is None and self.pkcs12 is None:
            raise ValueError("a server needs a certificate: give certificate and key, or pkcs12")
        context = self._trusting(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A client of TLS 1.2 could have the server do one costly handshake after the other. OpenSSL 3 refuses them.
        context.options |= ssl.OP_NO_RENEGOTIATION
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
            return ssl.create_default_context(purpose, cafile=_readable("ca", path))
        except ssl.SSLError as error:
            raise ssl.SSLError(error.errno, f"{path}: no certificates in PEM{_reason(error)}") from error

    def _load_own(self, context: ssl.SSLContext) -> None:
        if self.certificate is not None:
            _readable("certificate", self.certificate)
            if self.key is not None:
                _readable("key", self.key)
            try:
                # Always a password, so that OpenSSL does not ask for one on the terminal.
                context.load_cert_chain(self.certificate, self.key, self.password or "")
            except ssl.SSLError as error:
                files = f"{self.certificate} and {self.key}" if self.key is not None else f"{self.certificate}"
                raise ssl.SSLError(
                    error.errno,
                    f"{files}: not a certificate with its key in PEM, or another password{_reason(error)}",
                ) from error
        elif self.pkcs12 is not None:
            self._load_pkcs12(context, Path(self.pkcs12))

    def _load_pkcs12(self, context: ssl.SSLContext, path: Path) -> None:
        # Here, because importing X.509 takes a tenth of the start of a process, and few use PKCS#12.
        import tempfile

        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

        with file_of("pkcs12"):
            octets = path.read_bytes()
        password = self.password.encode() if self.password is not None else None
        try:
            store = load_pkcs12(octets, password)
        except ValueError as error:
            raise ValueError(f"{path}: not a PKCS#12 file, or another password") from error
        if store.key is None or store.cert is None:
            raise ValueError(f"{path} has no certificate with a key")
        # `ssl` reads keys only from files. This one is encrypted with a random password, and deleted at once.
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


def _readable(argument: str, path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path if it can be read, because errors of `ssl` do not name a missing file."""
    with file_of(argument), open(path, "rb"):
        return path


def _reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's word for the reason, in brackets; it does not always have one."""
    return f" ({error.reason})" if error.reason else ""


def end_point_of(certificate: bytes | None) -> bytes | None:
    """Return the hash of a server's certificate for channel binding (tls-server-end-point, RFC 5929 §4.1).

    The hash function is that of the certificate's signature, or SHA-256 in place of MD5 and SHA-1. None if the
    signature has no hash function (Ed25519), or the certificate cannot be read.
    """
    # Here, because only SASL mechanisms with channel binding need it.
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
    """Return the certificate, in DER, that a server presents with a context of `TLS.server_context`.

    `ssl` has no function for it, so a handshake in memory finds it. Such a context has only one certificate; a user's
    own context may have several, chosen by the client's SNI and algorithms.
    """
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = anyone.wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server, client):
        with suppress(ssl.SSLError):  # it needs more input, or a client's certificate
            side.do_handshake()
    try:
        return client.getpeercert(True)
    except ValueError:  # TLS 1.2 cannot finish without the client's certificate
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
    """Return the user named by a verified certificate, for SASL EXTERNAL; None if it has no such name, or several.

    Args:
        certificate: the result of `SSLSocket.getpeercert()`; None without a verified certificate.
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
    """Return one attribute of a distinguished name, with special characters escaped (RFC 4514 §2.4)."""
    text = "".join(f"\\{each}" if each in ',+"\\<>;=' else each for each in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    if text.endswith(" ") and len(text) > 1:
        text = f"{text[:-1]}\\ "
    return f"{_ATTRIBUTES.get(name, name)}={text}"
