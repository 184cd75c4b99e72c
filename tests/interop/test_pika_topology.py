"""Queues, exchanges and bindings by pika, on the embedded broker and on RabbitMQ; refusals with their reply codes."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika is not installed")

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from ._amqp091 import Inbox, all_in, channel_of, connected, eventually, wait_until
from ._matrix import fresh_name

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(params=["rabbitmq", "embedded"])
def url(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens."""
    found: str = request.getfixturevalue(request.param).url()
    return found


def queue_of(channel: BlockingChannel, **settings: Any) -> str:
    """A queue for this connection, made by the server."""
    found: str = channel.queue_declare("", exclusive=True, **settings).method.queue
    return found


# Exchanges

ROUTES: dict[str, list[tuple[str, dict[str, Any] | None, str, dict[str, Any], bool]]] = {
    # binding key, binding arguments, routing key, headers, whether it comes
    "direct": [("a.b", None, "a.b", {}, True), ("a.b", None, "a.c", {}, False), ("", None, "", {}, True)],
    "fanout": [("a", None, "b", {}, True)],
    "topic": [
        ("a.*.c", None, "a.b.c", {}, True),
        ("a.*.c", None, "a.c", {}, False),
        ("a.#", None, "a", {}, True),
        ("a.#", None, "a.b.c.d", {}, True),
        ("#.z", None, "a.b.z", {}, True),
        ("#", None, "", {}, True),
        ("*", None, "", {}, False),
        ("*.*", None, "a.", {}, True),
        ("#.b.#", None, "a.b.c", {}, True),
    ],
    "headers": [
        ("", {"x-match": "all", "a": 1, "b": "two"}, "", {"a": 1, "b": "two", "c": 3}, True),
        ("", {"x-match": "all", "a": 1, "b": "two"}, "", {"a": 1}, False),
        ("", {"x-match": "any", "a": 1, "b": "two"}, "", {"b": "two"}, True),
        ("", {"x-match": "any", "a": 1}, "", {"a": "1"}, False),
        ("", {"a": None}, "", {"a": "whatever"}, True),
        ("", {"x-match": "all", "x-kind": "k"}, "", {}, True),
        ("", {"x-match": "all-with-x", "x-kind": "k"}, "", {}, False),
        ("", {"x-match": "any-with-x", "x-kind": "k", "a": 1}, "", {"x-kind": "k"}, True),
        ("", {}, "", {}, True),
        ("", {"a": None}, "", {"a": {"k": 1}}, True),
        ("", {"a": {"k": 1}}, "", {"a": {"k": 1}}, True),
        ("", {"a": {"k": 1}}, "", {"a": {"k": 2}}, False),
        ("", {"a": Decimal("1.5")}, "", {"a": Decimal("1.5")}, True),
    ],
}


@pytest.mark.parametrize("kind", ROUTES)
def test_routes(url: str, kind: str) -> None:
    """Each type of exchange brings each message just where its bindings say."""
    with channel_of(url, confirms=True) as channel:
        for place, (bound, arguments, key, headers, comes) in enumerate(ROUTES[kind]):
            exchange, queue = fresh_name(), queue_of(channel)
            channel.exchange_declare(exchange, kind, auto_delete=True)
            channel.queue_bind(queue, exchange, bound, arguments)
            channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers))
            assert (all_in(channel, queue) == [b"x"]) is comes, f"row {place}"


@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.topic", "amq.match", "amq.headers"])
def test_predeclared(url: str, name: str) -> None:
    """The exchanges of the specification are there, and know where a message came by."""
    with channel_of(url, confirms=True) as channel:
        channel.exchange_declare(name, passive=True)
        queue, key = queue_of(channel), fresh_name()
        arguments = {"only": key}
        channel.queue_bind(queue, name, key, arguments)
        channel.basic_publish(name, key, b"x", pika.BasicProperties(headers=arguments))
        method, _, _ = channel.basic_get(queue)
        assert (method.exchange, method.routing_key) == (name, key)


def test_exchange_to_exchange(url: str) -> None:
    """Exchanges are bound to exchanges, in circles too; a queue gets one copy; unbound nothing comes."""
    with channel_of(url, confirms=True) as channel:
        one, two, queue = fresh_name(), fresh_name(), queue_of(channel)
        for name in (one, two):
            channel.exchange_declare(name, "fanout")
        channel.exchange_bind(two, one)
        channel.exchange_bind(one, two)
        channel.queue_bind(queue, two)
        channel.queue_bind(queue, one)
        channel.basic_publish(one, "", b"1")
        assert all_in(channel, queue) == [b"1"]
        channel.exchange_unbind(two, one)
        channel.queue_unbind(queue, one)
        channel.basic_publish(one, "", b"2")
        assert all_in(channel, queue) == []
        for name in (one, two):
            channel.exchange_delete(name)


