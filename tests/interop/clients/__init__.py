"""Other people's AMQP clients, each behind a program of ours that takes the same words; see README.md."""

from __future__ import annotations

from ._programs import AMQP091_GO as AMQP091_GO
from ._programs import AZURE_EVENTHUBS_JAVA as AZURE_EVENTHUBS_JAVA
from ._programs import AZURE_EVENTHUBS_JS as AZURE_EVENTHUBS_JS
from ._programs import AZURE_GO as AZURE_GO
from ._programs import AZURE_PROCESSOR_JS as AZURE_PROCESSOR_JS
from ._programs import AZURE_RUST as AZURE_RUST
from ._programs import AZURE_SERVICEBUS_JAVA as AZURE_SERVICEBUS_JAVA
from ._programs import AZURE_SERVICEBUS_JS as AZURE_SERVICEBUS_JS
from ._programs import AZURITE as AZURITE
from ._programs import PROGRAMS as PROGRAMS
from ._programs import PROTONJ2 as PROTONJ2
from ._programs import QPID_CLIENT as QPID_CLIENT
from ._programs import RABBITMQ_JAVA as RABBITMQ_JAVA
from ._programs import Kept as Kept
from ._programs import Program as Program
from ._programs import ProgramFailed as ProgramFailed
