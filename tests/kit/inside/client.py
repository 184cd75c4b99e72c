"""Private names of the client that tests from elsewhere use."""

from __future__ import annotations

from amqp10.client._connecting import supervisor
from amqp10.client._core.states import State
from amqp10.client._errors import fresh
from amqp10.client._events import Observer
from amqp10.client._receiving import consumer
from amqp10.client._receiving.consumer import YIELD_AFTER_MESSAGES
from amqp10.client._sending.send_queue import YIELD_AFTER_BYTES
