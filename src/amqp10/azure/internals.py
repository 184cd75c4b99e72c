"""What `amqp10.worker` uses of the client of Service Bus beyond its public names.

It is not for users: any version may change it.
"""

from __future__ import annotations

from .service_bus._holding import HeldMessages as HeldMessages
from .service_bus._receiver import SESSION_FILTER as SESSION_FILTER
