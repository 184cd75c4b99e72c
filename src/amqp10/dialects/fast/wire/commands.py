"""The 28 commands, and the head of a message: one declaration each, from which reading and writing follow.

Where the specification's grammar and its prose disagree, the prose is followed: handle-browse has a confirm-tag, and
out-of-band is a string in channel-open and a bit in handle-send and handle-notify.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Final

from .struct import Bit as Bit
from .struct import Long as Long
from .struct import LongStr as LongStr
from .struct import Octet as Octet
from .struct import Record
from .struct import Short as Short
from .struct import ShortStr as ShortStr
from .struct import Table as Table


class Command(Record):
    """The base of commands.

    Attributes:
        code: its octet.
        carries: octets of a message follow it, as many as its fragment-size says.
    """

    code: ClassVar[int] = 0
    carries: ClassVar[bool] = False

    def __init_subclass__(cls, code: int = 0, carries: bool = False, **arguments: Any) -> None:
        cls.code, cls.carries = code, carries
        super().__init_subclass__(**arguments)
        COMMANDS[code] = cls

    @classmethod
    def title(cls) -> str:
        """Return the specification's name of the command, such as "handle-send"."""
        name = cls.__name__
        return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]


COMMANDS: Final[dict[int, type[Command]]] = {}
"""By code."""


class ConnectionChallenge(Command, code=10):
    """Server: which mechanisms there are, and what to respond to."""

    version: Octet = 1
    mechanisms: ShortStr = ""
    challenges: Table = field(default_factory=dict)


class ConnectionResponse(Command, code=11):
    """Client: the mechanism that it chose, and its responses."""

    mechanism: ShortStr = ""
    responses: Table = field(default_factory=dict)


class ConnectionTune(Command, code=12):
    """Both: limits; the client's are not above the server's."""

    frame_max: Long = 0
    channel_max: Short = 0
    handle_max: Short = 0
    heartbeat: Short = 0
    options: Table = field(default_factory=dict)


class ConnectionOpen(Command, code=13):
    """Client: which virtual path, and as whom."""

    confirm_tag: Short = 0
    virtual_path: ShortStr = ""
    client_name: ShortStr = ""
    options: Table = field(default_factory=dict)


class ConnectionPing(Command, code=14):
    """Both: still here; are you?"""

    respond: Bit = False


class ConnectionReply(Command, code=18):
    """Server: how a connection-open went."""

    confirm_tag: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


class ConnectionClose(Command, code=19):
    """Both: the end, and its echo."""

    reply_code: Short = 0
    reply_text: ShortStr = ""


class ChannelOpen(Command, code=20):
    """Client: a channel."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    transacted: Bit = False
    restartable: Bit = False
    options: Table = field(default_factory=dict)
    out_of_band: ShortStr = ""


class ChannelAck(Command, code=21):
    """Client: all messages of the channel up to this number are done with."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    message_nbr: Long = 0


class ChannelCommit(Command, code=22):
    """Client: let it all happen."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    options: Table = field(default_factory=dict)


class ChannelRollback(Command, code=23):
    """Client: forget it all."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    options: Table = field(default_factory=dict)


class ChannelReply(Command, code=28):
    """Server: how a command of the channel went."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


class ChannelClose(Command, code=29):
    """Both: the end of a channel, and its echo."""

    channel_id: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


class HandleOpen(Command, code=30):
    """Client: a handle to a destination; its number is the client's choice, unique on the connection."""

    channel_id: Short = 0
    handle_id: Short = 0
    service_type: Short = 0
    confirm_tag: Short = 0
    producer: Bit = False
    consumer: Bit = False
    browser: Bit = False
    temporary: Bit = False
    dest_name: ShortStr = ""
    mime_type: ShortStr = ""
    encoding: ShortStr = ""
    options: Table = field(default_factory=dict)


class HandleSend(Command, code=31, carries=True):
    """Client: a message, or a fragment of one."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    fragment_size: Long = 0
    partial: Bit = False
    out_of_band: Bit = False
    recovery: Bit = False
    streaming: Bit = False
    dest_name: ShortStr = ""


class HandleConsume(Command, code=32):
    """Client: let messages come."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    prefetch: Short = 0
    no_local: Bit = False
    unreliable: Bit = False
    dest_name: ShortStr = ""
    identifier: ShortStr = ""
    selector: LongStr = b""
    mime_type: ShortStr = ""


class HandleCancel(Command, code=33):
    """Client: let none come any more."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    dest_name: ShortStr = ""
    identifier: ShortStr = ""


class HandleFlow(Command, code=34):
    """Client: pause, or go on."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    flow_pause: Bit = False


class HandleUnget(Command, code=35):
    """Client: take a message back."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    message_nbr: Long = 0


class HandleQuery(Command, code=36):
    """Client: which messages are there?"""

    handle_id: Short = 0
    message_nbr: Long = 0
    dest_name: ShortStr = ""
    selector: LongStr = b""
    mime_type: ShortStr = ""


class HandleBrowse(Command, code=37):
    """Client: show one of them."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    message_nbr: Long = 0


class HandleCreated(Command, code=40):
    """Server: what a temporary destination is called."""

    handle_id: Short = 0
    dest_name: ShortStr = ""


class HandleNotify(Command, code=41, carries=True):
    """Server: a message, or a fragment of one."""

    handle_id: Short = 0
    message_nbr: Long = 0
    fragment_size: Long = 0
    partial: Bit = False
    out_of_band: Bit = False
    recovery: Bit = False
    delivered: Bit = False
    redelivered: Bit = False
    streaming: Bit = False
    dest_name: ShortStr = ""


class HandleIndex(Command, code=42):
    """Server: the numbers of messages, "5,9,15-40"."""

    handle_id: Short = 0
    message_nbr: Long = 0
    message_list: LongStr = b""


class HandlePrepare(Command, code=43, carries=True):
    """Both: how much is there of this message? Its head follows, and perhaps the beginning of its body."""

    handle_id: Short = 0
    fragment_size: Long = 0
    content_hash: ShortStr = ""


class HandleReady(Command, code=44):
    """Both: the answer to handle-prepare, with how many octets of the body are there."""

    handle_id: Short = 0
    message_size: Long = 0


class HandleReply(Command, code=48):
    """Server: how a command of the handle went."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


class HandleClose(Command, code=49):
    """Both: the end of a handle, and its echo."""

    handle_id: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


class MessageHead(Record):
    """What comes before the body of a message.

    Attributes:
        body_size: octets of the whole body.
        priority: 0 to 9.
        expiration: when the message dies, seconds since 1970; 0 for never.
    """

    body_size: Long = 0
    persistent: Bit = False
    priority: Octet = 4
    expiration: Long = 0
    mime_type: ShortStr = ""
    encoding: ShortStr = ""
    identifier: ShortStr = ""
    headers: Table = field(default_factory=dict)
