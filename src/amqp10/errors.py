"""Every error that amqp10 raises.

    AmqpError
    ├── LocalProtocolError        this side asked for something that the protocol forbids now
    ├── RemoteProtocolError       the peer broke the protocol; carries the condition we told it
    ├── EncodeError               a value has no AMQP encoding (also a ValueError)
    ├── DecodeError               bytes are not what they should be (also a ValueError)
    ├── Unsupported               the dialect or the peer cannot do that; nothing was written
    ├── FilterNotApplied          the peer does not filter as it was asked to; carries the filters
    ├── AuthenticationFailed      SASL ended without success
    ├── InsecureTransport         others could have read a secret: in the clear, or TLS with whoever answered
    ├── RedirectRefused           the peer sends us to a host that the user did not allow
    ├── ConnectionLost            the transport broke, or the peer fell silent
    │   └── HandshakeRefused      a proxy or WebSocket server answered with an HTTP status that says no
    ├── EndpointError             the peer (or we) ended an endpoint; carries the peer's error
    │   ├── ConnectionClosed
    │   ├── SessionEnded
    │   └── LinkDetached
    ├── TransactionError          a transaction could not be declared; carries the coordinator's error
    │   ├── TransactionRolledBack nothing of it happened
    │   └── TransactionInDoubt    it was to be committed, and whether it was is not known
    ├── RequestRefused            the peer does not declare, bind or delete what it was asked to; carries its error
    ├── ManagementError           a management operation failed; carries the status and the response
    ├── StoreError                the file of a store cannot be used: in use, damaged, or something else
    ├── DeliveryAborted           the sender gave up a delivery whose body was being read
    ├── DeliveryUncertain         a message was on its way when the link was lost: it arrived, or not
    ├── StaleDelivery             a delivery of a link that was lost since: the peer has the message again
    └── MessageNotAccepted        a delivery ended in an outcome other than accepted
        ├── MessageRejected
        ├── MessageReleased
        └── MessageModified

What *you* closed raises `anyio.ClosedResourceError`, and two tasks in one `receive()` raise
`anyio.BusyResourceError`: these two are the errors of the structured-concurrency world and stay so.
This module imports nothing of the package.
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
    """The root of every error of this package."""


class LocalProtocolError(AmqpError):
    """This side asked for something that the protocol forbids in the present state; nothing was written.

    `condition` is what a peer is told that cannot be answered for that reason (§2.8.15); None for none in particular.
    """

    condition: str | None = None


class RemoteProtocolError(AmqpError):
    """The peer broke the protocol.

    `condition` is the error condition that we closed, ended or detached with (§2.8.15 ff.).
    """

    def __init__(self, message: str, condition: str = "amqp:connection:framing-error") -> None:
        super().__init__(message)
        self.condition = condition

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.condition)


class EncodeError(AmqpError, ValueError):
    """The value has no AMQP encoding as it stands: wrong type, out of range, too long."""


class DecodeError(AmqpError, ValueError):
    """The bytes are not a valid encoding, or exceed a limit (`amqp:decode-error`)."""

    condition = "amqp:decode-error"


class Unsupported(AmqpError):
    """The dialect, or the peer as it presented itself, cannot do what was asked; nothing was written."""


class FilterNotApplied(AmqpError):
    """The peer attached the link but does not apply all of its filters (§3.5.8); the link was detached again.

    `filters` has those that it does not apply, by name, as they were sent.
    """

    def __init__(self, message: str, filters: Mapping[Any, Any] | None = None) -> None:
        super().__init__(message)
        self.filters: Mapping[Any, Any] = filters or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), dict(self.filters))


class AuthenticationFailed(AmqpError):
    """The login failed (§5.3.3.6), or a token ran out or could not be had.

    `code` is that of the login's outcome: 1 credentials refused, 2 system error, 3 permanent, 4 temporary; for a token
    that the peer refused it is 1, for a provider that gave none 4. None when no mechanism fitted, or the server could
    not prove itself.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.code)


