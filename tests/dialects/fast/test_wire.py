"""A client of AMQP/Fast that shares no code with ours, before the embedded broker: every command that a client sends.

Octets are written and read by the second decoder (`tests/kit`), from the grammar alone; the conversation is what the
specification says, step by step.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ...kit.dialects.fast.second_decoder import BY_NAME, GRAMMAR, read, read_head, write, write_fields
from ...kit.dialects.fast.talk import HostileClient

HEAD = {
    "body-size": 5,
    "persistent": True,
    "priority": 4,
    "expiration": 0,
    "mime-type": "text/plain",
    "encoding": "",
    "identifier": "m1",
    "headers": {"color": {"S": b"red"}, "deep": {"F": {"n": {"I": -1}}}},
}
NOTHING: dict[str, Any] = {"octet": 0, "short": 0, "long": 0, "bit": False, "shortstr": "", "longstr": b"", "table": {}}


class Raw:
    """The client."""

    def __init__(self) -> None:
        self.served = HostileClient()
        self._left = b""

    def said(self, name: str, content: bytes = b"", **fields: Any) -> list[tuple[Any, ...]]:
        """Say a command, its other fields being nothing; what comes back: names and the fields that say something."""
        values = {field["name"]: NOTHING[field["type"]] for field in BY_NAME[name]["fields"]}
        values |= {key.replace("_", "-"): value for key, value in fields.items()}
        if "fragment-size" in values:
            values["fragment-size"] = len(content)
        return self.octets(write(name, values) + content)

    def octets(self, data: bytes) -> list[tuple[Any, ...]]:
        engine, peer = self.served.engine, self.served.peer
        engine.receive_data(data)
        for _ in range(6):
            while events := engine.events():
                peer.handle(events)
            self._left += engine.data_to_send()
        answers: list[tuple[Any, ...]] = []
        while self._left:
            name, values, self._left = read(self._left)
            said = {key: value for key, value in values.items() if value and key != "fragment-size"}
            if "fragment-size" in values:
                content, self._left = self._left[: values["fragment-size"]], self._left[values["fragment-size"] :]
                answers.append((name, said, content))
            else:
                answers.append((name, said))
        return answers

    def opened(self) -> Raw:
        """After the opening, with channel 1."""
        ((name, challenge),) = self.octets(b"\x80\x01")
        assert (name, challenge["mechanisms"]) == ("connection-challenge", "ANONYMOUS")
        ((name, tune),) = self.said("connection-response", mechanism="ANONYMOUS")
        assert name == "connection-tune"
        assert self.said("connection-tune", frame_max=1024, channel_max=5, heartbeat=tune["heartbeat"]) == []
        answer = self.said("connection-open", confirm_tag=9, virtual_path="/", client_name="raw")
        assert answer == [("connection-reply", {"confirm-tag": 9, "reply-code": 200, "reply-text": "OK"})]
        answer = self.said("channel-open", channel_id=1, confirm_tag=1, restartable=True)
        assert answer == [("channel-reply", {"channel-id": 1, "confirm-tag": 1, "reply-code": 200})]
        return self

    def producer(self, handle: int = 1, name: str = "q", channel: int = 1) -> None:
        answer = self.said(
            "handle-open",
            channel_id=channel,
            handle_id=handle,
            service_type=1,
            confirm_tag=7,
            producer=True,
            dest_name=name,
            mime_type="application/x-handle",
        )
        assert answer == [done(handle, 7)]

    def consumer(self, handle: int = 2, name: str = "q", **consume: Any) -> list[tuple[Any, ...]]:
        answer = self.said("handle-open", channel_id=1, handle_id=handle, service_type=1, consumer=True, dest_name=name)
        assert answer == []
        return self.said("handle-consume", handle_id=handle, **({"prefetch": 10} | consume))


def done(handle: int, tag: int, code: int = 200) -> tuple[str, dict[str, int]]:
    return ("handle-reply", {"handle-id": handle, "confirm-tag": tag, "reply-code": code})


def message(body: bytes = b"hello", changes: dict[str, Any] | None = None) -> bytes:
    return write_fields(GRAMMAR["message-head"], HEAD | {"body-size": len(body)} | (changes or {})) + body


def test_send_and_consume() -> None:
    """A message goes in with handle-send and comes out with handle-notify, head and body as they were."""
    raw = Raw().opened()
    raw.producer()
    assert raw.said("handle-send", message(), handle_id=1, confirm_tag=5) == [done(1, 5)]
    (notified,) = raw.consumer()
    name, fields, content = notified
    assert name == "handle-notify"
    assert fields == {"handle-id": 2, "message-nbr": 1, "delivered": True, "dest-name": "q"}
    assert read_head(content) == (HEAD, b"hello")
    answer = raw.said("channel-ack", channel_id=1, confirm_tag=4, message_nbr=1)
    assert answer == [("channel-reply", {"channel-id": 1, "confirm-tag": 4, "reply-code": 200})]


def test_fragments() -> None:
    """A message in fragments is one message; one that is larger than a frame comes in fragments."""
    raw = Raw().opened()
    raw.producer()
    whole = message(b"x" * 3000)
    assert raw.said("handle-send", whole[:500], handle_id=1, partial=True) == []
    assert raw.said("handle-send", whole[500:1400], handle_id=1, partial=True) == []
    assert raw.said("handle-send", whole[1400:2400], handle_id=1, partial=True) == []
    assert raw.said("handle-send", whole[2400:], handle_id=1, confirm_tag=1) == [done(1, 1)]
    answer = raw.consumer()
    assert [fields.get("partial", False) for _, fields, _ in answer] == [True, True, False]
    assert {fields["message-nbr"] for _, fields, _ in answer} == {1}
    assert all(len(content) <= 1024 for _, _, content in answer)
    assert read_head(b"".join(content for _, _, content in answer)) == read_head(whole)


def test_names_go_on() -> None:
    """The destination is the handle's name, and what send and consume add to it."""
    raw = Raw().opened()
    raw.producer(name="pets.")
    assert raw.said("handle-send", message(), handle_id=1, confirm_tag=1, dest_name="dog") == [done(1, 1)]
    ((name, fields, _),) = raw.consumer(name="pe", dest_name="ts.dog")
    assert (name, fields["dest-name"]) == ("handle-notify", "pets.dog")


