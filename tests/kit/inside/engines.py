"""Private names of the engines, and of what dialects share, that tests from elsewhere use."""

from __future__ import annotations

from amqp10.dialects._kit import backlog
from amqp10.dialects._kit.engine import COSTLY
from amqp10.dialects._kit.fields import Field
from amqp10.dialects._kit.id_order import IdOrder
from amqp10.dialects._kit.lazy_deliveries import LazyRun
from amqp10.dialects._kit.message import limits as message_limits
from amqp10.dialects._kit.message.limits import message_limit, partial_limit
from amqp10.dialects._kit.message.mapping import DELIVERY_COUNT, EXCHANGE, PREFIX, REST_HEADER, ROUTING_KEY
from amqp10.dialects._kit.tracer import SHOWN_BODY
from amqp10.engine import _dialect as dialect_registry
