"""Hypothesis strategies for AMQP values and messages. No other module of the package needs hypothesis."""

from __future__ import annotations

try:
    import hypothesis as hypothesis
except ImportError as _error:
    raise ImportError("amqp10.testing.strategies needs hypothesis: pip install hypothesis") from _error

from ._message_strategies import annotation_maps as annotation_maps
from ._message_strategies import application_properties as application_properties
from ._message_strategies import bodies as bodies
from ._message_strategies import coordinators as coordinators
from ._message_strategies import delivery_states as delivery_states
from ._message_strategies import errors as errors
from ._message_strategies import exact_body as exact_body
from ._message_strategies import exact_message as exact_message
from ._message_strategies import fields_maps as fields_maps
from ._message_strategies import headers as headers
from ._message_strategies import message_ids as message_ids
from ._message_strategies import messages as messages
from ._message_strategies import outcomes as outcomes
from ._message_strategies import properties as properties
from ._message_strategies import sources as sources
from ._message_strategies import targets as targets
from ._strategies import amqp_values as amqp_values
from ._strategies import arrays as arrays
from ._strategies import binaries as binaries
from ._strategies import booleans as booleans
from ._strategies import bytes_ as bytes_
from ._strategies import chars as chars
from ._strategies import decimal32s as decimal32s
from ._strategies import decimal64s as decimal64s
from ._strategies import decimal128s as decimal128s
from ._strategies import described as described
from ._strategies import descriptors as descriptors
from ._strategies import doubles as doubles
from ._strategies import exact as exact
from ._strategies import floats as floats
from ._strategies import ints as ints
from ._strategies import lists as lists
from ._strategies import longs as longs
from ._strategies import maps as maps
from ._strategies import nulls as nulls
from ._strategies import scalars as scalars
from ._strategies import shorts as shorts
from ._strategies import strings as strings
from ._strategies import symbols as symbols
from ._strategies import timestamps as timestamps
from ._strategies import ubytes as ubytes
from ._strategies import uints as uints
from ._strategies import ulongs as ulongs
from ._strategies import ushorts as ushorts
from ._strategies import uuids as uuids

__all__ = (
    "amqp_values",
    "annotation_maps",
    "application_properties",
    "arrays",
    "binaries",
    "bodies",
    "booleans",
    "bytes_",
    "chars",
    "coordinators",
    "decimal32s",
    "decimal64s",
    "decimal128s",
    "delivery_states",
    "described",
    "descriptors",
    "doubles",
    "errors",
    "exact",
    "exact_body",
    "exact_message",
    "fields_maps",
    "floats",
    "headers",
    "ints",
    "lists",
    "longs",
    "maps",
    "message_ids",
    "messages",
    "nulls",
    "outcomes",
    "properties",
    "scalars",
    "shorts",
    "sources",
    "strings",
    "symbols",
    "targets",
    "timestamps",
    "ubytes",
    "uints",
    "ulongs",
    "ushorts",
    "uuids",
)
