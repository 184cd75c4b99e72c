from __future__ import annotations

import pytest

from amqp10.broker import SasRule
from amqp10.broker.azure import connection_string


def test_connection_string() -> None:
    """It names the port, the rule and its key; TLS is what the SDK does unless it is told that this is an emulator."""
    assert connection_string("amqp://127.0.0.1:5673") == (
        "Endpoint=sb://127.0.0.1:5673;SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )
    assert connection_string("amqps://me:it@host/", SasRule("r", "k")) == (
        "Endpoint=sb://host;SharedAccessKeyName=r;SharedAccessKey=k;"
    )
    with pytest.raises(ValueError, match="begins with amqp:// or amqps://, not 'ws://host'"):
        connection_string("ws://host")
