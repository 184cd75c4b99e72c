"""Write docs/reference/azure-matrix.md: which behavior of Azure's services is proven with which SDK, and who deviates.

The registry of behaviors stands here: each has a name, a sentence, and the tests that prove it. A test is named by the
key of its file in `SOURCES`, and by its function or its row in a table of tests/interop/test_azure_sdks.py:
"queues.defer", "java.settle".

What the page says comes from a run: `make azure-matrix` runs these tests with pytest's `--junitxml=FILE` and gives FILE
to `--run`, which writes how each test ended into tests/interop/azure_results.json. The page is made from that file.

`--check` writes nothing, and runs nothing. It fails if the page is not what registry and results say, if a test that
is named is not there, if one that drives an SDK proves no behavior, if the results are of other tests than there are,
or if one of these did not pass.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
CLIENTS = TESTS / "interop" / "clients"
PAGE = ROOT / "docs" / "reference" / "azure-matrix.md"
RESULTS = TESTS / "interop" / "azure_results.json"
"""How each test ended when they were run last."""

INTRODUCTION = """\
# Azure: behaviors and SDKs

This page lists what Azure Service Bus and Event Hubs do. For each behavior it shows the SDKs with which a test proves
it. Each test drives an SDK, or this package's own client `amqp10.azure`, against the [emulator](../embedded/azure.md).
No test reaches Azure itself. `make test` runs all of them except those of Rust. `make nightly` runs these, because that
SDK compiles for minutes. `make azure-matrix` runs the tests and writes this page from the results.

- "yes": a test drives this SDK and checks the behavior, and it passed.
- "no": a test shows that this SDK behaves in another way, or the SDK has no call for it.
- An empty cell: no test drives this SDK there.
- A link leads to the description of a deviation.

