"""SASL mechanisms (Part 5, and the RFC of each) of client and server: only challenge and response, no frames."""

from ._authenticator import Authenticator as Authenticator
from ._choose import bind_channel as bind_channel
from ._choose import choose as choose
from ._choose import from_credentials as from_credentials
from ._handshake import MAX_ROUNDS as MAX_ROUNDS
from ._handshake import ClientHandshake as ClientHandshake
from ._handshake import ServerHandshake as ServerHandshake
from ._mechanism import Challenge as Challenge
from ._mechanism import ClientExchange as ClientExchange
from ._mechanism import Failure as Failure
from ._mechanism import Mechanism as Mechanism
from ._mechanism import Refusal as Refusal
from ._mechanism import ServerExchange as ServerExchange
from ._mechanism import Step as Step
from ._mechanism import Success as Success
from ._oauth import OAuthBearer as OAuthBearer
from ._oauth import TokenVerifier as TokenVerifier
from ._oauth import XOAuth2 as XOAuth2
from ._plain import Anonymous as Anonymous
from ._plain import External as External
from ._plain import Mssbcbs as Mssbcbs
from ._plain import Plain as Plain
from ._prepare import prepare as prepare
from ._scram import SCRAM_MECHANISMS as SCRAM_MECHANISMS
from ._scram import SERVER_ITERATIONS as SERVER_ITERATIONS
from ._scram import ScramSha1 as ScramSha1
from ._scram import ScramSha1Plus as ScramSha1Plus
from ._scram import ScramSha256 as ScramSha256
from ._scram import ScramSha256Plus as ScramSha256Plus
from ._scram import ScramSha512 as ScramSha512
from ._scram import ScramSha512Plus as ScramSha512Plus
from ._secrets import Secrets as Secrets
from ._stored import StoredKeys as StoredKeys

__all__ = (
    "MAX_ROUNDS",
    "SCRAM_MECHANISMS",
    "SERVER_ITERATIONS",
    "Anonymous",
    "Authenticator",
    "Challenge",
    "ClientExchange",
    "ClientHandshake",
    "External",
    "Failure",
    "Mechanism",
    "Mssbcbs",
    "OAuthBearer",
    "Plain",
    "Refusal",
    "ScramSha1",
    "ScramSha1Plus",
    "ScramSha256",
    "ScramSha256Plus",
    "ScramSha512",
    "ScramSha512Plus",
    "Secrets",
    "ServerExchange",
    "ServerHandshake",
    "Step",
    "StoredKeys",
    "Success",
    "TokenVerifier",
    "XOAuth2",
    "bind_channel",
    "choose",
    "from_credentials",
    "prepare",
)


def __dir__() -> tuple[str, ...]:
    return __all__
