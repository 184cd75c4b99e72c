"""Names of the bridge for `amqp10 bridge` only: any version may change them."""

from __future__ import annotations

from ._guarantee import Role as Role
from ._guarantee import reconnect_for as reconnect_for
