"""What `amqp10.worker` and `amqp10.spark` use of the client of Service Bus beyond its public names.

It is not for users: any version may change it.
"""

from __future__ import annotations

from .service_bus._bus import entity_of as entity_of
from .service_bus._errors import own_errors as own_errors
from .service_bus._holding import HeldMessages as HeldMessages
from .service_bus._management import EntityManagement as EntityManagement
from .service_bus._receiver import SESSION_FILTER as SESSION_FILTER
from .service_bus._receiver import session_on as session_on
