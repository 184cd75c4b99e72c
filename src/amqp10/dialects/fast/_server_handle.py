"""A handle, at the server: what the client does with it becomes links.

handle-open producer          a receiving link to its destination; one without a name is the anonymous terminus
handle-send with a dest-name  a receiving link to the anonymous terminus, where the handle has a name
handle-consume                a sending link
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ...engine import LinkTerms
from ...errors import RemoteProtocolError
from ...messaging import Error
from ...types import Symbol, UInt
from ._codes import BAD_CONTENTS, OK, BadContents, code_of
from ._commands import (
    Command,
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
from ._content import Assembly, read_head
from ._incoming import payload_of
from ._restart import restart_terms
from ._server_browser import ServerBrowser
from ._server_consumer import Ending, ServerConsumer
from ._server_producer import ServerProducer
from ._services import PEER, QUEUE, TOPIC, link_properties, source_of, target_of, temporary_source

if TYPE_CHECKING:
    from ._server_session import ServerSession

MOST_PARTIAL: Final = 1 << 26
"""Octets that may be here, of all of a connection, of messages that are not whole."""
MOST_WAITING: Final = 1000
"""Commands of one handle that wait for the answer to one before them."""
_IN_TURN: Final = (HandleConsume, HandleCancel, HandleFlow, HandleUnget, HandleQuery, HandleBrowse)


_MANY_SHOWN: Final = 1 << 31
"""Numbers that were given to a browser's messages on one handle, after which they begin anew with the next browser."""


