"""What `amqp10.cli`, `amqp10.otel` and `amqp10.testing` use of the broker beyond its public names.

It is not for users: any version may change it.
"""

from __future__ import annotations

from ._log import dead_letter_observers as dead_letter_observers
from ._serving.memory_stream import MemoryStream as MemoryStream
from ._serving.memory_stream import memory_streams as memory_streams
from ._users.users import all_users as all_users