def test_of_the_handle() -> None:
    """A message without a mime-type has its handle's."""
    raw = Raw().opened()
    raw.producer()
    raw.said("handle-send", message(changes={"mime-type": ""}), handle_id=1)
    ((_, _, content),) = raw.consumer()
    assert read_head(content)[0]["mime-type"] == "application/x-handle"


def test_prefetch_and_pause() -> None:
    """No more come than the prefetch says, none in a pause, and those that are given back come again."""
    raw = Raw().opened()
    raw.producer()
    for body in (b"1", b"2", b"3"):
        raw.said("handle-send", message(body), handle_id=1)
    assert len(raw.consumer(prefetch=1)) == 1
    assert raw.said("handle-flow", handle_id=2, flow_pause=True) == []
    assert raw.said("channel-ack", channel_id=1, message_nbr=1) == []
    ((_, fields, content),) = raw.said("handle-flow", handle_id=2)
    assert (fields["message-nbr"], content[-1:]) == (2, b"2")
    ((_, fields, content),) = raw.said("handle-unget", handle_id=2, message_nbr=2)
    assert (fields["message-nbr"], content[-1:]) == (3, b"2")
    answer = raw.said("handle-flow", handle_id=2, confirm_tag=6, flow_pause=True)
    assert answer == [done(2, 6)]


def test_unreliable() -> None:
    """A consumer that is unreliable has nothing to acknowledge."""
    raw = Raw().opened()
    raw.producer()
    raw.said("handle-send", message(), handle_id=1)
    assert len(raw.consumer(unreliable=True)) == 1
    assert raw.served.vhost.resolve("q").depth == 0  # type: ignore[attr-defined]


def test_selector() -> None:
    """A selector chooses by headers."""
    raw = Raw().opened()
    raw.producer()
    raw.said("handle-send", message(changes={"headers": {}}), handle_id=1)
    raw.said("handle-send", message(), handle_id=1)
    ((_, _, content),) = raw.consumer(selector=b"color = 'red'")
    assert read_head(content)[0]["headers"] == HEAD["headers"]


def test_query_and_browse() -> None:
    """Messages are listed by numbers and shown, not delivered; one that is not there is 310."""
    raw = Raw().opened()
    raw.producer()
    for body in (b"1", b"2", b"3"):
        raw.said("handle-send", message(body), handle_id=1)
    raw.said("handle-open", channel_id=1, handle_id=2, service_type=1, browser=True, dest_name="q")
    answer = raw.said("handle-query", handle_id=2)
    assert answer == [("handle-index", {"handle-id": 2, "message-list": b"1-3"})]
    ((name, fields, content),) = raw.said("handle-browse", handle_id=2, message_nbr=2)
    assert (name, fields, content[-1:]) == ("handle-notify", {"handle-id": 2, "message-nbr": 2}, b"2")
    ((name, fields),) = raw.said("handle-browse", handle_id=2, confirm_tag=3, message_nbr=8)
    assert (name, fields["reply-code"], fields["confirm-tag"]) == ("handle-reply", 310, 3)
    assert raw.served.vhost.resolve("q").depth == 3  # type: ignore[attr-defined]


