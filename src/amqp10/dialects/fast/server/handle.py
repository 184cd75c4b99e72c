"""A handle, at the server: what the client does with it becomes links.

handle-open producer          a receiving link to its destination; one without a name is the anonymous terminus
handle-send with a dest-name  a receiving link to the anonymous terminus, where the handle has a name
handle-consume                a sending link
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ...._machine import Machine
from ....engine import Dispatcher, Handlers, LinkTerms
from ....errors import RemoteProtocolError
from ....messaging import Error
from ....types import Symbol, UInt
from ..._kit.message.limits import MAX_PARTIAL, NO_ROOM, message_limit
from ..codes import BAD_CONTENTS, OK, BadContents, code_of
from ..message.destinations import PEER, QUEUE, TOPIC, link_properties, source_of, target_of, temporary_source
from ..message.from_head import payload_of
from ..restart import restart_terms
from ..states import HANDLE, HandleState, Step
from ..wire.command_table import Command
from ..wire.commands import (
    HandleBrowse,
    HandleCancel,
    HandleClose,
    HandleConsume,
    HandleCreated,
    HandleFlow,
    HandleOpen,
    HandlePrepare,
    HandleQuery,
    HandleReady,
    HandleReply,
    HandleSend,
    HandleUnget,
    MessageHead,
)
from ..wire.fragments import Assembly, read_head
from .browser import ServerBrowser
from .parents import ServerSessionEngine
from .receiver import ServerReceiver
from .sender import ServerSender, UnsubscribeLink

if TYPE_CHECKING:
    from ....errors import AmqpError
    from .parents import ServerLinkSession

MAX_WAITING: Final = 1000
"""Commands of one handle that may wait for the answer to an earlier command."""
_IN_TURN: Final = (HandleConsume, HandleCancel, HandleFlow, HandleUnget, HandleQuery, HandleBrowse)


_MANY_SHOWN: Final = 1 << 31
"""After this many message numbers on one handle, the next browser on the handle numbers from 1 again."""


class ServerHandle(Dispatcher, Machine[HandleState]):
    """See the module.

    Attributes:
        opening: the command that opened the handle.
        name: the name of its destination; the server chooses it for a temporary one.
        closing: the handle is closed, or this side has sent its close.
    """

    noun = "handle"
    transitions: ClassVar[dict[tuple[HandleState, Step], HandleState]] = HANDLE
    engine: ServerSessionEngine
    handlers: ClassVar[Handlers] = {
        HandleSend: "_receive_send",
        HandleConsume: "_receive_consume",
        HandleCancel: "_receive_cancel",
        HandleFlow: "_receive_flow",
        HandleUnget: "_receive_unget",
        HandleQuery: "_receive_query",
        HandleBrowse: "_receive_browse",
        HandlePrepare: "_receive_prepare",
        HandleReady: "_receive_ready",
    }

    def __init__(self, session: ServerLinkSession, opening: HandleOpen) -> None:
        self.session = session
        self.engine = session.engine
        self.opening = opening
        self.id: int = opening.handle_id
        self.name: str = opening.dest_name
        self.state = HandleState.OPEN
        self.closing: bool = False
        self.producer: ServerReceiver | None = None
        self.anonymous: ServerReceiver | None = None
        self.consumer: ServerSender | None = None
        self.browser: ServerBrowser | None = None
        self.paused: bool = False
        self.coming: Assembly | None = None  # the message that is still incomplete
        self._weight = 0  # the weight of `coming`
        self._backlog: deque[tuple[Command, bytes]] = deque()  # commands that wait for the answer to an earlier one

    def entered(self, state: HandleState) -> None:
        self.closing = state in (HandleState.CLOSE_SENT, HandleState.CLOSED)

    def begin(self) -> None:
        """Act on the command that opened the handle: refuse the handle, attach its link, or confirm it."""
        opening = self.opening
        if opening.service_type == PEER:
            self.refuse("amqp:not-implemented", "there is no service of peers")
        elif opening.service_type not in (QUEUE, TOPIC):
            self.refuse("amqp:invalid-field", f"there is no service of type {opening.service_type}")
        elif not (opening.producer or opening.consumer or opening.browser):
            self.refuse("amqp:invalid-field", "a handle is for a producer, a consumer or a browser")
        elif opening.temporary and opening.consumer:
            self.consumer = ServerSender(self, self._terms(source=temporary_source(opening)), None)
        elif opening.producer:
            self.producer = ServerReceiver(self, self._restartable(self._terms(target=target_of(opening))))
        else:
            self.reply(opening.confirm_tag)

    def _restartable(self, terms: LinkTerms) -> LinkTerms:
        """Return `terms`; if the client asked for a restart, let them ask the owner to keep incomplete messages."""
        requested = restart_terms(self.opening.options)
        if requested is None or not self.session.restartable or self.opening.temporary or not self.name:
            return terms
        target = target_of(self.opening)
        target.expiry_policy, target.timeout = "connection-close", UInt(requested[1])
        return replace(terms, name=requested[0], target=target, unsettled={})

    def _terms(self, **termini: Any) -> LinkTerms:
        name = self.opening.options.get("name")
        own = name if isinstance(name, str) and name else f"handle-{self.id}"
        return LinkTerms(name=own, settle_mode="mixed" if "target" in termini else "unsettled", **termini)

    def opened(self, created: str | None) -> None:
        """Confirm that the handle is open, now that its link is attached.

        A temporary destination to send to and consume from needs a second link, which is attached first.

        Args:
            created: the name that a temporary destination was given; None for any other destination.
        """
        if created is not None:
            self.name = created
            self.engine.write(HandleCreated(handle_id=self.id, dest_name=created))
        opening = self.opening
        if opening.temporary and opening.consumer and opening.producer and self.producer is None:
            self.producer = ServerReceiver(self, self._terms(target=target_of(opening, name=self.name)))
        else:
            self.reply(opening.confirm_tag)

    def reply(self, tag: int, error: Error | None = None, code: int | None = None) -> None:
        """Reply with the result of a command, unless `tag` is 0: then the client asked for no reply."""
        if tag and not self.closing and not self.engine.close_sent:
            default, text = code_of(error)
            self.engine.write(
                HandleReply(handle_id=self.id, confirm_tag=tag, reply_code=code or default, reply_text=text)
            )

    # What comes

    def receive(self, command: Any, content: bytes) -> None:
        """Take a command of the client for this handle."""
        if isinstance(command, HandleClose):
            self._receive_close()
        elif self.state is not HandleState.OPEN or self.session.closing:
            return
        elif self._waits and (isinstance(command, _IN_TURN) or self._uncreated):
            self._backlog.append((command, content))
            if len(self._backlog) > MAX_WAITING:
                self.refuse("amqp:resource-limit-exceeded", f"{MAX_WAITING} commands wait for the answer to one")
        else:
            self.by_type[type(command)](self, command, content)

    @property
    def _waits(self) -> bool:
        """Return whether the consumer or browser is not attached yet, or its list of messages is not complete yet."""
        return any(link is not None and (link.terms is None or link.lists) for link in (self.consumer, self.browser))

    @property
    def _uncreated(self) -> bool:
        """Return whether the temporary queue that the handle sends to still has to be created."""
        return self.opening.producer and self.producer is None

    def go_on(self) -> None:
        """Take the commands that waited for an answer which has now come."""
        while self._backlog and self.state is HandleState.OPEN and not self._waits:
            command, content = self._backlog.popleft()
            self.by_type[type(command)](self, command, content)

    def _receive_send(self, command: HandleSend, content: bytes) -> None:
        if not self.opening.producer:
            self.refuse("amqp:not-allowed", "the handle is not a producer's")
        elif command.out_of_band or command.streaming:
            self.refuse("amqp:not-implemented", "there are no messages out of band, and no streams")
        elif self.session.sending not in (None, self):
            self.session.fault("amqp:illegal-state", "a message began before the last fragment of another's")
        else:
            try:
                self._take(command, content)
            except RemoteProtocolError as error:
                bad = isinstance(error, BadContents)
                self.close(Error(error.condition, str(error)), BAD_CONTENTS if bad else None)

    def _take(self, command: HandleSend, content: bytes) -> None:
        assembly = self.coming
        if assembly is None and command.recovery:
            raise RemoteProtocolError("a fragment of a message that was not prepared", "amqp:illegal-state")
        if assembly is None:
            head, content = read_head(content)
            assembly = Assembly(head)
            self._check_size(head)
        assembly.add(content)
        self._keep(assembly if command.partial else None)
        if not command.partial:
            name = self.name + command.dest_name
            link = self._producer(command.dest_name)
            try:
                payload, number = payload_of(
                    assembly,
                    mime_type=self.opening.mime_type,
                    encoding=self.opening.encoding,
                    to=(name or None) if link.anonymous else None,
                )
            except BadContents as error:
                if not (assembly.kept and command.confirm_tag):
                    raise
                self.reply(command.confirm_tag, Error(error.condition, str(error)), BAD_CONTENTS)
                return
            if self.session.transacted:
                self.session.post(link, payload, number)
                self.reply(command.confirm_tag)
            else:
                link.take(payload, number, command.confirm_tag)

    def _keep(self, assembly: Assembly | None) -> None:
        """Keep `assembly` as the incomplete message of this handle; None if no message is incomplete.

        Incomplete messages of one connection may have `MAX_PARTIAL` octets together; a single one may have more.

        Raises:
            RemoteProtocolError: together they have more, or those of all connections have no room.
        """
        self.coming = assembly
        self.session.sending = self if assembly is not None else None
        others = self.engine.partial - self.engine.uncommitted - self._weight
        weight = assembly.weight if assembly is not None else 0
        fits = self.engine.count_partial(weight - self._weight)
        self._weight = weight
        if not fits:
            raise RemoteProtocolError(NO_ROOM, "amqp:resource-limit-exceeded")
        if assembly is not None and others and others + weight > MAX_PARTIAL:
            raise RemoteProtocolError(
                f"more than {MAX_PARTIAL} octets of incomplete messages", "amqp:resource-limit-exceeded"
            )

    def _check_size(self, head: MessageHead) -> None:
        terms = self.producer.terms if self.producer is not None else None
        limit = message_limit(terms.max_message_size if terms is not None else None)
        if head.body_size > limit:
            raise RemoteProtocolError(
                f"a message of {head.body_size} octets exceeds the limit of {limit}", "amqp:link:message-size-exceeded"
            )

    def _producer(self, suffix: str) -> ServerReceiver:
        """Return the link for a message whose destination is the handle's name followed by `suffix`."""
        assert self.producer is not None
        if not suffix or self.producer.anonymous:
            return self.producer
        if self.anonymous is None:
            self.anonymous = ServerReceiver(self, self._terms(target=target_of(self.opening, name="")))
        return self.anonymous

    def _receive_consume(self, command: HandleConsume, content: bytes) -> None:
        if not self.opening.consumer:
            self.refuse("amqp:not-allowed", "the handle is not a consumer's")
        elif not command.prefetch:
            self.refuse("amqp:invalid-field", "a prefetch is 1 at least")
        elif self.consumer is not None:
            self.consumer.consume(command)
        else:
            try:
                source = source_of(self.opening, command)
            except UnicodeDecodeError:
                self.refuse("amqp:invalid-field", "the selector is no text")
                return
            terms = self._terms(source=source, properties=link_properties(self.opening))
            if command.identifier:
                terms = replace(terms, name=command.identifier)
            self.consumer = ServerSender(self, terms, command)

    def _receive_cancel(self, command: HandleCancel, content: bytes) -> None:
        if self.consumer is not None:
            self.consumer.leave(True, None)
            self.consumer = None
        elif command.identifier:
            words = self._terms(source=temporary_source(self.opening)).source
            assert words is not None
            terms = LinkTerms(name=command.identifier, desired_capabilities=words.capabilities)
            self.consumer = UnsubscribeLink(self, terms, command.confirm_tag)
            return
        self.reply(command.confirm_tag)

    def _receive_flow(self, command: HandleFlow, content: bytes) -> None:
        self.paused = command.flow_pause
        if self.consumer is None:
            self.reply(command.confirm_tag)
        else:
            self.consumer.flow(command)

    def _receive_unget(self, command: HandleUnget, content: bytes) -> None:
        if self.consumer is not None:
            self.consumer.unget(command.message_nbr)
        self.reply(command.confirm_tag)

    def _receive_query(self, command: HandleQuery, content: bytes) -> None:
        if not (self.opening.browser or self.opening.consumer):
            self.refuse("amqp:not-allowed", "the handle is not a browser's")
            return
        browser = self.browser
        if browser is None or (not command.message_nbr and browser.terms is not None):
            try:
                source = source_of(self.opening, command)
            except UnicodeDecodeError:
                self.refuse("amqp:invalid-field", "the selector is no text")
                return
            last = 0
            if browser is not None:
                last = browser.last if browser.last < _MANY_SHOWN else 0
                browser.leave(True, None)
            terms = LinkTerms(name=f"browser-{self.id}-{last}", source=source, settle_mode="settled")
            browser = self.browser = ServerBrowser(self, terms, last=last)
        browser.list_after(command.message_nbr)

    def _receive_browse(self, command: HandleBrowse, content: bytes) -> None:
        if self.browser is None:
            self.refuse("amqp:illegal-state", "nothing was listed")
        else:
            self.browser.browse(command)

    def _receive_prepare(self, command: HandlePrepare, content: bytes) -> None:
        """Answer how much of a message is here: the part kept from an earlier attempt, or the part sent along."""
        if self.producer is None or self.coming is not None:
            self.refuse("amqp:illegal-state", "a message is prepared by a producer, and none while one comes in")
            return
        try:
            head, part = read_head(content)
            self._check_size(head)
            kept = self.producer.prepared(head.write())
            assembly = kept if kept is not None else Assembly(head)
            assembly.kept = kept is not None
            if kept is None:
                assembly.add(part)
            self._keep(assembly)
        except RemoteProtocolError as error:
            self.refuse(error.condition, str(error))
            return
        assembly.content_hash = command.content_hash
        self.engine.write(HandleReady(handle_id=self.id, message_size=assembly.size))

    def _receive_ready(self, command: HandleReady, content: bytes) -> None:
        """Pass on the client's answer of how much of a message it has."""
        if self.consumer is None or not self.consumer.ready(command.message_size):
            raise RemoteProtocolError(
                "a handle-ready that answers no handle-prepare, or for more octets than the body has",
                "amqp:illegal-state",
            )

    # Ending

    @property
    def links(self) -> list[ServerReceiver | ServerSender]:
        """Return the links that the handle has now."""
        links = (self.producer, self.anonymous, self.consumer, self.browser)
        return [link for link in links if link is not None]

    @property
    def holding(self) -> bool:
        """Return whether messages wait for credit, or a commit is under way."""
        return self.session.committing or any(
            link.holding for link in (self.producer, self.anonymous) if link is not None
        )

    def refuse(self, condition: str, description: str) -> None:
        """Close the handle with an error, because the client did what is not allowed."""
        self.close(Error(Symbol(condition), description))

    def unsubscribed(self) -> None:
        """Forget the consumer, whose subscription is over."""
        self.consumer = None

    def close(self, error: Error | None, reply_code: int | None = None) -> None:
        """Close the handle from this side; commands that still arrive for it are dropped.

        Args:
            reply_code: replaces the reply code of `error`.
        """
        if self.state is not HandleState.OPEN or self.session.closing:
            return
        self.advance(Step.SEND_HANDLE_CLOSE)
        if self.session.transacted and error is not None:
            self.session.work.spoiled = error
        code, text = code_of(error)
        if not self.engine.close_sent:
            self.engine.write(HandleClose(handle_id=self.id, reply_code=reply_code or code, reply_text=text))
        if self.session.sending is self:
            self._keep(None)
        for link in self.links:
            link.mark_detached()
            link.drop_over_credit()

    def _receive_close(self) -> None:
        if self.may(Step.RECEIVE_HANDLE_CLOSE):
            self.leave(None)
            if self.closing:  # it is the answer to ours
                self.forget()
            else:
                self.engine.flush_later(self)

    def leave(self, cause: AmqpError | None) -> None:
        """End the links, because the client closed the handle or its channel ended."""
        if not self.may(Step.RECEIVE_HANDLE_CLOSE):
            return
        self.advance(Step.RECEIVE_HANDLE_CLOSE)
        coming = self.coming
        if self.session.sending is self:
            self._keep(None)
        self.coming = coming  # until the owner has taken the received part
        for link in self.links:
            link.leave(None, cause)

    def flush(self) -> None:
        """Answer the client's close; the outcomes of all earlier messages have been written by now."""
        if self.may(Step.SEND_HANDLE_CLOSE):
            self.engine.write(HandleClose(handle_id=self.id, reply_code=OK))
        self.forget()

    def forget(self) -> None:
        """Remove the handle from the connection and its channel, which frees its number."""
        for link in self.links:
            link.advance(Step.END_LINK)
        self.advance(Step.FINISH)
        if self.engine.handles.get(self.id) is self:
            del self.engine.handles[self.id]
        self.session.handles.pop(self, None)
