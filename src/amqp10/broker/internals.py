"""What `amqp10.otel` uses of the broker beyond its public names.

It is not for users: any version may change it.
"""

from __future__ import annotations

from ._notices import dead_letter_observers as dead_letter_observers
