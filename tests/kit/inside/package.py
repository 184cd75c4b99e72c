"""Private names of modules that packages share, and a few of others, that tests from elsewhere use."""

from __future__ import annotations

from amqp10 import _BESIDE as NAMES_BESIDE
from amqp10._arguments import attributes, hints_of
from amqp10._arguments.unknown import ELSEWHERE, MEANT
from amqp10._http import MAX_BODY_SIZE, MAX_HEAD_SIZE, HTTPAnswer, HTTPRequest, serving
from amqp10._machine import RECEIVED, SENT
from amqp10.bridging._attach import Guarantee
from amqp10.testing._proxy import Way
