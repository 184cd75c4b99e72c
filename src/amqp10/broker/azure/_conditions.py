"""The conditions of errors that the services have beside those of AMQP, and NOT_ALLOWED."""

from __future__ import annotations

from typing import Final

ALREADY_EXISTS: Final = "com.microsoft:entity-already-exists"
ARGUMENT_ERROR: Final = "com.microsoft:argument-error"
ARGUMENT_OUT_OF_RANGE: Final = "com.microsoft:argument-out-of-range"
ENTITY_DISABLED: Final = "com.microsoft:entity-disabled"
ENTITY_NOT_FOUND: Final = "com.microsoft:messaging-entity-not-found"
MESSAGE_LOCK_LOST: Final = "com.microsoft:message-lock-lost"
MESSAGE_NOT_FOUND: Final = "com.microsoft:message-not-found"
NOT_ALLOWED: Final = "amqp:not-allowed"
NO_MATCHING_SUBSCRIPTION: Final = "com.microsoft:no-matching-subscription"
SERVER_BUSY: Final = "com.microsoft:server-busy"
SESSION_CANNOT_BE_LOCKED: Final = "com.microsoft:session-cannot-be-locked"
SESSION_LOCK_LOST: Final = "com.microsoft:session-lock-lost"
TIMEOUT: Final = "com.microsoft:timeout"
