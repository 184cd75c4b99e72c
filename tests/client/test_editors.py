"""What an editor offers while a program is written, as pyright's language server says it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from amqp10 import DialectName

from ..kit.language_server import language_server

NAMES = {f'"{name}"' for name in get_args(DialectName)}
IN_QUOTES = [
    ('from amqp10 import Connection\nConnection("amqp://h", dialect="¦")\n', NAMES),
    ('from amqp10 import Connection\nConnection("amqp://h", dialect="¦\n', NAMES),
    ('from amqp10 import sync\nsync.Connection("amqp://h", dialect="¦")\n', NAMES),
    ('from amqp10 import Connection\nConnection.over(stream, dialect="¦")\n', NAMES - {'"auto"'}),
    ('from amqp10.broker import Broker\nBroker(port=0).connect(dialect="¦")\n', NAMES - {'"auto"'}),
    (
        'from amqp10 import Connection\nConnection("amqp://h").receiver("q", settle_mode="¦")\n',
        {'"unsettled"', '"settled"', '"mixed"'},
    ),
]
MEMBERS = [
    ('from amqp10 import Connection\nConnection("amqp://h", dialect="0-9-1").native.¦\n', "declare_queue"),
    ('from amqp10 import sync\nsync.Connection("amqp://h", dialect="0-10").native.¦\n', "declare_queue"),
    ('from amqp10 import Connection\nConnection.over(stream, dialect="fast").native.¦\n', "list"),
    ('from amqp10.broker import Broker\nBroker(port=0).connect(dialect="0-9").native.¦\n', "declare_queue"),
    ("from amqp10 import Connection\nConnection(¦)\n", "idle_timeout="),
    ("from amqp10 import Connection\nConnection(¦)\n", "dialect="),
]


@pytest.mark.slow
def test_completions(tmp_path: Path) -> None:
    """Within the quotes of `dialect` the names are offered, and behind `native` what that dialect has."""
    with language_server(tmp_path) as server:
        for program, names in IN_QUOTES:
            offered = server.complete(program)
            assert {each for each in offered if each.startswith('"')} == names, program
        for program, name in MEMBERS:
            assert name in server.complete(program), program
