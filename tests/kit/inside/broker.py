"""Private names of the broker that tests from elsewhere use."""

from __future__ import annotations

from amqp10.broker import _log as log
from amqp10.broker import _virtual_host_core as virtual_host_core
from amqp10.broker._admission import Admission
from amqp10.broker._errors import Refused
from amqp10.broker._filters.filter_set import read_filters
from amqp10.broker._filters.selector.parser import parse
from amqp10.broker._filters.selector.tokens import JMS, SQL, Grammar, SelectorError
from amqp10.broker._filters.selector.values import Candidate, like
from amqp10.broker._links import coordinator, destinations
from amqp10.broker._management.http import Management
from amqp10.broker._management.requests import Requests, check_owner
from amqp10.broker._peer import Peer, PeerTerms
from amqp10.broker._queues.arguments import QueueDeclaration
from amqp10.broker._queues.duplicates import remembered
from amqp10.broker._queues.message import QueuedMessage
from amqp10.broker._queues.node import Limits, Node, Producer, QueueConsumer, QueueFull
from amqp10.broker._queues.pending import GIVEN_BACK
from amqp10.broker._queues.queue import Queue, QueueSettings
from amqp10.broker._queues.selection import Filtering
from amqp10.broker._queues.stream import Stream
from amqp10.broker._queues.topic import Topic
from amqp10.broker._requests.answers import MAX_OCTETS
from amqp10.broker._retained.links import LinkKey, ResumableLink, ResumableLinks
from amqp10.broker._retained.retained import Lifetime
from amqp10.broker._services import LinkService
from amqp10.broker._serving import connections, listeners, peer_connection
from amqp10.broker._serving.peer_connection import PeerConnection
from amqp10.broker._serving.peer_memory import PeerMemory
from amqp10.broker._serving.transport import PeerTransport
from amqp10.broker._store import store
from amqp10.broker._store.load import load
from amqp10.broker._store.store import Store
from amqp10.broker._store.tables import MessageRow, RecordRow, StoreFile
from amqp10.broker._tokens.grants import PeerTokens
from amqp10.broker._transactions.local import Work
from amqp10.broker._users.users import EVERYTHING, Rights
from amqp10.broker._virtual_host_core import VirtualHostCore, VirtualHostSettings
from amqp10.broker.azure._administration.administration import Administration
from amqp10.broker.azure._event_hubs import management
from amqp10.broker.azure._event_hubs.hub import Partition
from amqp10.broker.azure._links import NamespaceLinks
from amqp10.broker.azure._messages import BATCH_FORMAT, MAX_ADDED_PROPERTIES, MAX_IN_BATCH
from amqp10.broker.azure._namespace import Namespace
from amqp10.broker.azure._service_bus.entity import MAX_REASON_LENGTH, Entity
from amqp10.broker.azure._service_bus.groups import Receiver, SessionReceiver
