"""Private names of types and messages that tests from elsewhere use."""

from __future__ import annotations

from amqp10.messaging import _fields as fields
from amqp10.messaging import _section_index as section_index
from amqp10.messaging._compiled import fast as fast_messages
from amqp10.messaging._fields import FieldsSection
from amqp10.types import _encode as encoding
from amqp10.types import _plans as writing_plans
from amqp10.types import _read_compound as read_compound
from amqp10.types import _shapes as shapes
