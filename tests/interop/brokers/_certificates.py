"""Certificates for the brokers, made anew for each run, under the names that their configurations have for them."""

from __future__ import annotations

import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

from amqp10.testing import CertificateAuthority

PASSWORD = "changeit"


def write_certificates(folder: Path) -> None:
    """Write ca.pem, {server,client}.{pem,key,p12}, and stranger.pem, an authority that signed nothing."""
    authority = CertificateAuthority(folder, "amqp10 interop tests", lifetime=timedelta(days=2), password=PASSWORD)
    shutil.copy(authority.ca, folder / "ca.pem")
    shutil.copy(CertificateAuthority(folder, "somebody else").ca, folder / "stranger.pem")
    for name, files in (("server", authority.server()), ("client", authority.client("client"))):
        shutil.copy(files.certificate, folder / f"{name}.pem")
        shutil.copy(files.key, folder / f"{name}.key")
        shutil.copy(files.pkcs12, folder / f"{name}.p12")


def write_trust_store(folder: Path, java: str) -> None:
    """Write clients.p12, the authority as Java wants to have it: a PKCS#12 that says it is trusted (by keytool)."""
    keytool = shutil.which("keytool", path=str(Path(java).resolve().parent)) or "keytool"
    command = [keytool, "-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem", "-keystore", "clients.p12"]
    subprocess.run(
        [*command, "-storetype", "PKCS12", "-storepass", PASSWORD], cwd=folder, check=True, capture_output=True
    )
