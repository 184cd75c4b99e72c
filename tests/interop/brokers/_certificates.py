"""Certificates for the tests, made anew for each run: an authority, a server `localhost`, a client `client`."""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PASSWORD = "changeit"
NAMES = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)


class Authority:
    """Signs certificates and writes them into a folder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(self.key, name, x509.BasicConstraints(ca=True, path_length=0), authority=True)

    def issue(self, folder: Path, name: str, common_name: str, usage: x509.ObjectIdentifier) -> None:
        """Write name.pem, name.key and name.p12, all three for the same certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(key, common_name, x509.ExtendedKeyUsage([usage]))
        write_certificate(folder / f"{name}.pem", certificate)
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (folder / f"{name}.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(),
                key,
                certificate,
                [self.certificate],
                serialization.BestAvailableEncryption(PASSWORD.encode()),
            )
        )

    def _sign(
        self, key: ec.EllipticCurvePrivateKey, name: str, extension: x509.ExtensionType, *, authority: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(extension, critical=authority)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        elif name == "localhost":
            builder = builder.add_extension(x509.SubjectAlternativeName(NAMES), critical=False)
        return builder.sign(self.key, hashes.SHA256())


def write_certificates(folder: Path) -> None:
    """Write ca.pem, server.* and client.* into `folder`, and stranger.pem, an authority that signed nothing."""
    authority = Authority("amqp10 interop tests")
    write_certificate(folder / "ca.pem", authority.certificate)
    write_certificate(folder / "stranger.pem", Authority("somebody else").certificate)
    authority.issue(folder, "server", "localhost", ExtendedKeyUsageOID.SERVER_AUTH)
    authority.issue(folder, "client", "client", ExtendedKeyUsageOID.CLIENT_AUTH)


def write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_trust_store(folder: Path, java: str) -> None:
    """Write clients.p12, the authority as Java wants to have it: a PKCS#12 that says it is trusted (by keytool)."""
    keytool = shutil.which("keytool", path=str(Path(java).resolve().parent)) or "keytool"
    command = [keytool, "-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem", "-keystore", "clients.p12"]
    subprocess.run(
        [*command, "-storetype", "PKCS12", "-storepass", PASSWORD], cwd=folder, check=True, capture_output=True
    )
