"""Commands on the wire: size, code, fields, end octet; and after some of them octets of a message.

size (u16; 0xFFFF: u32 follows)   code   fields   0xCE      size counts code, fields and end octet
[as many octets of the message as fragment-size says, framed by nothing]
"""

from __future__ import annotations

from typing import Final

from ....errors import DecodeError, RemoteProtocolError
from ..._kit.buffered_reader import BufferedReader
from .command_table import Command
from .commands import COMMANDS

INITIATION: Final = b"\x80\x01"
END: Final = 0xCE
ESCAPE: Final = 0xFFFF
PRE_TUNE_MAX: Final = 4096
"""The largest command before both sides have told their limits."""
MIN_FRAME_MAX: Final = 1024


def encode_command(command: Command, content: bytes = b"") -> bytes:
    """Encode a command, followed by `content`, the octets of a message.

    Raises:
        EncodeError: a field does not fit its type.
    """
    fields = command.write()
    size = len(fields) + 2
    head = size.to_bytes(2, "big") if size < ESCAPE else b"\xff\xff" + size.to_bytes(4, "big")
    return b"".join((head, bytes((command.code,)), fields, b"\xce", content))


class CommandReader(BufferedReader):
    """Cuts the octets that come in into commands, each with the octets of a message that follow it.

    Attributes:
        limit: octets that a command, or a fragment, may have.
    """

    def __init__(self, limit: int = PRE_TUNE_MAX) -> None:
        super().__init__()
        self.limit = limit
        self._command: tuple[Command, int] | None = None  # the command whose fragment is still to come, and its size

    def front(self, size: int) -> bytes:
        """Return the next `size` octets, or fewer if fewer have arrived, without taking them."""
        return b"".join((self._data[self._at :], *self._more))[:size]

    def initiation(self) -> bytes | None:
        """Take the first two octets; return None until both have arrived."""
        return self._take(2) if self._missing <= 0 else None

    def next(self) -> tuple[Command, bytes] | None:
        """Take the next command and the octets of a message that follow it; return None until all of it has arrived.

        Raises:
            RemoteProtocolError: the command is unknown, malformed, or larger than `limit`.
        """
        if self._missing > 0:
            return None
        waiting = self._command
        if waiting is None:
            command = self._read_command()
            if command is None:
                return None
            size = _content_size(command)
            if not size:
                return command, b""
            if size > self.limit:
                raise RemoteProtocolError(f"a fragment of {size} octets exceeds the agreed {self.limit}")
        else:
            command, size = waiting
        content = self._take(size)
        if content is None:
            self._command = command, size
            return None
        self._command = None
        return command, content

    def _read_command(self) -> Command | None:
        data, at = self._data, self._at
        size, head = int.from_bytes(data[at : at + 2], "big"), 2
        if size == ESCAPE:
            size, head = int.from_bytes(data[at + 2 : at + 6], "big"), 6
        if len(data) < at + head:
            self._wait(at + head - len(data))
            return None
        if size < 2:
            raise RemoteProtocolError(f"a command of size {size}")
        if size > self.limit:
            raise RemoteProtocolError(f"a command of {size} octets exceeds the agreed {self.limit}")
        start, end = at + head, at + head + size
        if end > len(data):
            self._wait(end - len(data))
            return None
        if data[end - 1] != END:
            raise RemoteProtocolError(f"a command ends with 0x{data[end - 1]:02x} instead of 0xce")
        self._at = end
        return decode_command(data, start, end - 1)

    def _take(self, size: int) -> bytes | None:
        if len(self._data) - self._at < size:
            self._wait(size - (len(self._data) - self._at))
            return None
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken


def decode_command(data: bytes, at: int, end: int) -> Command:
    """Decode the command whose code is at `at`, and whose fields end at `end`.

    Raises:
        RemoteProtocolError: the code is unknown or the fields are malformed; `condition` tells which.
    """
    kind = COMMANDS.get(data[at])
    if kind is None or at >= end:
        raise RemoteProtocolError(f"there is no command {data[at]}", "amqp:not-implemented")
    try:
        command, stop = kind.read(data, at + 1, end)
    except DecodeError as error:
        raise RemoteProtocolError(f"{kind.title()}: {error}", "amqp:decode-error") from None
    if stop != end:
        raise RemoteProtocolError(f"{kind.title()}: {end - stop} octets are left before its end", "amqp:decode-error")
    return command


def _content_size(command: Command) -> int:
    """Return how many octets of a message follow `command`: 0 if they are sent out of band."""
    if not command.carries or getattr(command, "out_of_band", False):
        return 0
    return command.fragment_size  # type: ignore[attr-defined, no-any-return]
