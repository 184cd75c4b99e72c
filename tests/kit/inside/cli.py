"""Private names of the command line that tests from elsewhere use."""

from __future__ import annotations

from amqp10.cli._lines import JSONLines
from amqp10.cli._main import Failure, run
from amqp10.cli._trace import command
from amqp10.cli._trace.analysis import analyze
from amqp10.cli._trace.command import Recording, TraceProxy, read_trace
from amqp10.cli._trace.page import page
from amqp10.engine.trace_analysis import Call, Frame, UnsettledNumbers, take_apart
