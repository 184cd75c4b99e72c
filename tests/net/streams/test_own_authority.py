"""The certificates that the page on TLS makes with `openssl` pass the strict checks of Python 3.13, on every Python."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from amqp10 import TLS

from ...kit.unavailable import unavailable

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "tls.md"


@pytest.mark.capability("TLS")
def test_made_by_openssl(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        unavailable("openssl is not installed")
    blocks = re.findall(r"```console\n(\$ openssl .*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        subprocess.run(["sh", "-ec", block.replace("$ ", "")], cwd=tmp_path, check=True, capture_output=True)
    ca = tmp_path / "ca.pem"
    server = TLS(ca=ca, certificate=tmp_path / "server.pem", key=tmp_path / "server.key").server_context()
    client = TLS(ca=ca, certificate=tmp_path / "me.pem", key=tmp_path / "me.key").client_context()
    for context in (server, client):
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (here, there):
        with pytest.raises(ssl.SSLWantReadError):
            side.do_handshake()
    here.do_handshake()  # raises if the certificate is not valid
    there.do_handshake()
    assert here.getpeercert()
    shown = there.getpeercert()
    assert shown is not None
    assert shown["subject"] == ((("commonName", "alice"),),)
