"""A certificate authority for tests, which creates certificate files in milliseconds, valid for an hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from os import PathLike
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .._arguments import checked


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """One certificate with its key.

    Attributes:
        certificate, key: PEM files.
        pkcs12: a PKCS#12 file with both and the authority's certificate.
        password: the password of the PKCS#12 file; the PEM key is not encrypted.
    """

    certificate: Path
    key: Path
    pkcs12: Path
    password: str


@checked
class CertificateAuthority:
    """Creates signed certificates as files in a directory.

    Args:
        directory: an existing directory for the files.
        name: the authority's common name.
        lifetime: how long each certificate is valid.
        password: the password of each PKCS#12 file.

    Attributes:
        ca: the PEM file of the authority's own certificate, for `TLS(ca=...)`.
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        name: str = "amqp10 test authority",
        *,
        lifetime: timedelta = timedelta(hours=1),
        password: str = "changeit",
    ) -> None:
        self._directory = Path(directory)
        self._lifetime = lifetime
        self._password = password
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    key_cert_sign=True,
                    crl_sign=True,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .sign(self._key, hashes.SHA256())
        )
        self.ca: Path = self._directory / f"{name.replace(' ', '-')}.pem"
        self.ca.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def __repr__(self) -> str:
        return f"<CertificateAuthority in {self._directory}>"

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + self._lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )

    def server(self, *hosts: str) -> CertificateFiles:
        """Create a server certificate for names and addresses, by default localhost and the loopback addresses."""
        names = hosts or ("localhost", "127.0.0.1", "::1")
        return self._issue(names[0], names, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(self, name: str) -> CertificateFiles:
        """Create a client certificate; `name` is its common name, and so the user of SASL EXTERNAL."""
        return self._issue(name, (), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(self, name: str, hosts: tuple[str, ...], usage: x509.ObjectIdentifier) -> CertificateFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key()).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        stem = self._directory / f"{name.replace('/', '_')}-{certificate.serial_number:x}"
        password = self._password
        files = CertificateFiles(stem.with_suffix(".pem"), stem.with_suffix(".key"), stem.with_suffix(".p12"), password)
        files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        files.pkcs12.write_bytes(
            serialize_key_and_certificates(
                name.encode(), key, certificate, [self._certificate], BestAvailableEncryption(password.encode())
            )
        )
        return files


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
