"""The test kit: peers that follow a script, engines back to back, strategies, fixtures.

- `ScriptedPeer`: a peer over TCP or an in-memory stream that says what the script says, however wrong;
- `EngineScript`: the same against one engine, without I/O;
- `EnginePair`: a client and a server engine back to back, without I/O;
- `CertificateAuthority`: certificates for TLS tests, made on the spot;
- the performatives of AMQP 1.0, for scripts to expect and to send.

Hypothesis strategies for values and messages are in `amqp10.testing.strategies`; they alone need hypothesis. The
pytest fixtures `amqp_broker` and `amqp_peer` come with the package by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# Loaded at first use: the pytest plugin lives in this package, and may cost nothing where pytest starts.
if TYPE_CHECKING:
    from ..dialects.v1_0._performatives import Attach as Attach
    from ..dialects.v1_0._performatives import Begin as Begin
    from ..dialects.v1_0._performatives import Close as Close
    from ..dialects.v1_0._performatives import Detach as Detach
    from ..dialects.v1_0._performatives import Disposition as Disposition
    from ..dialects.v1_0._performatives import End as End
    from ..dialects.v1_0._performatives import Flow as Flow
    from ..dialects.v1_0._performatives import Open as Open
    from ..dialects.v1_0._performatives import SaslChallenge as SaslChallenge
    from ..dialects.v1_0._performatives import SaslInit as SaslInit
    from ..dialects.v1_0._performatives import SaslMechanisms as SaslMechanisms
    from ..dialects.v1_0._performatives import SaslOutcome as SaslOutcome
    from ..dialects.v1_0._performatives import SaslResponse as SaslResponse
    from ..dialects.v1_0._performatives import Transfer as Transfer
    from ._certificates import CertificateAuthority as CertificateAuthority
    from ._certificates import CertificateFiles as CertificateFiles
    from ._pair import EnginePair as EnginePair
    from ._peer import ScriptedPeer as ScriptedPeer
    from ._script import EngineScript as EngineScript
    from ._transcript import Frame as Frame
    from ._transcript import PeerMismatch as PeerMismatch

__all__ = (
    "Attach",
    "Begin",
    "CertificateAuthority",
    "CertificateFiles",
    "Close",
    "Detach",
    "Disposition",
    "End",
    "EnginePair",
    "EngineScript",
    "Flow",
    "Frame",
    "Open",
    "PeerMismatch",
    "SaslChallenge",
    "SaslInit",
    "SaslMechanisms",
    "SaslOutcome",
    "SaslResponse",
    "ScriptedPeer",
    "Transfer",
)

_MODULES = {
    "CertificateAuthority": "_certificates",
    "CertificateFiles": "_certificates",
    "EnginePair": "_pair",
    "EngineScript": "_script",
    "Frame": "_transcript",
    "PeerMismatch": "_transcript",
    "ScriptedPeer": "_peer",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = _MODULES.get(name)
    home = f"{__name__}.{module}" if module else "amqp10.dialects.v1_0._performatives"
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