def test_transactions() -> None:
    """A message on a transacted channel counts when it is committed, and not at all when it is rolled back."""
    raw = Raw().opened()
    raw.said("channel-open", channel_id=2, transacted=True)
    raw.producer(handle=5, channel=2)
    assert raw.said("handle-send", message(b"no"), handle_id=5, confirm_tag=1) == [done(5, 1)]
    raw.said("channel-rollback", channel_id=2)
    raw.said("handle-send", message(b"1"), handle_id=5)
    raw.said("handle-send", message(b"2"), handle_id=5)
    assert raw.consumer() == []
    *notified, committed = sorted(raw.said("channel-commit", channel_id=2, confirm_tag=8), key=lambda each: -len(each))
    assert committed == ("channel-reply", {"channel-id": 2, "confirm-tag": 8, "reply-code": 200})
    assert [content[-1:] for _, _, content in notified] == [b"1", b"2"]


def test_prepare() -> None:
    """A prepared message goes on after what came with its head, if its SHA-1 is right."""
    raw = Raw().opened()
    raw.producer()
    sha1 = hashlib.sha1(b"hello").hexdigest()
    answer = raw.said("handle-prepare", message()[:-3], handle_id=1, content_hash=sha1)
    assert answer == [("handle-ready", {"handle-id": 1, "message-size": 2})]
    assert raw.said("handle-send", b"llo", handle_id=1, confirm_tag=2, recovery=True) == [done(1, 2)]
    ((_, _, content),) = raw.consumer()
    assert read_head(content) == (HEAD, b"hello")


def test_temporary() -> None:
    """A temporary destination is named by the server, and gone with its channel."""
    raw = Raw().opened()
    created, reply = raw.said(
        "handle-open", channel_id=1, handle_id=3, service_type=1, confirm_tag=1, consumer=True, temporary=True
    )
    assert (created[0], reply) == ("handle-created", done(3, 1))
    name = created[1]["dest-name"]
    assert name in raw.served.vhost.nodes
    raw.said("channel-close", channel_id=1, reply_code=200)
    assert name not in raw.served.vhost.nodes


def test_closing() -> None:
    """Handle, channel and connection: each close is answered with one."""
    raw = Raw().opened()
    raw.producer()
    closes = [
        raw.said("handle-close", handle_id=1, reply_code=200),
        raw.said("channel-close", channel_id=1, reply_code=200),
        raw.said("connection-close", reply_code=200),
    ]
    assert closes == [
        [("handle-close", {"handle-id": 1, "reply-code": 200})],
        [("channel-close", {"channel-id": 1, "reply-code": 200})],
        [("connection-close", {"reply-code": 200})],
    ]


def test_cancel() -> None:
    """A cancelled consumer delivers no more, and its queue may be consumed from again."""
    raw = Raw().opened()
    raw.producer()
    raw.consumer()
    assert raw.said("handle-cancel", handle_id=2, confirm_tag=3) == [done(2, 3)]
    assert raw.said("handle-send", message(), handle_id=1) == []
    assert len(raw.said("handle-consume", handle_id=2, prefetch=1)) == 1


def test_mime_type() -> None:
    """A consumer, or a browser, may want messages of one mime-type only."""
    raw = Raw().opened()
    raw.producer()
    raw.said("handle-send", message(b"other", changes={"mime-type": "image/png"}), handle_id=1)
    raw.said("handle-send", message(), handle_id=1)
    ((_, _, content),) = raw.consumer(mime_type="text/plain")
    assert read_head(content) == (HEAD, b"hello")
    raw.said("handle-open", channel_id=1, handle_id=3, service_type=1, browser=True, dest_name="q")
    ((_, fields),) = raw.said("handle-query", handle_id=3, mime_type="image/png")
    assert fields["message-list"] == b"1"


def test_no_local() -> None:
    """A consumer of a topic may want nothing of what its own connection sends."""
    raw = Raw().opened()
    raw.producer(name="topic.t")
    assert raw.consumer(name="topic.t", no_local=True) == []
    assert raw.said("handle-send", message(), handle_id=1, confirm_tag=1) == [done(1, 1)]
    assert raw.consumer(handle=3, name="topic.t") == []
    assert len(raw.said("handle-send", message(), handle_id=1)) == 1
