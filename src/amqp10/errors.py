"""Every error that amqp10 raises.

    AmqpError
    ├── LocalProtocolError        this side tried something that the protocol forbids now
    ├── RemoteProtocolError       the peer broke the protocol; has the condition that we sent it
    ├── EncodeError               a value has no AMQP encoding (also a ValueError)
    ├── DecodeError               bytes are malformed (also a ValueError)
    ├── Unsupported               the dialect or the peer cannot do that; nothing was written
    ├── FilterNotApplied          the peer does not apply a filter; has the filters
    ├── AuthenticationFailed      SASL ended without success
    ├── InsecureTransport         others could have read a secret: no TLS, or TLS to an unchecked server
    ├── RedirectRefused           the peer redirects to a host that the user did not allow
    ├── ConnectionLost            the transport broke, or the peer fell silent
    │   └── HandshakeRefused      a proxy or WebSocket server refused with an HTTP status
    ├── EndpointError             an endpoint ended; has the peer's error
    │   ├── ConnectionClosed
    │   ├── SessionEnded
    │   └── LinkDetached
    ├── TransactionError          a transaction could not be declared; has the coordinator's error
    │   ├── TransactionRolledBack the coordinator rolled the transaction back
    │   └── TransactionInDoubt    it is unknown whether it was committed
    ├── RequestRefused            the peer refused to declare, bind or delete; has its error
    ├── ManagementError           a management operation failed; has the status and the response
    ├── StoreError                the file of a store cannot be used: in use, damaged, or something else
    ├── DeliveryAborted           the sender gave up a delivery whose body was being read
    ├── DeliveryUncertain         the link was lost before the outcome of a message arrived
    ├── StaleDelivery             a delivery of a link that was lost: the peer has the message again
    └── MessageNotAccepted        a delivery ended in an outcome other than accepted
        ├── MessageRejected
        ├── MessageReleased
        └── MessageModified

As everywhere in anyio, using an object after you closed it raises `anyio.ClosedResourceError`, and a second task in the
same `receive()` gets `anyio.BusyResourceError`. This module imports nothing from the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = (
    "AmqpError",
    "AuthenticationFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "DecodeError",
    "DeliveryAborted",
    "DeliveryUncertain",
    "EncodeError",
    "EndpointError",
    "FilterNotApplied",
    "HandshakeRefused",
    "InsecureTransport",
    "LinkDetached",
    "LocalProtocolError",
    "ManagementError",
    "MessageModified",
    "MessageNotAccepted",
    "MessageRejected",
    "MessageReleased",
    "RedirectRefused",
    "RemoteProtocolError",
    "RequestRefused",
    "SessionEnded",
    "StaleDelivery",
    "StoreError",
    "TransactionError",
    "TransactionInDoubt",
    "TransactionRolledBack",
    "Unsupported",
)


class AmqpError(Exception):
    """The base class of every error of this package."""


class LocalProtocolError(AmqpError):
    """This side tried something that the protocol forbids in the current state; nothing was written.

    `condition` is the error condition to send if the peer waits for an answer (§2.8.15), or None.
    """

    condition: str | None = None


class RemoteProtocolError(AmqpError):
    """The peer broke the protocol.

    `condition` is the error condition with which we closed, ended or detached (§2.8.15 ff.).
    """

    def __init__(self, message: str, condition: str = "amqp:connection:framing-error") -> None:
        super().__init__(message)
        self.condition = condition

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.condition)


class EncodeError(AmqpError, ValueError):
    """The value has no AMQP encoding: it has the wrong type, is out of range, or is too long."""


class DecodeError(AmqpError, ValueError):
    """The bytes are not a valid encoding, or exceed a limit (`amqp:decode-error`)."""

    condition = "amqp:decode-error"


class Unsupported(AmqpError):
    """The dialect or the peer cannot do what you asked; nothing was written."""


class FilterNotApplied(AmqpError):
    """The peer attached the link but does not apply all of its filters (§3.5.8). The client detached the link again.

    `filters` has the filters that were not applied, by name, as they were sent.
    """

    def __init__(self, message: str, filters: Mapping[Any, Any] | None = None) -> None:
        super().__init__(message)
        self.filters: Mapping[Any, Any] = filters or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), dict(self.filters))


class AuthenticationFailed(AmqpError):
    """The login failed (§5.3.3.6), or a token expired or could not be obtained.

    `code` is the SASL outcome: 1 credentials refused, 2 system error, 3 permanent, 4 temporary. A token that the peer
    refused has code 1, a provider that gave no token code 4. `code` is None if no mechanism fitted, or if the server
    could not prove its identity.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.code)


class InsecureTransport(AmqpError):
    """Others could have read a secret: the connection leaves this machine without TLS, or the server is unverified.

    The secret was not sent.
    """