def test_alternate(url: str) -> None:
    """What an exchange cannot route goes to its alternate, and does not come back then."""
    with channel_of(url, confirms=True) as channel:
        main, rest, queue = fresh_name(), fresh_name(), queue_of(channel)
        channel.exchange_declare(rest, "fanout", auto_delete=True)
        channel.queue_bind(queue, rest)
        channel.exchange_declare(main, "direct", arguments={"alternate-exchange": rest})
        channel.basic_publish(main, "nobody", b"x", mandatory=True)
        assert all_in(channel, queue) == [b"x"]
        channel.exchange_delete(main)


def test_auto_delete_exchange(url: str) -> None:
    """It goes with its last binding, not before the first."""
    with channel_of(url) as channel:
        name, queue = fresh_name(), queue_of(channel)
        channel.exchange_declare(name, "direct", auto_delete=True)
        channel.exchange_declare(name, passive=True)
        channel.queue_bind(queue, name, "a")
        channel.queue_bind(queue, name, "b")
        channel.queue_unbind(queue, name, "a")
        channel.exchange_declare(name, passive=True)
        channel.queue_unbind(queue, name, "b")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.exchange_declare(name, passive=True)
        assert closed.value.reply_code == 404


# Queues


def test_server_named(url: str) -> None:
    """The server names a queue that the client leaves without, and says its facts."""
    with channel_of(url, confirms=True) as channel:
        one, two = queue_of(channel), queue_of(channel)
        assert one.startswith("amq.gen-")
        assert one != two
        channel.basic_publish("", one, b"x")
        Inbox(channel, two)
        facts = channel.queue_declare(one, passive=True).method
        assert (facts.message_count, facts.consumer_count) == (1, 0)
        assert channel.queue_declare(two, passive=True).method.consumer_count == 1


def test_exclusive(url: str) -> None:
    """A queue for one connection is locked for others (405), and goes with its connection."""
    with connected(url) as connection, channel_of(url) as other:
        queue = queue_of(connection.channel())
        all_asking: list[Callable[[BlockingChannel], Any]] = [
            lambda channel: channel.queue_declare(queue, passive=True),
            lambda channel: channel.basic_consume(queue, lambda *_: None),
            lambda channel: channel.queue_purge(queue),
        ]
        for asking in all_asking:
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                asking(other.connection.channel())
            assert closed.value.reply_code == 405
        connection.close()

        def there() -> bool:
            try:
                other.connection.channel().queue_declare(queue, passive=True)
            except pika.exceptions.ChannelClosedByBroker as error:
                return bool(error.reply_code != 404)
            return True

        eventually(there, False)


def test_auto_delete(url: str) -> None:
    """A queue that goes with its last consumer does not go with a look at it."""
    with channel_of(url) as channel:
        queue = channel.queue_declare(fresh_name(), auto_delete=True).method.queue
        channel.basic_get(queue)
        inbox = Inbox(channel, queue)
        channel.queue_declare(queue, passive=True)
        channel.basic_cancel(inbox.tag)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.queue_declare(queue, passive=True)
        assert closed.value.reply_code == 404


def test_purge_and_delete(url: str) -> None:
    """Both say how many messages they dropped; what is in use or not empty may be spared (406); gone is gone."""
    with connected(url) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare(fresh_name()).method.queue
        for _ in range(3):
            channel.basic_publish("", queue, b"x")
        assert channel.queue_purge(queue).method.message_count == 3
        channel.basic_publish("", queue, b"x")
        for condition in ({"if_empty": True}, {"if_unused": True}):
            trying = connection.channel()
            if "if_unused" in condition:
                Inbox(channel, queue)
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                trying.queue_delete(queue, **condition)
            assert closed.value.reply_code == 406
        channel.queue_delete(queue)
        assert channel.queue_delete(queue).method.message_count == 0


def test_message_ttl(url: str) -> None:
    """Messages die after the time of their queue, or after their own."""
    with channel_of(url, confirms=True) as channel:
        short, patient = queue_of(channel, arguments={"x-message-ttl": 100}), queue_of(channel)
        channel.basic_publish("", short, b"x")
        channel.basic_publish("", patient, b"x", pika.BasicProperties(expiration="100"))
        for queue in (short, patient):
            eventually(lambda queue=queue: channel.queue_declare(queue, passive=True).method.message_count, 0)  # type: ignore[misc]


