"""The sections of an encoded message: finding, reading and writing each.

For packages that work on encoded messages: dialects that map their messages to AMQP 1.0, and readers that decode only a
part.
"""

from __future__ import annotations

from ._codec import DATA_HEADS as DATA_HEADS
from ._codec import read_body as read_body
from ._codec import write_body as write_body
from ._codec import write_head as write_head
from ._codec import write_map as write_map
from ._fields import HEADER_FIELDS as HEADER_FIELDS
from ._fields import MAPS as MAPS
from ._fields import PROPERTIES_FIELDS as PROPERTIES_FIELDS
from ._message import may_hold as may_hold
from ._section_index import AMQP_SEQUENCE as AMQP_SEQUENCE
from ._section_index import AMQP_VALUE as AMQP_VALUE
from ._section_index import APPLICATION_PROPERTIES as APPLICATION_PROPERTIES
from ._section_index import BODY as BODY
from ._section_index import DATA as DATA
from ._section_index import DELIVERY_ANNOTATIONS as DELIVERY_ANNOTATIONS
from ._section_index import FOOTER as FOOTER
from ._section_index import HEADER as HEADER
from ._section_index import MESSAGE_ANNOTATIONS as MESSAGE_ANNOTATIONS
from ._section_index import PROPERTIES as PROPERTIES
from ._section_index import SectionSpan as SectionSpan
from ._section_index import descriptor_at as descriptor_at
from ._section_index import scan as scan
from ._section_index import section_at as section_at

__all__ = (
    "AMQP_SEQUENCE",
    "AMQP_VALUE",
    "APPLICATION_PROPERTIES",
    "BODY",
    "DATA",
    "DATA_HEADS",
    "DELIVERY_ANNOTATIONS",
    "FOOTER",
    "HEADER",
    "HEADER_FIELDS",
    "MAPS",
    "MESSAGE_ANNOTATIONS",
    "PROPERTIES",
    "PROPERTIES_FIELDS",
    "SectionSpan",
    "descriptor_at",
    "may_hold",
    "read_body",
    "scan",
    "section_at",
    "write_body",
    "write_head",
    "write_map",
)
