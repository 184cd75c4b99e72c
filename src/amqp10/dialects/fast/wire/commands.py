"""The 28 commands, and the head of a message: one declaration each, in the order of their numbers.

Written by `make tables` from `tools/tables/fast.txt`: a change is made there. Where the specification's grammar and its
prose disagree, the prose is followed: handle-browse has a confirm-tag, and out-of-band is a string in channel-open and
a bit in handle-send and handle-notify.
"""

from __future__ import annotations

from dataclasses import field

from .command_table import Command, declared
from .struct import Bit, Long, LongStr, Octet, Record, Short, ShortStr, Table

# Class connection (10 to 19)


class ConnectionChallenge(Command, code=10):
    """Server: offer mechanisms, with their challenges."""

    version: Octet = 1
    mechanisms: ShortStr = ""
    challenges: Table = field(default_factory=dict)


class ConnectionResponse(Command, code=11):
    """Client: choose a mechanism, and answer its challenge."""

    mechanism: ShortStr = ""
    responses: Table = field(default_factory=dict)


class ConnectionTune(Command, code=12):
    """Both: state limits; the client's are not above the server's."""

    frame_max: Long = 0
    channel_max: Short = 0
    handle_max: Short = 0
    heartbeat: Short = 0
    options: Table = field(default_factory=dict)


class ConnectionOpen(Command, code=13):
    """Client: name the virtual path, and the client itself."""

    confirm_tag: Short = 0
    virtual_path: ShortStr = ""
    client_name: ShortStr = ""
    options: Table = field(default_factory=dict)


class ConnectionPing(Command, code=14):
    """Both: show that this side is alive, and ask for the same if `respond` is set."""

    respond: Bit = False


class ConnectionReply(Command, code=18):
    """Server: answer connection-open."""

    confirm_tag: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


class ConnectionClose(Command, code=19):
    """Both: end the connection, or confirm its end."""

    reply_code: Short = 0
    reply_text: ShortStr = ""


# Class channel (20 to 29)


class ChannelOpen(Command, code=20):
    """Client: open a channel."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    transacted: Bit = False
    restartable: Bit = False
    options: Table = field(default_factory=dict)
    out_of_band: ShortStr = ""


class ChannelAck(Command, code=21):
    """Client: acknowledge all messages of the channel up to this number."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    message_nbr: Long = 0


class ChannelCommit(Command, code=22):
    """Client: commit the transaction of the channel."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    options: Table = field(default_factory=dict)


class ChannelRollback(Command, code=23):
    """Client: roll back the transaction of the channel."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    options: Table = field(default_factory=dict)


class ChannelReply(Command, code=28):
    """Server: answer a command on the channel."""

    channel_id: Short = 0
    confirm_tag: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


class ChannelClose(Command, code=29):
    """Both: end a channel, or confirm its end."""

    channel_id: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


# Class handle (30 to 49)


class HandleOpen(Command, code=30):
    """Client: open a handle to a destination; the client chooses its number, unique on the connection."""

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
    """Client: send a message, or a fragment of one."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    fragment_size: Long = 0
    partial: Bit = False
    out_of_band: Bit = False
    recovery: Bit = False
    streaming: Bit = False
    dest_name: ShortStr = ""


class HandleConsume(Command, code=32):
    """Client: start a consumer."""

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
    """Client: cancel a consumer."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    dest_name: ShortStr = ""
    identifier: ShortStr = ""


class HandleFlow(Command, code=34):
    """Client: pause the flow of messages, or resume it."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    flow_pause: Bit = False


class HandleUnget(Command, code=35):
    """Client: return a message."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    message_nbr: Long = 0


class HandleQuery(Command, code=36):
    """Client: ask which messages a destination has."""

    handle_id: Short = 0
    message_nbr: Long = 0
    dest_name: ShortStr = ""
    selector: LongStr = b""
    mime_type: ShortStr = ""


class HandleBrowse(Command, code=37):
    """Client: ask for a copy of a message."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    message_nbr: Long = 0


class HandleCreated(Command, code=40):
    """Server: name the temporary destination that it created."""

    handle_id: Short = 0
    dest_name: ShortStr = ""


class HandleNotify(Command, code=41, carries=True):
    """Server: send a message, or a fragment of one."""

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
    """Server: list the numbers of messages, as "5,9,15-40"."""

    handle_id: Short = 0
    message_nbr: Long = 0
    message_list: LongStr = b""


class HandlePrepare(Command, code=43, carries=True):
    """Both: ask how much of this message the peer has; its head follows, and perhaps the beginning of its body."""

    handle_id: Short = 0
    fragment_size: Long = 0
    content_hash: ShortStr = ""


class HandleReady(Command, code=44):
    """Both: answer handle-prepare with the number of octets of the body that this side has."""

    handle_id: Short = 0
    message_size: Long = 0


class HandleReply(Command, code=48):
    """Server: answer a command on the handle."""

    handle_id: Short = 0
    confirm_tag: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


class HandleClose(Command, code=49):
    """Both: end a handle, or confirm its end."""

    handle_id: Short = 0
    reply_code: Short = 0
    reply_text: ShortStr = ""


# What content begins with


class MessageHead(Record):
    """The head of a message; `body_size` in octets, `expiration` in seconds since 1970, 0 for never."""

    body_size: Long = 0
    persistent: Bit = False
    priority: Octet = 4
    expiration: Long = 0
    mime_type: ShortStr = ""
    encoding: ShortStr = ""
    identifier: ShortStr = ""
    headers: Table = field(default_factory=dict)


COMMANDS: dict[int, type[Command]] = declared(vars())
"""All of the above, by code."""
