"""Threads whose event loop accepts connections, and threads that wait for one: no thread can do both.

The synchronous client waits in the thread that calls it. If an embedded broker runs in an event loop of that thread,
neither goes on. A connection to such a broker is refused here, where a time-out would say nothing of the cause.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..errors import LocalProtocolError
from ._url import Endpoint, parse_url

_accepting: dict[int | str, int] = {}  # TCP port or path of a Unix socket -> thread
_waiting: set[int] = set()


@contextmanager
def accepting(urls: Iterable[str]) -> Iterator[None]:
    """Record that the event loop of this thread accepts connections at `urls` during the block."""
    places = [_place(parse_url(url)) for url in urls]
    _accepting.update(dict.fromkeys(places, threading.get_ident()))
    try:
        yield
    finally:
        for each in places:
            _accepting.pop(each, None)


@contextmanager
def waiting() -> Iterator[None]:
    """Record that this thread does nothing but wait for a connection during the block."""
    _waiting.add(threading.get_ident())
    try:
        yield
    finally:
        _waiting.discard(threading.get_ident())


def check_answerable(endpoint: Endpoint) -> None:
    """Check that the thread that waits for a connection to `endpoint` is not the one that must accept it.

    Raises:
        LocalProtocolError: it is.
    """
    if endpoint.loopback and _accepting.get(_place(endpoint)) in _waiting:
        raise LocalProtocolError(
            f"the event loop of this thread runs the broker at {endpoint}, which cannot answer while amqp10.sync waits "
            "in the same thread: use amqp10.Connection with `async with` here, or call amqp10.sync in another thread "
            "(anyio.to_thread.run_sync), or run the broker in a thread of its own (amqp10.testing.BackgroundBroker)"
        )


def _place(endpoint: Endpoint) -> int | str:
    return endpoint.path if endpoint.unix else endpoint.port