class ServerHandle:
    """See the module.

    Attributes:
        opening: how it was opened.
        name: of its destination; the server's choice, where that is temporary.
        closing: our close is out.
    """

    def __init__(self, session: ServerSession, opening: HandleOpen) -> None:
        self.session = session
        self.engine = session.engine
        self.opening = opening
        self.id = opening.handle_id
        self.name = opening.dest_name
        self.closing = False
        self.producer: ServerProducer | None = None
        self.anonymous: ServerProducer | None = None
        self.consumer: ServerConsumer | None = None
        self.browser: ServerBrowser | None = None
        self.paused = False
        self.coming: Assembly | None = None  # a message of which more is to come
        self._weight = 0  # of that
        self._left = False
        self._backlog: deque[tuple[Command, bytes]] = deque()  # what waits for the answer to what came before it

    def begin(self) -> None:
        """The client has opened it."""
        opening = self.opening
        if opening.service_type == PEER:
            self.refuse("amqp:not-implemented", "there is no service of peers")
        elif opening.service_type not in (QUEUE, TOPIC):
            self.refuse("amqp:invalid-field", f"there is no service of type {opening.service_type}")
        elif not (opening.producer or opening.consumer or opening.browser):
            self.refuse("amqp:invalid-field", "a handle is for a producer, a consumer or a browser")
        elif opening.temporary and opening.consumer:
            self.consumer = ServerConsumer(self, self._terms(source=temporary_source(opening)), None)
        elif opening.producer:
            self.producer = ServerProducer(self, self._restartable(self._terms(target=target_of(opening))))
        else:
            self.reply(opening.confirm_tag)

    def _restartable(self, terms: LinkTerms) -> LinkTerms:
        """The terms of a link of which the owner is to keep what came in part, if the client asks for that."""
        asked = restart_terms(self.opening.options)
        if asked is None or not self.session.restartable or self.opening.temporary or not self.name:
            return terms
        target = target_of(self.opening)
        target.expiry_policy, target.timeout = "connection-close", UInt(asked[1])
        return replace(terms, name=asked[0], target=target, unsettled={})

    def _terms(self, **termini: Any) -> LinkTerms:
        name = self.opening.options.get("name")
        own = name if isinstance(name, str) and name else f"handle-{self.id}"
        return LinkTerms(name=own, settle_mode="mixed" if "target" in termini else "unsettled", **termini)

    def opened(self, created: str | None) -> None:
        """What was opened with it is attached; `created`: as this, if it is temporary."""
        if created is not None:
            self.name = created
            self.engine.write(HandleCreated(handle_id=self.id, dest_name=created))
        opening = self.opening
        if opening.temporary and opening.consumer and opening.producer and self.producer is None:
            self.producer = ServerProducer(self, self._terms(target=target_of(opening, name=self.name)))
        else:
            self.reply(opening.confirm_tag)

    def reply(self, tag: int, error: Error | None = None, code: int | None = None) -> None:
        """Say how a command went, if that is asked for."""
        if tag and not self.closing and not self.engine.close_sent:
            said, text = code_of(error)
            self.engine.write(HandleReply(handle_id=self.id, confirm_tag=tag, reply_code=code or said, reply_text=text))

    # What comes

    def receive(self, command: Any, content: bytes) -> None:
        """A command of the client for it."""
        if isinstance(command, HandleClose):
            self._on_close()
        elif self.closing or self._left or self.session.closing:
            return
        elif self._waits and (isinstance(command, _IN_TURN) or self._unmade):
            self._backlog.append((command, content))
            if len(self._backlog) > MOST_WAITING:
                self.refuse("amqp:resource-limit-exceeded", f"{MOST_WAITING} commands wait for the answer to one")
        else:
            self._actions[type(command)](self, command, content)

    @property
    def _waits(self) -> bool:
        """What consumes or browses is not attached, or what it lists is not known yet."""
        return any(link is not None and (link.terms is None or link.lists) for link in (self.consumer, self.browser))

    @property
    def _unmade(self) -> bool:
        """The temporary queue that it sends to is not made."""
        return self.opening.producer and self.producer is None

    def go_on(self) -> None:
        """What it waited for is answered."""
        while self._backlog and not (self._waits or self.closing or self._left):
            command, content = self._backlog.popleft()
            self._actions[type(command)](self, command, content)

    def _on_send(self, command: HandleSend, content: bytes) -> None:
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
            raise RemoteProtocolError("the rest of a message that was not prepared", "amqp:illegal-state")
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
        """What came of a message of which more is to come; of all of a connection so much, or this one alone.

        Raises:
            RemoteProtocolError: it is more.
        """
        self.coming = assembly
        self.session.sending = self if assembly is not None else None
        others = self.engine.partial - self._weight
        self._weight = assembly.weight if assembly is not None else 0
        self.engine.partial = others + self._weight
        if assembly is not None and others and self.engine.partial > MOST_PARTIAL:
            raise RemoteProtocolError(
                f"more than {MOST_PARTIAL} octets of messages that are not whole", "amqp:resource-limit-exceeded"
            )

    def _check_size(self, head: MessageHead) -> None:
        terms = self.producer.terms if self.producer is not None else None
        limit = terms.max_message_size if terms is not None else None
        if limit and head.body_size > limit:
            raise RemoteProtocolError(
                f"a message of {head.body_size} octets; {limit} are taken", "amqp:link:message-size-exceeded"
            )

    def _producer(self, suffix: str) -> ServerProducer:
        """The link for a message whose destination's name goes on so."""
        assert self.producer is not None
        if not suffix or self.producer.anonymous:
            return self.producer
        if self.anonymous is None:
            self.anonymous = ServerProducer(self, self._terms(target=target_of(self.opening, name="")))
        return self.anonymous

    def _on_consume(self, command: HandleConsume, content: bytes) -> None:
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
            self.consumer = ServerConsumer(self, terms, command)

    def _on_cancel(self, command: HandleCancel, content: bytes) -> None:
        if self.consumer is not None:
            self.consumer.leave(True, None)
            self.consumer = None
        elif command.identifier:
            words = self._terms(source=temporary_source(self.opening)).source
            assert words is not None
            terms = LinkTerms(name=command.identifier, desired_capabilities=words.capabilities)
            self.consumer = Ending(self, terms, command.confirm_tag)
            return
        self.reply(command.confirm_tag)

    def _on_flow(self, command: HandleFlow, content: bytes) -> None:
        self.paused = command.flow_pause
        if self.consumer is None:
            self.reply(command.confirm_tag)
        else:
            self.consumer.flow(command)

    def _on_unget(self, command: HandleUnget, content: bytes) -> None:
        if self.consumer is not None:
            self.consumer.unget(command.message_nbr)
        self.reply(command.confirm_tag)

    def _on_query(self, command: HandleQuery, content: bytes) -> None:
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
        browser.look(command.message_nbr)

    def _on_browse(self, command: HandleBrowse, content: bytes) -> None:
        if self.browser is None:
            self.refuse("amqp:illegal-state", "nothing was listed")
        else:
            self.browser.browse(command)

    def _on_prepare(self, command: HandlePrepare, content: bytes) -> None:
        """Say how much is here of a message: what is kept of an earlier attempt, or what comes with the question."""
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

    def _on_ready(self, command: HandleReady, content: bytes) -> None:
        """The client says how much it has of a message."""
        if self.consumer is None or not self.consumer.ready(command.message_size):
            raise RemoteProtocolError("a handle-ready to nothing, or for more than there is", "amqp:illegal-state")

    _actions: ClassVar[dict[type[Command], Callable[[Any, Any, bytes], None]]] = {
        HandleSend: _on_send,
        HandleConsume: _on_consume,
        HandleCancel: _on_cancel,
        HandleFlow: _on_flow,
        HandleUnget: _on_unget,
        HandleQuery: _on_query,
        HandleBrowse: _on_browse,
        HandlePrepare: _on_prepare,
        HandleReady: _on_ready,
    }

    # Ending

    @property
    def links(self) -> list[ServerProducer | ServerConsumer]:
        """Those that there are."""
        links = (self.producer, self.anonymous, self.consumer, self.browser)
        return [link for link in links if link is not None]

    @property
    def holding(self) -> bool:
        """Messages are held for which there is no credit, or are part of what is being committed."""
        return self.session.committing or any(
            link.holding for link in (self.producer, self.anonymous) if link is not None
        )

    def refuse(self, condition: str, description: str) -> None:
        """The client may not do that: the handle ends."""
        self.close(Error(Symbol(condition), description))

    def close(self, error: Error | None, reply_code: int | None = None) -> None:
        """Close it from this side; what still comes for it is dropped. `reply_code`: not the one of the error."""
        if self.closing or self._left or self.session.closing:
            return
        self.closing = True
        if self.session.transacted and error is not None:
            self.session.work.spoiled = error
        code, text = code_of(error)
        if not self.engine.close_sent:
            self.engine.write(HandleClose(handle_id=self.id, reply_code=reply_code or code, reply_text=text))
        if self.session.sending is self:
            self._keep(None)
        for link in self.links:
            link.attached = False
            link.drop_held()

    def _on_close(self) -> None:
        if not self._left:
            self.leave(None)
            if self.closing:  # it is the answer to ours
                self.forget()
            else:
                self.engine.owe(self)

    def leave(self, cause: Any) -> None:
        """It ends by the client's will, or with its channel: tell those that have its links."""
        if self._left:
            return
        self._left = True
        coming = self.coming
        if self.session.sending is self:
            self._keep(None)
        self.coming = coming  # until the owner has seen what is left of it
        for link in self.links:
            link.leave(None, cause)

    def pay(self) -> None:
        """Answer the client's close; the outcomes of what came before it are told by now."""
        self.engine.write(HandleClose(handle_id=self.id, reply_code=OK))
        self.forget()

    def forget(self) -> None:
        """It is no more; its number is free."""
        for link in self.links:
            link.attached = False
        if self.engine.handles.get(self.id) is self:
            del self.engine.handles[self.id]
        self.session.handles.pop(self, None)