@pytest.mark.parametrize("expiration", ["soon", "-1", "1.5", "", " 5", "5 ", "315360000001", "9" * 30])
def test_expirations_that_are_none(url: str, expiration: str) -> None:
    """What is no number of milliseconds, or of more than ten years, ends the channel, and is not taken."""
    with channel_of(url) as checking, channel_of(url) as channel:
        queue = checking.queue_declare(fresh_name()).method.queue
        channel.basic_publish("", queue, b"x", pika.BasicProperties(expiration=expiration))
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="invalid expiration") as closed:
            channel.queue_declare(queue, passive=True)
        assert closed.value.reply_code == 406
        assert checking.queue_delete(queue, if_empty=True)


@pytest.mark.parametrize("expiration", ["60000", "+60000", "0060000", "315360000000"])
def test_expirations_that_are_some(url: str, expiration: str) -> None:
    """Numbers up to ten years are taken."""
    with channel_of(url, confirms=True) as channel:
        queue = queue_of(channel)
        channel.basic_publish("", queue, b"x", pika.BasicProperties(expiration=expiration))
        assert all_in(channel, queue) == [b"x"]


@pytest.mark.parametrize("way", ["plain", "confirms", "transaction"])
def test_user_id(url: str, way: str) -> None:
    """A message may say that it is the user's who logged in, and nobody else's."""
    with channel_of(url) as checking, channel_of(url, confirms=way == "confirms") as channel:
        queue = checking.queue_declare(fresh_name()).method.queue
        if way == "transaction":
            channel.tx_select()
        channel.basic_publish("", queue, b"mine", pika.BasicProperties(user_id="user"))
        if way == "transaction":
            channel.tx_commit()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.basic_publish("", queue, b"another's", pika.BasicProperties(user_id="mallory"))
            channel.queue_declare(queue, passive=True)
        assert closed.value.reply_code == 406
        assert closed.value.reply_text == (
            "PRECONDITION_FAILED - user_id property set to 'mallory' but authenticated user was 'user'"
        )
        assert [
            (body, checking.queue_delete(queue).method.message_count) for _, _, body in [checking.basic_get(queue)]
        ] == [(b"mine", 0)]


def test_queue_expires(url: str) -> None:
    """A queue that nobody uses goes after its time."""
    with channel_of(url) as channel:
        queue = channel.queue_declare(fresh_name(), arguments={"x-expires": 200}).method.queue

        def there() -> bool:
            channel.connection.sleep(0.5)
            try:
                channel.connection.channel().queue_declare(queue, passive=True)
            except pika.exceptions.ChannelClosedByBroker as error:
                return bool(error.reply_code != 404)
            return True

        eventually(there, False)


def test_max_length(url: str) -> None:
    """A queue with a limit drops its oldest, or refuses the newest, which its publisher hears of."""
    with channel_of(url, confirms=True) as channel:
        dropping = queue_of(channel, arguments={"x-max-length": 2})
        for number in range(4):
            channel.basic_publish("", dropping, b"%d" % number)
        assert all_in(channel, dropping) == [b"2", b"3"]
        refusing = queue_of(channel, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
        for number in range(2):
            channel.basic_publish("", refusing, b"%d" % number)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", refusing, b"2")
        assert all_in(channel, refusing) == [b"0", b"1"]


def test_dead_letters(url: str) -> None:
    """What is rejected goes to the exchange for dead letters, with its history as RabbitMQ writes it."""
    with channel_of(url, confirms=True) as channel:
        dead, exchange = queue_of(channel), fresh_name()
        channel.exchange_declare(exchange, "direct", auto_delete=True)
        arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "died"}
        queue = queue_of(channel, arguments=arguments)
        channel.queue_bind(dead, exchange, "died")
        channel.queue_bind(queue, "amq.topic", f"{queue}.#")
        channel.basic_publish("amq.topic", f"{queue}.x", b"body", pika.BasicProperties(headers={"mine": 1}))
        tag = channel.basic_get(queue)[0].delivery_tag
        channel.basic_reject(tag, requeue=False)
        eventually(lambda: channel.queue_declare(dead, passive=True).method.message_count, 1)
        method, properties, body = channel.basic_get(dead)
        assert (method.exchange, method.routing_key, body) == (exchange, "died", b"body")
        headers = properties.headers
        (death,) = headers["x-death"]
        assert death.pop("time")
        assert death == {
            "count": 1,
            "reason": "rejected",
            "queue": queue,
            "exchange": "amq.topic",
            "routing-keys": [f"{queue}.x"],
        }
        assert (headers["mine"], headers["x-first-death-queue"], headers["x-first-death-reason"]) == (
            1,
            queue,
            "rejected",
        )


