"""Structured content, which only the draft 0-9 has: a header of weight n is followed by n contents, then by its bodies.

Each of those has a header of its own, and may have contents in it, too. A message keeps them as what only the dialect
has: the annotation `x-opt-0-9-1` has their payloads under "children".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..codes import Fault

MAX_DEPTH = 16


@dataclass(slots=True)
class Content:
    """One content.

    Attributes:
        properties: flags and values.
        children: the contents within it.
        missing: how many of its children are still to come.
        left: how many octets of its body are still to come.
    """

    properties: bytes
    missing: int
    left: int
    parts: list[bytes] = field(default_factory=list)
    children: list[Content] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)


class Assembler:
    """Puts one structured content together.

    Attributes:
        whole: the content, once it is whole.
        octets: of the bodies that the headers announced, and of the headers within: empty contents are something, too.
    """

    def __init__(self) -> None:
        self.whole: Content | None = None
        self.octets: int = 0
        self._open: list[Content] = []

    def header(self, payload: bytes) -> None:
        """Take a content header, of the content itself or of one within it.

        Raises:
            Fault: it ends early, is nested too deeply, or may not come here.
        """
        if len(payload) < 14:
            raise Fault(501, "a content header ends early")
        if self._open and not self._open[-1].missing:
            raise Fault(501, "a content has more parts than its weight says")
        if len(self._open) >= MAX_DEPTH:
            raise Fault(540, "content is nested too deeply")
        weight, size = int.from_bytes(payload[2:4], "big"), int.from_bytes(payload[4:12], "big")
        self.octets += size + (len(payload) if self._open else 0)
        self._open.append(Content(payload[12:], weight, size))
        self._close()

    def body(self, payload: bytes) -> None:
        """Take a body frame.

        Raises:
            Fault: contents are still to come, or the body is larger than its header says.
        """
        if not self._open or self._open[-1].missing:
            raise Fault(501, "a content has fewer parts than its weight says")
        content = self._open[-1]
        content.left -= len(payload)
        if content.left < 0:
            raise Fault(501, "a body is larger than its header says")
        content.parts.append(payload)
        self._close()

    def _close(self) -> None:
        """Add each content that is whole to the content that contains it."""
        while self._open and not self._open[-1].missing and not self._open[-1].left:
            content = self._open.pop()
            if not self._open:
                self.whole = content
            else:
                self._open[-1].children.append(content)
                self._open[-1].missing -= 1
