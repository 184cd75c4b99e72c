"""Private names of the transports that tests from elsewhere use."""

from __future__ import annotations

from amqp10.net import _listen as listening
from amqp10.net import _pump as pump
from amqp10.net._connecting import probe
from amqp10.net._connecting.websocket_handshake import open_websocket
from amqp10.net._pump import HIGH_WATER
from amqp10.net._streams.base import STREAM_ERRORS
from amqp10.net._streams.socket import SocketStream, WatchedSocketStream
from amqp10.net._streams.websocket import WebSocketStream