class RedirectRefused(AmqpError):
    """The peer redirects to a host that is not among `Reconnect.redirect_hosts`.

    The client sent nothing there. `host` is the refused host, and `__cause__` is the peer's error with its whole
    `info`.
    """

    def __init__(self, message: str, host: str = "") -> None:
        super().__init__(message)
        self.host = host

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.host)


class ConnectionLost(AmqpError):
    """The transport broke or ended early, or the peer was silent for longer than the idle timeout."""


class HandshakeRefused(ConnectionLost):
    """An HTTP proxy or a WebSocket server refused the connection before any AMQP was sent.

    `status` is the HTTP status of the response: 401, 403, 407 (the proxy requires a login), 404, 302, ...
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status)


class _ConditionError(AmqpError):
    """An error with the fields of the AMQP `error` type (§2.8.14)."""

    def __init__(
        self, condition: str | None = None, description: str | None = None, info: Mapping[Any, Any] | None = None
    ) -> None:
        super().__init__(condition, description)
        self.condition = condition
        self.description = description
        self.info: Mapping[Any, Any] = info or {}

    def __str__(self) -> str:
        return ": ".join(part for part in (self.condition, self.description) if part) or self._no_reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.condition, self.description, dict(self.info))

    _no_reason = "no reason given"


class EndpointError(_ConditionError):
    """The peer ended an endpoint. `condition`, `description` and `info` are the peer's; None or empty if omitted."""


class ConnectionClosed(EndpointError):
    """The peer closed the connection (§2.7.9)."""

    _no_reason = "the peer closed the connection without an error"


class SessionEnded(EndpointError):
    """The peer ended the session (§2.7.8)."""

    _no_reason = "the peer ended the session without an error"


class LinkDetached(EndpointError):
    """The peer detached or refused the link (§2.7.7, §2.6.3)."""

    _no_reason = "the peer detached the link without an error"


class StoreError(AmqpError):
    """The file of a store cannot be used: it is in use, damaged, of another version, or not a store."""


class DeliveryAborted(AmqpError):
    """The sender aborted a delivery while its body was being read (§2.6.14). The delivery is settled."""


class DeliveryUncertain(AmqpError):
    """The link was lost before the outcome of a message arrived, and the peer cannot say what happened to it (§2.6.13).

    The message may have been processed, or may never have arrived. `__cause__` is the error that broke the link.
    """


class StaleDelivery(AmqpError):
    """The link of a delivery was lost, and the peer did not resume it (§2.6.13).

    The outcome did not reach the peer. The peer delivers the message again, to this receiver or another one.
    """


class MessageNotAccepted(_ConditionError):
    """The receiver gave a message an outcome other than accepted (§3.4).

    `outcome` is that outcome. `meaning` says what it means at this broker; empty if that is not known.
    """

    _no_reason = "the message was not accepted"
    meaning: str = ""

    def __init__(
        self,
        condition: str | None = None,
        description: str | None = None,
        info: Mapping[Any, Any] | None = None,
        outcome: object = None,
    ) -> None:
        super().__init__(condition, description, info)
        self.outcome = outcome

    def __str__(self) -> str:
        return "; ".join(part for part in (super().__str__(), self.meaning) if part)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.condition, self.description, dict(self.info), self.outcome)
        return type(self), fields, {"meaning": self.meaning}


class MessageRejected(MessageNotAccepted):
    """The receiver rejected the message as invalid (§3.4.3)."""

    _no_reason = "the receiver rejected the message without an error"


class MessageReleased(MessageNotAccepted):
    """The receiver did not and will not process the message (§3.4.4). RabbitMQ releases unroutable messages."""

    _no_reason = "the receiver released the message"


class MessageModified(MessageNotAccepted):
    """The receiver did not process the message, and modified it (§3.4.5). `outcome` has the modification."""

    _no_reason = "the receiver released the message as modified"


class TransactionError(_ConditionError):
    """The coordinator declared no transaction (§4.2). `condition` and `description` are the coordinator's."""

    _no_reason = "the coordinator declared no transaction"


class TransactionRolledBack(TransactionError):
    """The transaction had no effect: the coordinator refused to commit it, or the transaction ended before (§4.3)."""

    _no_reason = "the transaction was rolled back"


class TransactionInDoubt(TransactionError):
    """The commit got no answer: the whole transaction either took effect or was rolled back (§4.3)."""

    _no_reason = "the transaction was to be committed, and no answer came"


class RequestRefused(_ConditionError):
    """The peer refused to declare, bind or delete. `info` has the dialect's own `reply-code`."""

    _no_reason = "the peer refused without a reason"


class ManagementError(AmqpError):
    """A management operation failed.

    Attributes:
        status: the status code, with HTTP's meanings: 404 if the object does not exist, 409 if it exists with other
            properties; 0 if the response has no code.
        description: the reason, in the peer's words.
        response: the response message.
    """

    def __init__(self, status: int, description: str, response: object = None) -> None:
        super().__init__(f"{status}: {description}" if description else str(status))
        self.status = status
        self.description = description
        self.response = response

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.description, self.response)
