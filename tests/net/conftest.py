"""One certificate authority for all tests of the network."""

from __future__ import annotations

import pytest

from amqp10.testing import CertificateAuthority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """The authority that the tests trust."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """An authority that nobody trusts."""
    return CertificateAuthority(tmp_path_factory.mktemp("stranger"), "a stranger")
