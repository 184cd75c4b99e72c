"""What `amqp10.cli` uses of telemetry beyond its public names.

It is not for users: any version may change it.
"""

from __future__ import annotations

from ._exporting import exporting_broker as exporting_broker
