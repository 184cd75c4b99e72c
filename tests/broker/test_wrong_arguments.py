"""What somebody is told who gives a broker something else than it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqp10 import TLS
from amqp10.broker import Broker, BrokerLimits
from amqp10.testing import CertificateAuthority


def test_tls(tmp_path: Path) -> None:
    """Files of a certificate are no settings of TLS: the error names the argument, its type, and what to give."""
    files: Any = CertificateAuthority(tmp_path).server()
    with pytest.raises(TypeError, match="tls must be a TLS or an SSLContext or None, not a CertificateFiles"):
        Broker(tls=files)
    Broker(tls=TLS(certificate=files.certificate, key=files.key))


def test_azure() -> None:
    """The content of a configuration file is no configuration: the error names what reads one."""
    config: Any = {"UserConfig": {"Namespaces": []}}
    with pytest.raises(TypeError, match=r"azure must be an AzureConfig or None, not a dict; AzureConfig.read"):
        Broker(azure=config)


def test_authority_below_a_directory_by_name(tmp_path: Path) -> None:
    """`tempfile` gives names of directories: an authority takes them as it takes paths."""
    assert CertificateAuthority(str(tmp_path)).client("ann").certificate.parent == tmp_path


@pytest.mark.parametrize("kind", ["queues", "topics", "exchanges", "bindings"])
def test_names_that_are_no_text(kind: str) -> None:
    """A name with a surrogate, as of an argument that was no UTF-8: with a store it once kept all connections away."""
    given: Any = {"queues": ["a\udcff"], "topics": ["a\udcff"], "exchanges": {"a\udcff": "topic"}}
    given["bindings"] = [("amq.topic", "a\udcff", "q")]
    with pytest.raises(ValueError, match=r"a name must be Unicode text, without surrogates, not 'a\\udcff'"):
        Broker(**{kind: given[kind]})


@pytest.mark.parametrize("kind", ["queues", "topics", "exchanges", "bindings"])
def test_names_that_are_too_long(kind: str) -> None:
    """Names at the start have the limit of those that peers create: `BrokerLimits.name`."""
    name = 6 * "é"
    given: Any = {"queues": {name: {}}, "topics": [name], "exchanges": {name: "topic"}}
    given["bindings"] = [("amq.topic", "a key has another limit", name)]
    with pytest.raises(ValueError, match=r"a name must have at most 11 octets, not 12"):
        Broker(**{kind: given[kind]}, limits=BrokerLimits(name=11))
    Broker(**{kind: given[kind]}, limits=BrokerLimits(name=12))