def test_twice_dead_letters(url: str) -> None:
    """Where it was before it died, and died again, is in its history, and in no other header."""
    with channel_of(url, confirms=True) as channel:
        dead = queue_of(channel)
        twice = queue_of(channel, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
        queue = queue_of(channel, arguments={"x-dead-letter-exchange": "amq.fanout"})
        channel.queue_bind(twice, "amq.fanout")
        channel.queue_bind(queue, "amq.topic", f"{queue}.#")
        channel.basic_publish("amq.topic", f"{queue}.x", b"body", pika.BasicProperties(headers={"mine": 1}))
        for alive in (queue, twice):
            eventually(lambda alive=alive: channel.queue_declare(alive, passive=True).method.message_count, 1)  # type: ignore[misc]
            channel.basic_reject(channel.basic_get(alive)[0].delivery_tag, requeue=False)
        eventually(lambda: channel.queue_declare(dead, passive=True).method.message_count, 1)
        method, properties, _ = channel.basic_get(dead)
        assert (method.exchange, method.routing_key) == ("", dead)
        history = {f"x-{which}-death-{what}" for which in ("first", "last") for what in ("exchange", "queue", "reason")}
        assert properties.headers.keys() == {"mine", "x-death", *history}


def test_expired_letters(url: str) -> None:
    """What expires says how long it was to live, and has no such time any more; the last death is named, too."""
    with channel_of(url, confirms=True) as channel:
        dead = queue_of(channel)
        queue = queue_of(channel, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
        channel.basic_publish("", queue, b"body", pika.BasicProperties(expiration="20"))
        eventually(lambda: channel.queue_declare(dead, passive=True).method.message_count, 1)
        _, properties, _ = channel.basic_get(dead, auto_ack=True)
        (death,) = properties.headers["x-death"]
        assert (death["reason"], death["original-expiration"], properties.expiration) == ("expired", "20", None)
        for which in ("first", "last"):
            assert properties.headers[f"x-{which}-death-queue"] == queue
            assert properties.headers[f"x-{which}-death-reason"] == "expired"
            assert properties.headers[f"x-{which}-death-exchange"] == ""


def test_priorities(url: str) -> None:
    """A queue with priorities gives the highest first."""
    with channel_of(url, confirms=True) as channel:
        queue = queue_of(channel, arguments={"x-max-priority": 5})
        for number, priority in enumerate((0, 3, 5, 3, None)):
            channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(priority=priority))
        assert all_in(channel, queue) == [b"2", b"1", b"3", b"0", b"4"]


def test_exclusive_consumer(url: str) -> None:
    """Who wants to be the only consumer keeps others out (403), and is kept out by others."""
    with connected(url) as connection:
        queue = queue_of(connection.channel())
        only = Inbox(connection.channel(), queue, exclusive=True)
        for wish in (False, True):
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                Inbox(connection.channel(), queue, exclusive=wish)
            assert closed.value.reply_code == 403
        only.channel.basic_cancel(only.tag)
        Inbox(connection.channel(), queue)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            Inbox(connection.channel(), queue, exclusive=True)
        assert closed.value.reply_code == 403


# Refusals

Wrong = Callable[[BlockingChannel, str, str], Any]
WRONG: dict[str, tuple[int, Wrong]] = {
    "queue that is not there": (404, lambda channel, queue, exchange: channel.queue_declare("missing", passive=True)),
    "exchange that is not there": (
        404,
        lambda channel, queue, exchange: channel.exchange_declare("none", passive=True),
    ),
    "bind to no exchange": (404, lambda channel, queue, exchange: channel.queue_bind(queue, "none", "k")),
    "bind no queue": (404, lambda channel, queue, exchange: channel.queue_bind("missing", exchange, "k")),
    "consume from no queue": (404, lambda channel, queue, exchange: channel.basic_consume("missing", lambda *_: None)),
    "get from no queue": (404, lambda channel, queue, exchange: channel.basic_get("missing")),
    "purge no queue": (404, lambda channel, queue, exchange: channel.queue_purge("missing")),
    "queue that is exclusive": (405, lambda channel, queue, exchange: channel.queue_declare(queue)),
    "queue of other terms": (
        406,
        lambda channel, queue, exchange: channel.queue_declare(queue, exclusive=True, auto_delete=True),
    ),
    "queue of other arguments": (
        406,
        lambda channel, queue, exchange: channel.queue_declare(queue, exclusive=True, arguments={"x-max-length": 1}),
    ),
    "exchange of another type": (406, lambda channel, queue, exchange: channel.exchange_declare(exchange, "topic")),
    "durable exchange": (406, lambda channel, queue, exchange: channel.exchange_declare(exchange, durable=True)),
    "exchange of no type": (406, lambda channel, queue, exchange: channel.exchange_declare("other", "x-none")),
    "wrong argument": (
        406,
        lambda channel, queue, exchange: channel.queue_declare("", arguments={"x-message-ttl": "soon"}),
    ),
    "server's own queue name": (403, lambda channel, queue, exchange: channel.queue_declare("amq.mine")),
    "server's own exchange name": (403, lambda channel, queue, exchange: channel.exchange_declare("amq.mine")),
    "delete the server's exchange": (403, lambda channel, queue, exchange: channel.exchange_delete("amq.topic")),
    "bind to the default exchange": (403, lambda channel, queue, exchange: channel.queue_bind(queue, "", "k")),
}


@pytest.mark.parametrize("what", WRONG)
def test_refused(url: str, what: str) -> None:
    """What cannot be ends the channel with the code that says why, and leaves the connection."""
    code, ask = WRONG[what]
    with connected(url) as connection:
        channel = connection.channel()
        queue, exchange = fresh_name(), fresh_name()
        channel.queue_declare(queue, exclusive=True)
        channel.exchange_declare(exchange, "direct")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            ask(channel, queue, exchange)
            channel.queue_declare(queue, passive=True, arguments={})
        assert closed.value.reply_code == code
        connection.channel().exchange_delete(exchange)


def test_internal(url: str) -> None:
    """Nobody publishes to an exchange that is for other exchanges only."""
    with channel_of(url, confirms=True) as channel:
        name = fresh_name()
        channel.exchange_declare(name, "fanout", internal=True, auto_delete=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.basic_publish(name, "", b"x")
        assert closed.value.reply_code == 403


def test_a_deleted_queue_cancels_its_consumers(url: str) -> None:
    """Those who consume from a queue hear that it is gone, on other connections too."""
    with channel_of(url) as channel, channel_of(url) as other:
        queue = channel.queue_declare(fresh_name()).method.queue
        inbox = Inbox(other, queue)
        channel.queue_delete(queue)
        wait_until(other, lambda: inbox.cancelled)


def test_single_active_consumer(url: str) -> None:
    """One consumer gets all, until it goes; then the next does."""
    with channel_of(url, confirms=True) as channel:
        queue = queue_of(channel, arguments={"x-single-active-consumer": True})
        one, two = Inbox(channel, queue, auto_ack=True), Inbox(channel, queue, auto_ack=True)
        for number in range(4):
            channel.basic_publish("", queue, b"%d" % number)
        assert (one.wait(4), two.wait(0)) == ([b"0", b"1", b"2", b"3"], [])
        channel.basic_cancel(one.tag)
        channel.basic_publish("", queue, b"4")
        assert two.wait(1) == [b"4"]


def test_carbon_copies(url: str) -> None:
    """CC and BCC name further routing keys; each queue has one copy, and nobody sees BCC."""
    with channel_of(url, confirms=True) as channel:
        queues = [queue_of(channel) for _ in range(4)]
        headers = {"CC": [queues[1], queues[0]], "BCC": [queues[2]], "a": 1}
        channel.basic_publish("", queues[0], b"x", pika.BasicProperties(headers=headers))
        assert [all_in(channel, queue) for queue in queues] == [[b"x"], [b"x"], [b"x"], []]
        channel.basic_publish("", "nowhere", b"x", pika.BasicProperties(headers=headers), mandatory=True)
        _, properties, _ = channel.basic_get(queues[2], auto_ack=True)
        assert (properties.headers["CC"], "BCC" in properties.headers) == ([queues[1], queues[0]], False)


def test_carbon_copies_that_are_none(url: str) -> None:
    """They are lists of strings, or the channel ends (406)."""
    with channel_of(url, confirms=True) as channel:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.basic_publish("", "q", b"x", pika.BasicProperties(headers={"CC": "a"}))
        assert refused.value.reply_code == 406