class InsecureTransport(AmqpError):
    """Others could have read a secret: beyond loopback there is no TLS, or TLS with a server that was not checked.

    The secret was not sent.
    """


class RedirectRefused(AmqpError):
    """The peer sends the connection or a link to a host where the login may not go (`Reconnect.redirect_hosts`).

    Nothing was sent there. `host` is that host; `__cause__` has the peer's words, with all of `info`.
    """

    def __init__(self, message: str, host: str = "") -> None:
        super().__init__(message)
        self.host = host

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.host)


class ConnectionLost(AmqpError):
    """The transport broke, ended early, or the peer was silent for longer than the idle timeout."""


class HandshakeRefused(ConnectionLost):
    """An HTTP proxy, or the HTTP server before a WebSocket, refused; no AMQP was spoken.

    `status` is the HTTP status of the answer: 401 or 403 (not for you), 407 (the proxy wants a login), 404, 302, ...
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
    """An endpoint was ended: `condition`, `description` and `info` are the peer's, None or empty when it gave none."""


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
    """The file of a store cannot be used: it is in use, damaged, of another version, or something else."""


class DeliveryAborted(AmqpError):
    """The sender gave a delivery up before its end, while its body was read (§2.6.14); it is settled with that."""


class DeliveryUncertain(AmqpError):
    """A message was on its way when its link was lost, and the peer cannot say what became of it (§2.6.13).

    It may have been processed, or never have arrived. `__cause__` is what broke the link.
    """


class StaleDelivery(AmqpError):
    """The link that a delivery came on was lost since, and the peer did not resume it (§2.6.13).

    The outcome was not told: the peer delivers the message again, to whomever.
    """


class MessageNotAccepted(_ConditionError):
    """A message that was sent ended in an outcome other than accepted (§3.4).

    `outcome` is the outcome itself.
    """

    _no_reason = "the message was not accepted"

    def __init__(
        self,
        condition: str | None = None,
        description: str | None = None,
        info: Mapping[Any, Any] | None = None,
        outcome: object = None,
    ) -> None:
        super().__init__(condition, description, info)
        self.outcome = outcome

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.condition, self.description, dict(self.info), self.outcome)


class MessageRejected(MessageNotAccepted):
    """The receiver rejected the message as invalid (§3.4.3)."""

    _no_reason = "the receiver rejected the message without an error"


class MessageReleased(MessageNotAccepted):
    """The receiver did not and will not process the message (§3.4.4); RabbitMQ says so when it cannot route."""

    _no_reason = "the receiver released the message"


class MessageModified(MessageNotAccepted):
    """The receiver did not process the message, and changed it (§3.4.5); `outcome` has how."""

    _no_reason = "the receiver released the message as modified"


class TransactionError(_ConditionError):
    """The coordinator declared no transaction (§4.2); `condition` and `description` are its words."""

    _no_reason = "the coordinator declared no transaction"


class TransactionRolledBack(TransactionError):
    """Nothing of the transaction happened: the coordinator refused to commit it, or it ended before that (§4.3)."""

    _no_reason = "the transaction was rolled back"


class TransactionInDoubt(TransactionError):
    """The transaction was to be committed, and no answer came: all of it happened, or nothing (§4.3)."""

    _no_reason = "the transaction was to be committed, and no answer came"


class RequestRefused(_ConditionError):
    """The peer does not do what it was asked to: declare, bind, delete; `info` has the dialect's own `reply-code`."""

    _no_reason = "the peer refused without a reason"


class ManagementError(AmqpError):
    """A management operation did not succeed.

    Attributes:
        status: the status code, as HTTP has them: 404 for what is not there, 409 for what is there in another form;
            0 when the response has none.
        description: why, in the peer's words.
        response: the message.
    """

    def __init__(self, status: int, description: str, response: object = None) -> None:
        super().__init__(f"{status}: {description}" if description else str(status))
        self.status = status
        self.description = description
        self.response = response

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.description, self.response)
