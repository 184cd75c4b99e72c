"""The test kit: scripted peers, engine pairs, Hypothesis strategies, pytest fixtures.

- `BackgroundBroker`: the embedded broker in its own thread, for tests that anyio's plugin does not run;
- `BackgroundServiceBus`: an emulator of Azure Service Bus in its own thread, for Microsoft's SDKs;
- `BackgroundEventHubs`: an emulator of Azure Event Hubs in its own thread;
- `ScriptedPeer`: a peer over TCP or an in-memory stream that follows a script, however wrong;
- `FaultProxy`: a TCP proxy that cuts, stalls, delays and splits connections;
- `EngineScript`: a scripted peer of one engine, without I/O;
- `EnginePair`: a client and a server engine back to back, without I/O;
- `CertificateAuthority`: certificates for TLS tests, created on demand;
- the performatives of AMQP 1.0, for scripts to expect and send.

Hypothesis strategies for values and messages are in `amqp10.testing.strategies`, the only module that needs hypothesis.
The pytest fixtures `amqp_broker`, `service_bus`, `event_hubs` and `amqp_peer` are in the plugin `pytest_amqp10`, which
pytest finds by itself.
"""

from __future__ import annotations

from ..dialects.v1_0.wire.performatives import Attach as Attach
from ..dialects.v1_0.wire.performatives import Begin as Begin
from ..dialects.v1_0.wire.performatives import Close as Close
from ..dialects.v1_0.wire.performatives import Detach as Detach
from ..dialects.v1_0.wire.performatives import Disposition as Disposition
from ..dialects.v1_0.wire.performatives import End as End
from ..dialects.v1_0.wire.performatives import Flow as Flow
from ..dialects.v1_0.wire.performatives import Open as Open
from ..dialects.v1_0.wire.performatives import SaslChallenge as SaslChallenge
from ..dialects.v1_0.wire.performatives import SaslInit as SaslInit
from ..dialects.v1_0.wire.performatives import SaslMechanisms as SaslMechanisms
from ..dialects.v1_0.wire.performatives import SaslOutcome as SaslOutcome
from ..dialects.v1_0.wire.performatives import SaslResponse as SaslResponse
from ..dialects.v1_0.wire.performatives import Transfer as Transfer
from ._background import BackgroundAzure as BackgroundAzure
from ._background import BackgroundBroker as BackgroundBroker
from ._background import BackgroundEventHubs as BackgroundEventHubs
from ._background import BackgroundServiceBus as BackgroundServiceBus
from ._certificates import CertificateAuthority as CertificateAuthority
from ._certificates import CertificateFiles as CertificateFiles
from ._pair import EnginePair as EnginePair
from ._peer import ScriptedPeer as ScriptedPeer
from ._proxy import FaultProxy as FaultProxy
from ._script import EngineScript as EngineScript
from ._transcript import Frame as Frame
from ._transcript import PeerMismatch as PeerMismatch

__all__ = (
    "Attach",
    "BackgroundAzure",
    "BackgroundBroker",
    "BackgroundEventHubs",
    "BackgroundServiceBus",
    "Begin",
    "CertificateAuthority",
    "CertificateFiles",
    "Close",
    "Detach",
    "Disposition",
    "End",
    "EnginePair",
    "EngineScript",
    "FaultProxy",
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


def __dir__() -> tuple[str, ...]:
    return __all__