[The tests](#the-tests) of each behavior are listed at the end.

"""


class Column(NamedTuple):
    """Somebody who drives the emulator."""

    title: str
    official: bool = True


COLUMNS = {
    "python": Column("Python"),
    "aio": Column("Python `aio`"),
    "javascript": Column("JavaScript"),
    "java": Column("Java"),
    "go": Column("Go"),
    "rust": Column("Rust"),
    "ours": Column("amqp10", official=False),
}


class Source(NamedTuple):
    """Where tests are: functions with the decorator `behavior`, functions `test_...`, or the rows of a table.

    Attributes:
        path: the file, beneath tests/.
        column: whom they drive.
        table: the name of the table.
        whole: whether each of its tests has to prove a behavior.
    """

    path: str
    column: str
    table: str = ""
    whole: bool = True


SOURCES = {
    "queues": Source("interop/test_azure_servicebus.py", "python"),
    "sessions": Source("interop/test_azure_sessions.py", "python"),
    "topics": Source("interop/test_azure_topics.py", "python"),
    "faults": Source("interop/test_azure_faults.py", "python"),
    "websocket": Source("interop/test_azure_websocket.py", "python", whole=False),
    "websocket-pairs": Source("interop/test_azure_websocket.py", "ours", whole=False),
    "administration": Source("interop/test_azure_administration.py", "python"),
    "async": Source("interop/test_azure_async.py", "aio"),
    "javascript": Source("interop/test_azure_sdks.py", "javascript", "JAVASCRIPT"),
    "javascript-hubs": Source("interop/test_azure_sdks.py", "javascript", "JAVASCRIPT_HUBS"),
    "java": Source("interop/test_azure_sdks.py", "java", "JAVA"),
    "java-hubs": Source("interop/test_azure_sdks.py", "java", "JAVA_HUBS"),
    "go": Source("interop/test_azure_sdks.py", "go", "GO"),
    "rust": Source("interop/test_azure_sdks.py", "rust", "RUST"),
    "pairs": Source("interop/test_azure_client.py", "ours"),
    "complaints": Source("interop/test_azure_complaints.py", "ours"),
    "bus-messages": Source("azure/service_bus/test_messages.py", "ours", whole=False),
    "bus-locks": Source("azure/service_bus/test_locks.py", "ours", whole=False),
    "bus-sessions": Source("azure/service_bus/test_sessions.py", "ours", whole=False),
    "bus-rules": Source("azure/service_bus/test_rules.py", "ours", whole=False),
    "bus-losses": Source("azure/service_bus/test_losses.py", "ours", whole=False),
    "bus-refusals": Source("azure/service_bus/test_refusals.py", "ours", whole=False),
    "bus-transactions": Source("azure/service_bus/test_transactions.py", "ours", whole=False),
    "hubs": Source("interop/test_azure_eventhub.py", "python"),
    "hubs-async": Source("interop/test_azure_eventhub_async.py", "aio"),
    "hub-pairs": Source("interop/test_azure_eventhub_client.py", "ours"),
    "hub": Source("azure/event_hubs/test_event_hubs.py", "ours", whole=False),
    "kept": Source("broker/azure/test_store.py", "ours", whole=False),
    "processor": Source("azure/processor/test_processor.py", "ours", whole=False),
    "blobs": Source("interop/test_azure_processor.py", "ours", whole=False),
    "blobs-python": Source("interop/test_azure_processor.py", "python", whole=False),
}
RUNNERS = {
    "test_behavior",
    "test_java",
    "test_javascript",
    "test_javascript_hubs",
    "test_java_hubs",
    "test_go",
    "test_rust",
}
"""Tests that run what is decorated, or what is in a table."""


class Behavior(NamedTuple):
    """A row of the page."""

    name: str
    sentence: str
    tests: str
    """Those that prove it, by their names in `SOURCES`."""


B = Behavior
SERVICE_BUS = {
    "Connections and rights": [
        B(
            "connection string",
            "A connection string of the emulator is enough to send and receive",
            "queues.send_receive_complete async.send_receive_complete javascript.settle java.settle go.settle "
            "pairs.sent_by_theirs",
        ),
        B(
            "connection string of an entity",
            "`EntityPath` names the entity, and the client refuses any other",
            "bus-refusals.the_entity_of_the_connection_string",
        ),
        B("TLS", "With TLS the client checks who signed the certificate", "websocket.with_tls"),
        B(
            "WebSocket",
            "AMQP comes through a WebSocket, without TLS",
            "websocket.without_tls websocket-pairs.service_bus_both_ways",
        ),
        B(
            "WebSocket with TLS",
            "AMQP comes through a WebSocket, with TLS",
            "websocket.with_tls websocket-pairs.service_bus_both_ways",
        ),
        B(
            "large message",
            "A message of 500,000 octets can be sent and received",
            "websocket.without_tls websocket-pairs.service_bus_both_ways",
        ),
        B(
            "rights",
            "A key that only allows listening cannot send",
            "queues.rights bus-refusals.a_token_that_does_not_allow_it",
        ),
        B("wrong key", "A client with an unknown key may do nothing", "queues.rights bus-refusals.a_wrong_key"),
        B(
            "missing entity",
            "The error for a missing entity says that it is missing",
            "queues.missing_entity async.missing_entity javascript.missing go.missing bus-refusals.refused",
        ),
        B(
            "capitals",
            "Names of entities ignore case",
            "queues.send_receive_complete topics.every_subscription administration.queue_as_configured "
            "bus-refusals.the_entity_of_the_connection_string",
        ),
    ],
    "Messages": [
        B(
            "fields",
            "A message arrives with the body and the properties that it was sent with",
            "queues.send_receive_complete pairs.sent_by_theirs pairs.sent_by_ours "
            "complaints.properties_have_the_types_that_were_sent",
        ),
        B(
            "durations and URIs",
            "Properties that are durations, times with an offset or URIs arrive as they were sent",
            "java.described pairs.described_properties",
        ),
        B(
            "what the service adds",
            "A message has a sequence number, the time when it arrived, and the end of its lock",
            "queues.send_receive_complete bus-messages.a_message_and_what_the_service_says_of_it",
        ),
        B(
            "annotations",
            "Annotations of a sender come with its message, and the lock token is beside them",
            "queues.own_annotations java.annotations",
        ),
        B(
            "batch",
            "The messages of a batch arrive one by one, in order",
            "queues.batches async.send_receive_complete javascript.batch go.batch pairs.batches",
        ),
        B(
            "size of a batch",
            "A batch refuses a message that would make it too large",
            "pairs.a_batch_is_as_large_as_theirs bus-messages.batches_know_their_size",
        ),
        B("count of a batch", "A batch has 4,500 messages at most", "bus-messages.a_batch_is_full_by_count"),
        B(
            "complete",
            "A completed message is gone",
            "queues.send_receive_complete async.send_receive_complete javascript.settle java.settle go.settle "
            "pairs.sent_by_theirs",
        ),
        B("complete many", "One call completes several messages", "bus-messages.several_are_completed_at_once"),
        B(
            "receive and delete",
            "A message is gone as soon as it is delivered",
            "queues.batches pairs.received_and_deleted",
        ),
        B(
            "abandon",
            "An abandoned message is delivered again, and the attempt is counted",
            "queues.abandon_until_dead async.abandon_and_dead_letter javascript.settle java.settle go.settle "
            "pairs.settled_by_ours pairs.settled_by_theirs",
        ),
        B(
            "abandon with properties",
            "An abandoned message has the properties that the receiver gave it",
            "javascript.settle go.settle pairs.settled_by_ours",
        ),
        B(
            "delivery limit",
            "After its last attempt a message is a dead letter that says so",
            "queues.abandon_until_dead async.abandon_and_dead_letter",
        ),
        B(
            "dead letter",
            "A dead letter has the reason that the receiver gave",
            "queues.dead_letter async.abandon_and_dead_letter javascript.settle java.settle go.settle "
            "pairs.settled_by_ours pairs.settled_by_theirs",
        ),
        B(
            "description of a dead letter",
            "A dead letter has a description beside its reason",
            "queues.dead_letter javascript.settle go.settle pairs.settled_by_ours pairs.settled_by_theirs",
        ),
        B(
            "source of a dead letter",
            "A dead letter that was passed on names the entity where it died",
            "topics.forwarded_dead_letters",
        ),
        B(
            "defer",
            "A deferred message is received by its number",
            "queues.defer async.defer javascript.settle java.settle go.settle pairs.settled_by_ours "
            "pairs.settled_by_theirs",
        ),
        B(
            "deferred only by number",
            "A receiver gets a deferred message only if it asks for it",
            "queues.defer async.defer",
        ),
        B(
            "settle what was deferred",
            "A deferred message that was received is completed through the management node",
            "queues.defer async.defer javascript.settle java.settle go.settle bus-messages.deferred_and_dead",
        ),
        B(
            "deferred and gone",
            "A deferred message that was completed is not found",
            "queues.defer pairs.settled_by_theirs",
        ),
        B(
            "peek",
            "Peeking shows messages and takes none",
            "queues.peek javascript.schedule java.schedule go.schedule bus-messages.deferred_and_dead",
        ),
        B("peek on", "A second peek continues where the first one ended", "queues.peek"),
        B(
            "schedule",
            "A scheduled message has a sequence number, and peeking shows it",
            "queues.schedule_and_cancel javascript.schedule java.schedule go.schedule pairs.scheduled_by_ours "
            "pairs.scheduled_by_theirs",
        ),
        B(
            "scheduled message comes",
            "A scheduled message arrives when it is due, and not before",
            "queues.schedule_and_cancel async.schedule_and_cancel pairs.scheduled_by_theirs",
        ),
        B(
            "cancel",
            "A scheduled message that was canceled never arrives",
            "queues.schedule_and_cancel async.schedule_and_cancel javascript.schedule java.schedule go.schedule "
            "pairs.scheduled_by_ours pairs.scheduled_by_theirs",
        ),
        B(
            "cancel twice",
            "Canceling a second time finds no message",
            "queues.schedule_and_cancel pairs.scheduled_by_ours",
        ),
        B("duplicates", "A message that is sent twice within the window is dropped", "queues.duplicates"),
        B("time to live", "A message becomes a dead letter when it is too old", "queues.expired"),
        B(
            "fetched ahead",
            "When a receiver closes, the messages that it prefetched are free for others",
            "queues.closed_receiver_releases complaints.closing_gives_back_what_was_fetched "
            "bus-messages.leaving_gives_back_what_nobody_took",
        ),
        B(
            "no more than asked for",
            "Only messages that were asked for are locked",
            "bus-messages.receiving_asks_for_what_is_wanted",
        ),
        B("handler", "A handler gets messages and completes them", "javascript.processor"),
        B("delete many", "One request deletes the oldest messages", "bus-messages.many_are_deleted"),
        B("no room", "A full queue refuses messages until some leave", "faults.no_room"),
    ],
    "Locks": [
        B(
            "renew",
            "A renewed lock ends later",
            "queues.renew async.locks javascript.renew go.renew pairs.locks",
        ),
        B("renew many", "Locks are renewed by several threads at once", "queues.renewed_in_threads"),
        B(
            "lost lock",
            "A message whose lock has ended cannot be completed",
            "queues.lost_lock async.locks go.lose pairs.locks",
        ),
        B(
            "lost lock comes again",
            "A message whose lock has ended comes again",
            "queues.lost_lock async.locks go.lose pairs.locks",
        ),
        B(
            "lost lock is not renewed",
            "A lock that has ended cannot be renewed",
            "queues.lost_lock go.lose bus-locks.what_a_kept_block_raises",
        ),
        B(
            "lock kept",
            "The client renews a lock by itself while the work goes on",
            "async.renewer bus-locks.a_lock_is_renewed_while_a_block_runs complaints.a_renewer_keeps_what_is_done",
        ),
        B(
            "lost lock ends the work",
            "Work on a message whose lock is lost is canceled",
            "complaints.work_on_a_message_whose_lock_is_lost bus-locks.a_lock_that_is_lost_cancels_the_block",
        ),
        B(
            "wrong clock",
            "A client whose clock is wrong settles what the service still has locked",
            "complaints.a_lock_that_looks_expired bus-locks.a_clock_that_is_wrong",
        ),
        B(
            "lock outlives its link",
            "A message is settled after its link has ended",
            "faults.settled_after_detach complaints.a_receiver_that_was_idle bus-losses.a_lock_outlives_its_link",
        ),
        B(
            "lock outlives its connection",
            "A message is settled over the next connection",
            "bus-losses.a_lock_outlives_its_connection",
        ),
        B(
            "lock ends while another waits",
            "A receiver that waits gets the message as soon as its lock ends",
            "faults.moved_clock",
        ),
    ],
    "Sessions": [
        B(
            "session by its id",
            "A receiver of a session gets its messages in order, and no others",
            "sessions.named async.session javascript.sessions java.sessions go.sessions pairs.a_session_of_ours",
        ),
        B(
            "next session",
            "A receiver that asks for any session gets a free one",
            "sessions.next_free async.session javascript.sessions java.sessions go.sessions pairs.a_session_of_theirs",
        ),
        B(
            "no next session",
            "If no session is free, the client says so after its time-out",
            "sessions.next_free async.no_session bus-sessions.sessions",
        ),
        B("wait for a session", "A receiver that waits for any session gets the first one", "sessions.next_to_come"),
        B(
            "session is locked",
            "A session that one receiver holds is refused to others",
            "sessions.held_by_one javascript.sessions pairs.a_session_of_ours pairs.a_session_of_theirs",
        ),
        B(
            "renew a session",
            "The lock of a session is renewed",
            "sessions.lock_is_told javascript.sessions go.sessions bus-sessions.sessions",
        ),
        B("session kept", "The client renews the lock of a session by itself", "sessions.renewer"),
        B(
            "worker on sessions",
            "A worker handles several sessions at a time, each in order",
            "pairs.a_worker_on_sessions",
        ),
        B(
            "lost session",
            "A receiver that has lost its session gets an error",
            "sessions.lost_lock async.session bus-sessions.a_session_that_is_lost",
        ),
        B(
            "lost session is not renewed",
            "The lock of a lost session cannot be renewed",
            "sessions.lost_lock_is_not_renewed bus-sessions.a_session_that_is_lost",
        ),
        B(
            "session ends with its connection",
            "A session is lost with its connection",
            "bus-losses.a_session_does_not_outlive_its_connection",
        ),
        B("closed session", "A session is free as soon as its receiver closes", "sessions.closed_session"),
        B(
            "order after abandon",
            "An abandoned message comes before those behind it",
            "sessions.order_after_abandon",
        ),
        B(
            "state",
            "The next receiver of a session finds its state",
            "sessions.states async.session javascript.sessions java.sessions go.sessions pairs.a_session_of_ours",
        ),
        B("list sessions", "Sessions are listed", "sessions.listed go.sessions bus-sessions.sessions"),
        B(
            "list by time",
            "The list can be limited to sessions whose state is newer than a given time",
            "sessions.listed bus-sessions.sessions pairs.a_session_of_theirs",
        ),
        B(
            "list many sessions",
            "A list may be longer than one answer",
            "sessions.listed_in_pages pairs.sessions_listed_by_both",
        ),
        B(
            "deferred in a session",
            "A deferred message of a session is received with that session",
            "sessions.deferred bus-sessions.sessions",
        ),
        B(
            "peek in a session",
            "Peeking shows only the messages of the session",
            "sessions.peeked bus-sessions.sessions",
        ),
        B("dead letter of a session", "A dead letter keeps its session id", "sessions.dead_letter"),
        B("scheduled in a session", "A scheduled message arrives in its session when it is due", "sessions.scheduled"),
        B(
            "session required",
            "If an entity requires sessions, it refuses a receiver without one",
            "sessions.no_session bus-refusals.refused",
        ),
        B("no sessions here", "An entity without sessions refuses a receiver that asks for one", "sessions.no_session"),
        B(
            "sessions in turn",
            "One receiver takes many sessions in turn, and never confuses their messages",
            "sessions.many",
        ),
        B(
            "several at once",
            "Several messages of a session can be handled at once",
            "pairs.several_of_a_session_at_once bus-sessions.sessions complaints.several_messages_of_one_session",
        ),
    ],
    "Topics and rules": [
        B(
            "copy for each subscription",
            "Each subscription whose rules match gets a copy",
            "topics.every_subscription pairs.rules_of_ours",
        ),
        B(
            "SQL filter",
            "A subscription gets the messages that match its SQL filter",
            "topics.conditions async.topic_and_rules javascript.subscribe go.subscribe pairs.rules_of_ours",
        ),
        B("system properties", "SQL filters read `sys.` and `user.` properties", "topics.conditions"),
        B("LIKE", "SQL filters have LIKE with ESCAPE", "topics.conditions"),
        B("IN", "SQL filters have IN and NOT IN", "topics.conditions"),
        B("IS NULL, EXISTS", "SQL filters can test whether a property exists", "topics.conditions"),
        B("arithmetic", "SQL filters compute with numbers", "topics.conditions"),
        B("quoted names", "SQL filters can read properties with any name", "topics.conditions"),
        B("unknown values", "A comparison with a missing property is not true", "topics.conditions"),
        B(
            "correlation filter",
            "A correlation filter matches messages that are equal in every field that it names",
            "topics.correlation pairs.rules_of_ours bus-rules.rules",
        ),
        B(
            "action",
            "An action changes the copy that its rule makes",
            "topics.action pairs.rules_of_ours bus-rules.rules",
        ),
        B(
            "several rules",
            "Matching rules without actions make one copy together. Each matching rule with an action makes its own",
            "topics.several_actions",
        ),
        B(
            "change rules",
            "A rule applies from the moment it is added until it is removed",
            "topics.rules_added_and_removed bus-rules.rules",
        ),
        B(
            "rule twice",
            "A second rule with the same name is refused",
            "topics.rules_added_and_removed bus-rules.rules",
        ),
        B(
            "list rules",
            "Rules are listed as they were created",
            "topics.rules_enumerated javascript.subscribe bus-rules.rules",
        ),
        B("wrong rule", "An invalid rule is refused", "topics.wrong_rules bus-rules.rules"),
        B(
            "filter errors",
            "If a rule fails on a message, the message becomes a dead letter or is left out, as configured",
            "topics.filter_errors",
        ),
        B(
            "dead letters of a subscription",
            "Each subscription has its own dead letters",
            "topics.own_dead_letters",
        ),
        B("duplicates in a topic", "A topic drops a message that is sent twice", "topics.duplicates"),
        B("time to live in a topic", "Messages live as long as their topic allows", "topics.time_to_live"),
        B("scheduled in a topic", "A topic keeps a scheduled message until it is due", "topics.scheduled"),
        B("sessions of a subscription", "A subscription can have sessions, like a queue", "topics.sessions"),
        B("forward", "Queues and subscriptions can forward messages", "topics.forwarded administration.forwarding"),
        B("forward dead letters", "Dead letters can be forwarded, with their reason", "topics.forwarded_dead_letters"),
        B(
            "transfer dead letter",
            "A message that cannot be forwarded becomes a transfer dead letter",
            "topics.not_forwarded",
        ),
        B(
            "closed addresses",
            "Receiving from a topic and sending to a subscription are refused",
            "topics.closed_addresses",
        ),
    ],
    "Transactions": [
        B(
            "send and commit",
            "The messages of a transaction appear together, when it is committed",
            "java.send-and-commit",
        ),
        B(
            "send and roll back",
            "The messages of a transaction that is rolled back never appear",
            "java.send-and-roll-back",
        ),
        B("settle and commit", "Outcomes take effect when the transaction is committed", "java.settle-and-commit"),
        B("settle and roll back", "Outcomes that are rolled back have no effect", "java.settle-and-roll-back"),
        B(
            "schedule and commit",
            "Messages have their numbers at once, and are scheduled when the transaction is committed",
            "java.schedule-and-commit bus-transactions.what_goes_through_the_management_node",
        ),
        B(
            "schedule and roll back",
            "Messages that are rolled back are never scheduled, and their numbers are not used again",
            "java.schedule-and-roll-back bus-transactions.what_goes_through_the_management_node",
        ),
        B(
            "settle deferred and commit",
            "Outcomes of deferred messages count when the transaction is committed",
            "java.deferred-and-commit bus-transactions.what_goes_through_the_management_node",
        ),
        B(
            "settle deferred and roll back",
            "Outcomes of deferred messages that are rolled back do not count, and the messages stay locked",
            "java.deferred-and-roll-back bus-transactions.what_goes_through_the_management_node",
        ),
        B(
            "across and commit",
            "A commit completes a message in one entity and sends one to another",
            "java.across-and-commit bus-transactions.from_one_entity_to_another",
        ),
        B(
            "across and roll back",
            "A rollback does neither",
            "java.across-and-roll-back bus-transactions.from_one_entity_to_another",
        ),
        B(
            "via a missing entity",
            "Sending via a missing entity is refused",
            "bus-transactions.sending_via_another_entity_is_refused",
        ),
        B("transaction is over", "A message for a transaction that is over is refused", "java.transaction-over"),
    ],
    "Administration": [
        B(
            "configured queue",
            "A queue from the configuration has the settings given there",
            "administration.queue_as_configured",
        ),
        B(
            "create a queue",
            "A new queue has the settings that were asked for, and takes messages at once",
            "administration.create_queue javascript.administer",
        ),
        B(
            "create twice",
            "A second entity with the same name is refused",
            "administration.create_twice javascript.administer",
        ),
        B(
            "settings without effect",
            "What has no effect here is returned as it was given, such as authorization rules",
            "administration.settings_without_effect",
        ),
        B(
            "impossible settings",
            "Duplicate detection cannot be changed, and an entity with sessions cannot forward",
            "administration.what_cannot_be",
        ),
        B("nothing there", "A missing entity is not found", "administration.missing"),
        B("update a queue", "New settings apply from then on", "administration.update_queue javascript.administer"),
        B(
            "delete a queue",
            "A queue that is deleted is gone with its messages",
            "administration.delete_queue javascript.administer",
        ),
        B("list entities", "All entities are listed, even over many pages", "administration.lists"),
        B(
            "counts",
            "The number of messages in each state can be read",
            "administration.runtime_properties javascript.administer",
        ),
        B(
            "topics and subscriptions",
            "Topics and subscriptions can be created, changed and deleted",
            "administration.topics_and_subscriptions",
        ),
        B("rules by HTTP", "Rules are listed as they were created", "administration.rules javascript.administer"),
        B("parameters", "SQL filters and actions can have parameters", "administration.rules"),
        B("wrong rules by HTTP", "An invalid rule is refused", "administration.wrong_rules"),
        B("target deleted", "A queue keeps what it cannot forward", "administration.target_deleted"),
        B("disabled", "The error of a disabled queue says that it is disabled", "administration.disabled"),
        B("namespace", "The properties of the namespace can be read", "administration.namespace javascript.administer"),
        B("right to manage", "A client without the right to manage is refused", "administration.rights"),
    ],
    "Faults and time": [
        B(
            "idle receiver",
            "A receiver that was detached after ten idle minutes continues",
            "faults.idle_receiver bus-messages.settled_on_an_idle_link bus-messages.waiting_on_an_idle_link "
            "complaints.a_receiver_that_was_idle complaints.waiting_on_a_link_that_is_detached",
        ),
        B(
            "idle sender",
            "A sender that was detached after ten idle minutes continues",
            "faults.idle_sender bus-messages.settled_on_an_idle_link",
        ),
        B(
            "renewal is a use",
            "Renewing a lock counts as use of the link",
            "faults.renewal_is_a_use",
        ),
        B("link detached by a test", "A test can end a link with any condition", "faults.stolen"),
        B(
            "lock lost by a test",
            "A test can take away a lock",
            "faults.lock_lost pairs.locks bus-messages.several_are_completed_at_once",
        ),
        B(
            "session lost by a test",
            "A test can take away a session",
            "faults.session_lost bus-sessions.a_session_that_is_lost",
        ),
        B(
            "busy",
            "A test can make the service refuse as busy, any number of times",
            "faults.busy bus-refusals.refused",
        ),
        B(
            "restart",
            "After a restart, all messages are as before",
            "queues.restart kept.all_of_them kept.what_was_told_is_there",
        ),
        B("locks and a restart", "A lock survives a restart", "queues.restart kept.locks"),
        B("sessions and a restart", "The state of a session survives a restart", "queues.restart kept.state"),
        B("rules and a restart", "Added and removed rules survive a restart", "kept.rules"),
        B(
            "other refusals",
            "A test can refuse requests, messages and links with any condition, and end links with it",
            "faults.conditions_of_requests faults.conditions_of_messages faults.conditions_of_links "
            "faults.conditions_of_detached_links",
        ),
        B(
            "tokens end",
            "When the tokens expire, links are detached",
            "faults.tokens_ended",
        ),
        B(
            "failing credential",
            "If a credential fails for a while, the token is renewed when it works again, and links stay",
            "complaints.a_credential_that_fails_once bus-refusals.a_credential_that_fails_for_a_while",
        ),
        B(
            "next token",
            "After that, a new link sends a new token",
            "faults.tokens_ended bus-refusals.a_token_that_the_service_ends_early",
        ),
    ],
}
EVENT_HUBS = {
    "Connections and rights": [
        B(
            "connection string",
            "A connection string of the emulator is enough to send and read",
            "hubs.event_as_sent hubs-async.send_and_read go.hub-positions hub-pairs.ours_to_theirs "
            "javascript-hubs.batch java-hubs.batch rust.positions",
        ),
        B("capitals", "Names of hubs and groups ignore case", "hubs.capitals"),
        B(
            "missing hub",
            "The error for a missing hub says that it is missing",
            "hubs.no_such_hub hub.refused javascript-hubs.missing java-hubs.missing rust.missing",
        ),
        B("missing group", "The error for a missing consumer group says so", "hubs.no_such_group hub.nothing_there"),
        B(
            "missing partition",
            "The error for a missing partition says so",
            "hubs.no_such_partition hub.nothing_there hub.refused",
        ),
        B("rights", "A key that allows sending does not allow listening, and the reverse", "hubs.rights"),
        B("wrong key", "A client with an unknown key may do nothing", "hubs.wrong_key"),
        B(
            "WebSocket",
            "AMQP comes through a WebSocket, without TLS",
            "websocket.event_hubs_both_ways websocket-pairs.event_hubs_both_ways",
        ),
        B(
            "WebSocket with TLS",
            "AMQP comes through a WebSocket, with TLS",
            "websocket.event_hubs_both_ways websocket-pairs.event_hubs_both_ways",
        ),
    ],
    "Sending": [
        B(
            "event",
            "An event arrives as it was sent",
            "hubs.event_as_sent hub-pairs.ours_to_theirs javascript-hubs.event java-hubs.event rust.event",
        ),
        B(
            "what the service adds",
            "An event has a sequence number, an offset and the time when it arrived",
            "hubs.event_as_sent hub-pairs.theirs_to_ours javascript-hubs.event java-hubs.event rust.event",
        ),
        B(
            "other bodies",
            "A body may be something other than octets",
            "hubs.other_bodies hub.positions javascript-hubs.event java-hubs.event",
        ),
        B(
            "annotations",
            "Delivery annotations behind the body, where the SDK for Python puts them, come with the event",
            "hubs.own_annotations",
        ),
        B(
            "batch",
            "The events of a batch arrive one by one, in order",
            "hubs.batch_in_order hubs-async.send_and_read go.hub-positions hub-pairs.ours_to_theirs "
            "hub-pairs.theirs_to_ours javascript-hubs.batch java-hubs.batch rust.positions",
        ),
        B(
            "one partition",
            "A sender can choose the partition of its events",
            "hubs.batch_in_order hubs-async.send_and_read go.hub-positions hub.partition_by_number "
            "javascript-hubs.batch java-hubs.batch rust.positions",
        ),
        B(
            "partition key",
            "All events with the same key are in one partition, in order",
            "hubs.batch_by_key go.hub-keys hub-pairs.same_partition hub.key javascript-hubs.keys java-hubs.keys "
            "rust.keys",
        ),
        B("keys are spread", "Keys are spread over all partitions", "hubs.keys_spread"),
        B("no key", "Events without a key go to the partitions in turn", "hubs.without_key_in_turn"),
        B("publisher", "The events of a publisher have its name as their key", "hub.publisher"),
        B(
            "buffered producer",
            "A buffered producer reports every event that it sent",
            "hubs.buffered_producer hubs-async.buffered javascript-hubs.buffered",
        ),
        B("full batch", "A batch can hold 1 MiB", "hubs.full_batch hub.full_batch"),
        B("event too large", "A larger event is refused", "hubs.too_large"),
        B("many senders", "Many senders fill one partition without gaps or duplicates", "hubs.many_at_once"),
    ],
    "Reading": [
        B(
            "first event",
            "A reader can begin with the first event",
            "hubs.first_and_next go.hub-positions hub.positions javascript-hubs.batch java-hubs.batch rust.positions",
        ),
        B(
            "next event",
            "A reader can begin with the next event to arrive",
            "hubs.first_and_next hub-pairs.while_they_send hub.from_now_on javascript-hubs.latest",
        ),
        B(
            "sequence number",
            "A reader can begin at or after a sequence number",
            "hubs.by_sequence_number hubs-async.position go.hub-positions hub.positions "
            "javascript-hubs.positions java-hubs.positions rust.positions",
        ),
        B(
            "offset",
            "A reader can begin at or after an offset",
            "hubs.by_offset go.hub-positions hub-pairs.checkpoints hub.positions "
            "javascript-hubs.positions java-hubs.positions rust.positions",
        ),
        B(
            "time",
            "A reader can begin with the events after a given time",
            "hubs.by_time hub.positions javascript-hubs.positions java-hubs.positions rust.positions",
        ),
        B(
            "position of each partition",
            "A reader can have a different position in each partition",
            "hubs.for_each_partition",
        ),
        B("beyond the end", "A position beyond the last event is refused", "hubs.beyond_the_end"),
        B(
            "as they come",
            "A waiting reader gets events as they are sent",
            "hubs.as_they_come hub-pairs.while_they_send",
        ),
        B(
            "all partitions",
            "One consumer can read all partitions, each in order",
            "hubs.all_partitions hubs-async.send_and_read processor.all_in_order javascript-hubs.keys java-hubs.keys",
        ),
        B("batches of events", "A reader can get several events at once", "hub.batches processor.batches_and_threads"),
        B(
            "consumer groups",
            "Each consumer group reads all events",
            "hubs.groups_apart hub.positions",
        ),
        B(
            "last event",
            "A reader can ask for facts about the last event of the partition",
            "hubs.last_event_tracked hub-pairs.last_event hub.last_event javascript-hubs.last java-hubs.last",
        ),
        B(
            "retention",
            "Events are removed when they are older than the retention time",
            "hubs.retention hub.partition",
        ),
        B("canceled receive", "A canceled receive loses no event", "hub.cancelled"),
    ],
    "Owner levels": [
        B(
            "higher level",
            "A reader with a higher owner level takes over the partition",
            "hubs.higher_level_steals hubs-async.stolen go.hub-owner hub-pairs.they_steal hub.owner_levels "
            "javascript-hubs.owner java-hubs.owner rust.owner",
        ),
        B(
            "same level",
            "A reader with the same level takes over the partition",
            "hubs.same_level_steals hub-pairs.we_steal",
        ),
        B(
            "lower level",
            "A reader with a lower level is refused",
            "hubs.lower_level_kept_out hubs-async.lower_level_kept_out hub.owner_levels",
        ),
        B("level and none", "A reader with a level displaces readers without one", "hubs.level_puts_out_others"),
        B("end of a level", "When a reader is gone, its level no longer counts", "hubs.level_ends_with_its_reader"),
        B("level of a group", "A level applies to one partition and one consumer group", "hubs.level_of_a_group"),
        B("five readers", "A partition allows five readers without a level", "hubs.five_readers hub.too_many"),
    ],
    "Metadata": [
        B(
            "hub",
            "The name and the partitions of a hub can be read",
            "hubs.hub_properties hubs-async.properties go.hub-properties hub-pairs.same_properties "
            "javascript-hubs.properties java-hubs.properties rust.properties",
        ),
        B(
            "partition",
            "The first and last event of a partition can be read, and whether it is empty",
            "hubs.partition_properties hubs-async.properties go.hub-properties hub-pairs.same_properties "
            "javascript-hubs.properties java-hubs.properties rust.properties",
        ),
    ],
    "Faults": [
        B("busy", "A test can make a hub refuse as busy, any number of times", "hubs.busy hub.busy"),
        B(
            "restart",
            "After a restart, all events keep their numbers, and the next event gets the next number",
            "queues.restart kept.events",
        ),
        B(
            "detached reader",
            "A detached reader continues where it was",
            "hubs.detached_reader hub.detached",
        ),
        B("detached sender", "A detached sender continues", "hubs.detached_sender"),
        B("lost connection", "After a lost connection, no event is missing and none arrives twice", "hub.goes_on"),
        B("tokens end", "When the tokens expire, readers get an error and then continue", "hubs.tokens_ended"),
    ],
    "Processors": [
        B(
            "shared partitions",
            "Two processors with one store share the partitions",
            "hubs.two_processors processor.share",
        ),
        B(
            "checkpoints",
            "A processor continues where another one stopped",
            "hubs.two_processors processor.all_in_order",
        ),
        B("dead owner", "Other processors take over the partitions of a dead one", "processor.dead_owner"),
        B(
            "taken by force",
            "A processor gives way to a reader with a higher level",
            "processor.stolen",
        ),
        B("store fails", "A processor survives a short failure of its store", "processor.store_fails"),
        B(
            "store in blobs",
            "Microsoft's store and ours read the same leases and checkpoints in blobs",
            "blobs-python.blobs blobs.blobs",
        ),
        B(
            "processors of two clients",
            "Microsoft's processor and ours can share a hub, and every event is handled",
            "blobs-python.shared_hub blobs.shared_hub",
        ),
        B("no store", "A store that cannot be reached raises an error", "blobs.no_storage"),
    ],
}
SERVICES = {"Service Bus": SERVICE_BUS, "Event Hubs": EVENT_HUBS}


class Deviation(NamedTuple):
    """What an SDK does otherwise.

    Attributes:
        name: what the cells of the page call it.
        who: columns.
        behaviors: "Service Bus: renew", separated by ";".
        what: what is otherwise.
        why: the reason, as far as it is known.
        tests: what shows it, if something does; as in `Behavior.tests`.
        absent: whether the behavior is not there, although tests of other names may drive the SDK.
    """

    name: str
    who: str
    behaviors: str
    what: str
    why: str
    tests: str = ""
    absent: bool = False


TRANSACTIONS = "; ".join(f"Service Bus: {each.name}" for each in SERVICE_BUS["Transactions"])
ADMINISTRATION = "; ".join(f"Service Bus: {each.name}" for each in SERVICE_BUS["Administration"])
DEVIATIONS = [
    Deviation(
        "no transactions",
        "python aio javascript go",
        TRANSACTIONS,
        "The SDK has no transactions, so nothing can be proven with it",
        "Of the SDKs driven here, only the one for Java has them in its version",
        absent=True,
    ),
    Deviation(
        "refusal not told",
        "java",
        "Service Bus: transaction is over",
        "The emulator refuses a message for a transaction that is over, and `sendMessage` returns as if it were sent",
        "The SDK does not pass this rejection on. The test looks into the queue instead",
        "java.transaction-over",
    ),
    Deviation(
        "no login",
        "python aio rust",
        "Service Bus: missing entity; Event Hubs: missing hub",
        "A missing entity raises the error of a wrong login: `ServiceBusAuthenticationError`, `AuthenticationError`",
        "`$cbs` answers 404 to a token for it, as in Azure, and the SDK takes each such answer for a wrong token",
        "queues.missing_entity async.missing_entity hubs.no_such_hub rust.missing",
    ),
    Deviation(
        "HTTPS only",
        "python javascript",
        "Service Bus: create a queue",
        "Its administration client requires HTTPS: give the emulator a certificate",
        "It puts `https://` before every name. The emulator also answers by HTTP",
        "administration.create_queue javascript.administer",
    ),
    Deviation(
        "address beside the name",
        "python",
        "Service Bus: TLS; Service Bus: WebSocket with TLS; Event Hubs: WebSocket with TLS",
        "With TLS it ignores the port of a connection string: set `custom_endpoint_address`",
        "In Azure the port is always the same",
        "websocket.with_tls websocket.event_hubs_both_ways",
    ),
    Deviation(
        "rules by HTTP only",
        "python",
        "Service Bus: change rules; Service Bus: rule twice; Service Bus: list rules; Service Bus: wrong rule",
        "It has no calls for rules by AMQP. The tests send these requests over its own link",
        "Its administration client has these calls",
        "topics.rules_added_and_removed",
    ),
    Deviation(
        "octets for strings",
        "python",
        "Service Bus: fields",
        "Names of application properties, and strings among their values, come as `bytes`",
        "Its former AMQP library did the same",
        "complaints.properties_have_the_types_that_were_sent",
    ),
    Deviation(
        "renewer grows",
        "aio",
        "Service Bus: lock kept",
        "Until it is closed, its renewer keeps an entry for every message that it ever had",
        "It does not remove finished tasks from its list",
        "complaints.a_renewer_keeps_what_is_done",
    ),
    Deviation(
        "own clock",
        "python",
        "Service Bus: wrong clock",
        "If the clock of the machine is 70 s fast, it refuses to complete a message that is locked for 60 s",
        "It compares the end of a lock with that clock, and does not ask the service",
        "complaints.a_lock_that_looks_expired",
        absent=True,
    ),
    Deviation(
        "work goes on",
        "python",
        "Service Bus: lost lock ends the work",
        "Work on a message goes on after its lock is lost, until the message is settled",
        "Its renewer runs in a thread of its own, and cannot cancel the program's work",
        "complaints.work_on_a_message_whose_lock_is_lost",
        absent=True,
    ),
    Deviation(
        "credential raises",
        "python",
        "Service Bus: failing credential",
        "If the credential fails when the token is due, the next call raises its error",
        "It asks for the token within that call, and not in the background",
        "complaints.a_credential_that_fails_once",
        absent=True,
    ),
    Deviation(
        "one send fails",
        "python",
        "Service Bus: idle sender",
        "The first send on a link that was idle raises `ServiceBusConnectionError`; the next one attaches another link",
        "It notices the end of its link when it sends. The test runs it without retries",
        "faults.idle_sender",
    ),
    Deviation(
        "asks first",
        "python",
        "Event Hubs: missing partition",
        "It refuses a missing partition itself, with an error of its own",
        "Before it reads or sends, it asks for the list of partitions",
        "hubs.no_such_partition",
    ),
    Deviation(
        "address of an emulator",
        "rust",
        "Event Hubs: connection string",
        "It takes only the host from a connection string: pass `amqp://HOST:PORT` to `with_custom_endpoint`",
        "It is made for Azure, where the rest is always the same",
        "rust.positions",
    ),
    Deviation(
        "one link for all readers",
        "rust",
        "Event Hubs: sequence number; Event Hubs: offset; Event Hubs: time",
        "Readers of a partition that one client opened share a link, and so they share the position of the first one",
        "It finds its links by address. The test opens a client for each reader",
        "rust.positions",
    ),
    Deviation(
        "drops the connection",
        "rust",
        "Event Hubs: higher level",
        "A reader that lost its partition sometimes reports a lost connection instead of the reason",
        "Its AMQP library forgets a session before its end is answered, and then treats the answer as an error",
        "rust.owner",
    ),
    Deviation(
        "waits for ever",
        "rust",
        "Event Hubs: hub; Event Hubs: partition key",
        "After the SDK has ended the session on which it sent its token, a call sometimes never returns",
        "It seems to be the same race: the emulator has answered every request. The test tries each five times",
        "rust.keys",
    ),
    Deviation(
        "no administration",
        "ours",
        ADMINISTRATION,
        "`amqp10.azure` does not create, list or delete entities. It manages rules of subscriptions by AMQP",
        "Administration is HTTP and XML. Use the administration client of Microsoft's SDK, or the portal",
        absent=True,
    ),
]


class Difference(NamedTuple):
    """Where the emulator is not as Azure."""

    name: str
    what: str
    why: str
    test: str = ""


DIFFERENCES = {
    "Service Bus": [
        Difference(
            "64 MiB",
            "A message may have 64 MiB, and not 256 KiB as in the standard tier",
            "This is the broker's limit. `max_message_size` sets another",
        ),
        Difference(
            "both services in one",
            "A queue and an event hub are in one emulator, and either client sends to both",
            "One port and one connection string are enough for a test",
        ),
        Difference(
            "patterns",
            "The pattern of a LIKE is a string, and no other expression",
            "It is compiled once for all messages. A rule with another pattern is refused",
        ),
        Difference(
            "connections stay",
            "A connection without links stays open, and is not closed after five minutes",
            "SDKs open another one with their next call, so a program sees no difference",
        ),
        Difference(
            "footers",
            "A footer whose keys are strings is refused. The SDK for Java sends such footers",
            "By the specification its keys are symbols",
        ),
        Difference(
            "settings without effect",
            "Partitioning and express are stored and returned, but have no effect",
            "They are for scale, which a test does not need",
        ),
        Difference(
            "requests in transactions",
            "In a transaction `$management` takes `schedule-message` and `update-disposition`. Locks are renewed and "
            "messages, states and rules are read at once. Other requests are refused",
            "The SDK for Java asks for these two; what the service does with others is not documented",
        ),
    ],
    "Event Hubs": [
        Difference(
            "offsets",
            "An offset is 64 times the sequence number",
            "A program that confuses the two then fails in its tests, and not in Azure",
            "interop/test_azure_eventhub.py::batch_in_order",
        ),
        Difference(
            "50,000 events",
            "A batch has 50,000 events at most",
            "All other links wait while the emulator takes a batch",
            "broker/azure/event_hubs/test_hub.py::test_too_many",
        ),
        Difference(
            "not there",
            "No capture, no schema registry, no Kafka, no geo-replication",
            "A client does not see them over AMQP",
        ),
    ],
}


@cache
def names_in(source: Source) -> set[str]:
    """Return the names of the tests of a source, without the `test_` in front."""
    tree = ast.parse((TESTS / source.path).read_text(encoding="utf-8"))
    if source.table:
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == source.table:
                assert isinstance(node.value, ast.Dict)
                return {ast.literal_eval(key) for key in node.value.keys if key is not None}
        raise ValueError(f"tests/{source.path} has no table {source.table}")
    return {
        node.name.removeprefix("test_")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (
            (node.name.startswith("test_") and node.name not in RUNNERS)
            or any(ast.unparse(each) == "behavior" for each in node.decorator_list)
        )
    }


def read_run(file: Path) -> dict[str, str]:
    """Return how each test ended in a run: "passed", "failed" or "skipped", the worst where it has parameters.

    Args:
        file: what pytest wrote by `--junitxml`.
    """
    there = {key: names_in(source) for key, source in SOURCES.items()}
    worst = ["passed", "skipped", "failed"]
    found: dict[str, str] = {}
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        # Behind an @ stands the group of tests that share a worker.
        name = re.sub(r"@\w+$", "", case.attrib["name"])
        function, _, row = name.removesuffix("]").partition("[")
        told = {each.tag for each in case}
        ended = "failed" if told & {"failure", "error"} else "skipped" if "skipped" in told else "passed"
        for key, source in SOURCES.items():
            module = f"tests.{source.path.removesuffix('.py').replace('/', '.')}"
            by_row = function == f"test_{source.table.lower()}" if source.table else function in RUNNERS
            name = row if by_row else "" if source.table else function.removeprefix("test_")
            # The class name is that of a class, too, where the test stands in one.
            if f"{case.attrib['classname']}.".startswith(f"{module}.") and name in there[key]:
                test = f"{key}.{name}"
                found[test] = max(found.get(test, "passed"), ended, key=worst.index)
    return dict(sorted(found.items()))


@cache
def results() -> dict[str, str]:
    """Return how each test ended in the run that the page is made from.

    Raises:
        ValueError: it was never run.
    """
    if not RESULTS.exists():
        raise ValueError(f"there is no {RESULTS.relative_to(ROOT)}: run `make azure-matrix`")
    tests: dict[str, str] = json.loads(RESULTS.read_text(encoding="utf-8"))["tests"]
    return tests


def check_results(named: set[str]) -> None:
    """Compare the results with the tests that prove behaviors.

    Raises:
        ValueError: they are of other tests, or one of these did not pass.
    """
    ended = results()
    name = RESULTS.relative_to(ROOT)
    if missing := sorted(named - ended.keys()):
        raise ValueError(f"{name} says nothing of {', '.join(missing[:5])}: run `make azure-matrix`")
    if gone := sorted(ended.keys() - named):
        raise ValueError(f"{name} has {', '.join(gone[:5])}, which prove no behavior now: run `make azure-matrix`")
    if bad := [f"{test} {said}" for test, said in ended.items() if said != "passed"]:
        raise ValueError(f"{name}: {', '.join(bad[:5])}: mend what failed, then run `make azure-matrix`")


def behaviors() -> Iterator[tuple[str, Behavior]]:
    """Return all behaviors, each with its service."""
    for service, groups in SERVICES.items():
        for group in groups.values():
            for each in group:
                yield service, each


def check() -> None:
    """Compare the registry with the tests.

    Raises:
        ValueError: one names what the other has not.
    """
    there = {key: names_in(source) for key, source in SOURCES.items()}
    rows = list(behaviors())
    named = {test for _, each in rows for test in each.tests.split()}
    for test in sorted(named | {test for each in DEVIATIONS for test in each.tests.split()}):
        source, _, name = test.partition(".")
        if name not in there.get(source, ()):
            raise ValueError(f"tools/azure_matrix.py names the test {test}, which is not there")
    for key, source in SOURCES.items():
        if lost := sorted(name for name in there[key] if source.whole and f"{key}.{name}" not in named):
            raise ValueError(
                f"{key}.{lost[0]} in tests/{source.path} proves no behavior of tools/azure_matrix.py: add it"
            )
    check_results(named)
    known = [f"{service}: {each.name}" for service, each in rows]
    if len(known) != len({*known}):
        raise ValueError(f"two behaviors have one name: {sorted(each for each in known if known.count(each) > 1)[0]}")
    for deviation in DEVIATIONS:
        if unknown := {*deviation.behaviors.split("; ")} - {*known}:
            raise ValueError(f"the deviation {deviation.name!r} is of no known behavior: {sorted(unknown)}")
    for difference in (each for group in DIFFERENCES.values() for each in group if each.test):
        path, _, name = difference.test.partition("::")
        if f"def {name}(" not in (TESTS / path).read_text(encoding="utf-8"):
            raise ValueError(f"the difference {difference.name!r} names {difference.test}, which is not there")


def versions() -> dict[str, str]:
    """Return which version of which package each column is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = dict(each.split("==") for each in project["dependency-groups"]["dev"] if re.match(r"azure-\w+==", each))
    python = ", ".join(f"{name} {packages[name]}" for name in ("azure-servicebus", "azure-eventhub"))
    scripts = [
        json.loads((CLIENTS / each / "package.json").read_text(encoding="utf-8"))["dependencies"]
        for each in ("azure_servicebus_js", "azure_eventhubs_js")
    ]
    java = "".join(
        (CLIENTS / each / "pom.xml").read_text(encoding="utf-8")
        for each in ("azure_servicebus_java", "azure_eventhubs_java")
    )
    go = (CLIENTS / "azure_go" / "go.mod").read_text(encoding="utf-8")
    cargo = tomllib.loads((CLIENTS / "azure_rust" / "Cargo.toml").read_text(encoding="utf-8"))
    rust = cargo["dependencies"]["azure_messaging_eventhubs"].lstrip("=")
    found = re.findall(r"<artifactId>(azure-messaging-\w+)</artifactId>\s*<version>([\d.]+)<", java)
    return {
        "python": python,
        "aio": "the same, with `await`",
        "javascript": ", ".join(f"{name} {version}" for each in scripts for name, version in each.items()),
        "java": ", ".join(f"{name} {version}" for name, version in found),
        "go": ", ".join(f"{name} {number}" for name, number in re.findall(r"messaging/(\w+)\S* v([\d.]+)", go)),
        "rust": f"azure_messaging_eventhubs {rust}",
        "ours": "the client of this package, `amqp10.azure`",
    }


def proven(behavior: Behavior) -> set[str]:
    """Return the columns that tests proved a behavior for."""
    return {SOURCES[test.partition(".")[0]].column for test in behavior.tests.split() if results()[test] == "passed"}


def cell(service: str, behavior: Behavior, column: str) -> str:
    """Return a cell of the page."""
    mine = [
        each
        for each in DEVIATIONS
        if column in each.who.split() and f"{service}: {behavior.name}" in each.behaviors.split("; ")
    ]
    links = ", ".join(f"[{each.name}](#{each.name.lower().replace(' ', '-')})" for each in mine)
    if any(each.absent for each in mine):
        return f"no: {links}"
    if column not in proven(behavior):
        return ""
    return f"yes: {links}" if links else "yes"


def count(service: str) -> str:
    """Return in a sentence how many behaviors a service has, and how many of them official SDKs prove."""
    rows = [each for of, each in behaviors() if of == service]
    by_sdk = sum(any(COLUMNS[column].official for column in proven(each)) for each in rows)
    return f"{service} has {len(rows)} behaviors, of which Microsoft's SDKs prove {by_sdk}"


def render() -> str:
    """Return the page."""
    check()
    total = len(list(behaviors()))
    lines = [INTRODUCTION + ". ".join(map(count, SERVICES)) + f". Together these are {total}."]
    date = json.loads(RESULTS.read_text(encoding="utf-8"))["date"]
    lines += ["", f"The run of {date}: {len(results())} tests, all passed."]
    lines += ["", "| column | what was driven |", "|---|---|"]
    said = versions()
    lines += [f"| {column.title} | {said[key]} |" for key, column in COLUMNS.items()]
    for service, groups in SERVICES.items():
        used = {column for of, each in behaviors() if of == service for column in proven(each)}
        columns = [each for each in COLUMNS if each in used]
        lines += ["", f"## {service}"]
        if missing := [column.title for key, column in COLUMNS.items() if key not in used]:
            lines += ["", f"No test drives {service} with {' or '.join(missing)} yet."]
        for title, rows in groups.items():
            heads = " | ".join(COLUMNS[each].title for each in columns)
            lines += ["", f"### {service}: {title[0].lower()}{title[1:]}", ""]
            lines += [f"| behavior | {heads} |", "|---" * (len(columns) + 1) + "|"]
            for row in rows:
                cells = " | ".join(cell(service, row, each) for each in columns)
                lines.append(f"| **{row.name}**: {row.sentence} | {cells} |")
    lines += ["", "## Where SDKs deviate"]
    for deviation in DEVIATIONS:
        who = ", ".join(COLUMNS[each].title for each in deviation.who.split())
        shown = ", ".join(f"`{each}`" for each in deviation.tests.split())
        lines += ["", f"### {deviation.name}", "", f"{who}. {deviation.what}."]
        lines += [f"Why: {deviation.why}." + (f" Shown by {shown}." if shown else "")]
    lines += ["", "## Where the emulator differs from Azure"]
    for service, differences in DIFFERENCES.items():
        lines += [
            "",
            f"### The emulator of {service}",
            "",
            "| name | difference | reason | test |",
            "|---|---|---|---|",
        ]
        for each in differences:
            lines.append(f"| {each.name} | {each.what} | {each.why} | {f'`{each.test}`' if each.test else ''} |")
    lines += ["", "## The tests", "", "The part before the dot is the key of the file:", ""]
    lines += ["| key | file, below `tests/` |", "|---|---|"]
    for key, source in SOURCES.items():
        lines.append(f"| `{key}` | `{source.path}`{f', table `{source.table}`' if source.table else ''} |")
    for service in SERVICES:
        lines += ["", f"### The tests of {service}", "", "| behavior | tests |", "|---|---|"]
        for row in (each for of, each in behaviors() if of == service):
            lines.append(f"| {row.name} | {', '.join(f'`{each}`' for each in row.tests.split())} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or compare it with the tests."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail if the page is not what the tests say"
    )
    parser.add_argument("--run", type=Path, metavar="FILE", help="what pytest wrote of a run by --junitxml")
    arguments = parser.parse_args()
    if arguments.run is not None:
        named = {test for _, each in behaviors() for test in each.tests.split()}
        ended = {test: said for test, said in read_run(arguments.run).items() if test in named}
        said = {"date": datetime.now(UTC).date().isoformat(), "tests": ended}
        RESULTS.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    try:
        text = render()
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 1
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is out of date: run `python tools/azure_matrix.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
