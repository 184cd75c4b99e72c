"""Names of telemetry for `amqp10.cli` only: any version may change them."""

from __future__ import annotations

from ._exporting import exporting_broker as exporting_broker
