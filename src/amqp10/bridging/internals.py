"""What `amqp10 bridge` uses of the bridge beyond its public names.

It is not for users: any version may change it.
"""

from __future__ import annotations

from ._guarantee import Role as Role
from ._guarantee import reconnect_for as reconnect_for
