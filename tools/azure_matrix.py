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

What Azure Service Bus and Event Hubs do, behavior by behavior, and with which SDK a test proves it. Each test drives
the SDK, or this package's own client `amqp10.azure`, against the [emulator](../embedded/azure.md). All run in
`make test`, but for those of Rust, which run in `make nightly`: that SDK compiles for minutes. No test reaches Azure
itself. `make azure-matrix` writes this page, from how each test ended in a run.

"yes": a test drives this SDK and checks the behavior, and it passed. "no": a test shows that this SDK does otherwise,
or the SDK has no call for it. An empty cell: no test drives this SDK there. A link leads to the deviation.
[The tests](#the-tests) of each behavior stand at the end.

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
    "bus": Source("azure/test_service_bus.py", "ours", whole=False),
    "hubs": Source("interop/test_azure_eventhub.py", "python"),
    "hubs-async": Source("interop/test_azure_eventhub_async.py", "aio"),
    "hub-pairs": Source("interop/test_azure_eventhub_client.py", "ours"),
    "hub": Source("azure/test_event_hubs.py", "ours", whole=False),
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
            "`EntityPath` is the entity, and no other may be asked for",
            "bus.the_entity_of_the_connection_string",
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
            "A message of 500,000 octets goes there and back",
            "websocket.without_tls websocket-pairs.service_bus_both_ways",
        ),
        B(
            "rights",
            "Who may only listen cannot send",
            "queues.rights bus.a_token_that_does_not_allow_it",
        ),
        B("wrong key", "Who has no key that is known may do nothing", "queues.rights bus.a_wrong_key"),
        B(
            "missing entity",
            "An entity that is not there is said to be missing",
            "queues.missing_entity async.missing_entity javascript.missing go.missing bus.refused",
        ),
        B(
            "capitals",
            "Names of entities ignore case",
            "queues.send_receive_complete topics.every_subscription administration.queue_as_configured "
            "bus.the_entity_of_the_connection_string",
        ),
    ],
    "Messages": [
        B(
            "fields",
            "A message comes with the body and the properties that it was sent with",
            "queues.send_receive_complete pairs.sent_by_theirs pairs.sent_by_ours "
            "complaints.properties_have_the_types_that_were_sent",
        ),
        B(
            "what the service adds",
            "A message has its number, the time when it came, and the end of its lock",
            "queues.send_receive_complete bus.a_message_and_what_the_service_says_of_it",
        ),
        B(
            "batch",
            "Each message of a batch comes by itself, in order",
            "queues.batches async.send_receive_complete javascript.batch go.batch pairs.batches",
        ),
        B(
            "size of a batch",
            "A batch takes no message that makes it too large",
            "pairs.a_batch_is_as_large_as_theirs bus.batches_know_their_size",
        ),
        B("count of a batch", "A batch has 4,500 messages at most", "bus.a_batch_is_full_by_count"),
        B(
            "complete",
            "A completed message is gone",
            "queues.send_receive_complete async.send_receive_complete javascript.settle java.settle go.settle "
            "pairs.sent_by_theirs",
        ),
        B("complete many", "Several messages are completed at once", "bus.several_are_completed_at_once"),
        B(
            "receive and delete",
            "A message is gone when it is given",
            "queues.batches pairs.received_and_deleted",
        ),
        B(
            "abandon",
            "An abandoned message comes again, counted as an attempt",
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
            "No receiver gets a deferred message that does not ask for it",
            "queues.defer async.defer",
        ),
        B(
            "settle what was deferred",
            "A deferred message that was received is completed through the management node",
            "queues.defer async.defer javascript.settle java.settle go.settle bus.deferred_and_dead",
        ),
        B(
            "deferred and gone",
            "A deferred message that was completed is not found",
            "queues.defer pairs.settled_by_theirs",
        ),
        B(
            "peek",
            "To peek shows messages and takes nothing",
            "queues.peek javascript.schedule java.schedule go.schedule bus.deferred_and_dead",
        ),
        B("peek on", "A second peek goes on where the first one ended", "queues.peek"),
        B(
            "schedule",
            "A scheduled message has a number, and is seen by peeking",
            "queues.schedule_and_cancel javascript.schedule java.schedule go.schedule pairs.scheduled_by_ours "
            "pairs.scheduled_by_theirs",
        ),
        B(
            "scheduled message comes",
            "A scheduled message comes when it is due, and not before",
            "queues.schedule_and_cancel async.schedule_and_cancel pairs.scheduled_by_theirs",
        ),
        B(
            "cancel",
            "A scheduled message that is canceled does not come",
            "queues.schedule_and_cancel async.schedule_and_cancel javascript.schedule java.schedule go.schedule "
            "pairs.scheduled_by_ours pairs.scheduled_by_theirs",
        ),
        B(
            "cancel twice",
            "What was canceled already is not found",
            "queues.schedule_and_cancel pairs.scheduled_by_ours",
        ),
        B("duplicates", "A message that is sent again within the window is dropped", "queues.duplicates"),
        B("time to live", "A message that is too old is a dead letter", "queues.expired"),
        B(
            "fetched ahead",
            "What was fetched ahead and not used is free when the receiver closes",
            "queues.closed_receiver_releases complaints.closing_gives_back_what_was_fetched "
            "bus.leaving_gives_back_what_nobody_took",
        ),
        B(
            "no more than asked for",
            "No message is locked that nobody asked for",
            "bus.receiving_asks_for_what_is_wanted",
        ),
        B("handler", "A handler gets messages and completes them", "javascript.processor"),
        B("delete many", "The oldest messages are deleted by one request", "bus.many_are_deleted"),
        B("no room", "A full queue refuses messages until some leave", "faults.no_room"),
    ],
    "Locks": [
        B(
            "renew",
            "A renewed lock ends later",
            "queues.renew async.locks javascript.renew go.renew pairs.locks",
        ),
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
            "queues.lost_lock go.lose bus.what_a_kept_block_raises",
        ),
        B(
            "lock kept",
            "The client renews a lock by itself while the work goes on",
            "async.renewer bus.a_lock_is_renewed_while_a_block_runs complaints.a_renewer_keeps_what_is_done",
        ),
        B(
            "lost lock ends the work",
            "Work on a message whose lock is lost is canceled",
            "complaints.work_on_a_message_whose_lock_is_lost bus.a_lock_that_is_lost_cancels_the_block",
        ),
        B(
            "wrong clock",
            "A client whose clock is wrong settles what the service still has locked",
            "complaints.a_lock_that_looks_expired bus.a_clock_that_is_wrong",
        ),
        B(
            "lock outlives its link",
            "A message is settled after its link has ended",
            "faults.settled_after_detach complaints.a_receiver_that_was_idle bus.a_lock_outlives_its_link",
        ),
        B(
            "lock outlives its connection",
            "A message is settled over the next connection",
            "bus.a_lock_outlives_its_connection",
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
            "A session has its messages in order, and no others",
            "sessions.named async.session javascript.sessions java.sessions go.sessions pairs.a_session_of_ours",
        ),
        B(
            "next session",
            "Who asks for any session gets a free one",
            "sessions.next_free async.session javascript.sessions java.sessions go.sessions pairs.a_session_of_theirs",
        ),
        B(
            "no next session",
            "Where no session is free the client says so after its time",
            "sessions.next_free async.no_session bus.sessions",
        ),
        B("wait for a session", "Who waits for any session gets the first that comes", "sessions.next_to_come"),
        B(
            "session is locked",
            "A session that one receiver has is refused to others",
            "sessions.held_by_one javascript.sessions pairs.a_session_of_ours pairs.a_session_of_theirs",
        ),
        B(
            "renew a session",
            "The lock of a session is renewed",
            "sessions.lock_is_told javascript.sessions go.sessions bus.sessions",
        ),
        B("session kept", "The client renews the lock of a session by itself", "sessions.renewer"),
        B(
            "worker on sessions",
            "A worker has several sessions at a time, and each one's messages in order",
            "pairs.a_worker_on_sessions",
        ),
        B(
            "lost session",
            "Who has lost a session is told so",
            "sessions.lost_lock async.session bus.a_session_that_is_lost",
        ),
        B(
            "lost session is not renewed",
            "The lock of a lost session cannot be renewed",
            "sessions.lost_lock_is_not_renewed bus.a_session_that_is_lost",
        ),
        B(
            "session ends with its connection",
            "A session is lost with its connection",
            "bus.a_session_does_not_outlive_its_connection",
        ),
        B("closed session", "A session is free as soon as its receiver closes", "sessions.closed_session"),
        B(
            "order after abandon",
            "An abandoned message comes before those behind it",
            "sessions.order_after_abandon",
        ),
        B(
            "state",
            "What is kept with a session is there for its next receiver",
            "sessions.states async.session javascript.sessions java.sessions go.sessions pairs.a_session_of_ours",
        ),
        B("list sessions", "Sessions are listed", "sessions.listed go.sessions bus.sessions"),
        B(
            "list by time",
            "Sessions are listed whose state is newer than a time",
            "sessions.listed bus.sessions pairs.a_session_of_theirs",
        ),
        B(
            "list many sessions",
            "More sessions are listed than one answer has",
            "sessions.listed_in_pages pairs.sessions_listed_by_both",
        ),
        B(
            "deferred in a session",
            "A deferred message of a session is received with that session",
            "sessions.deferred bus.sessions",
        ),
        B("peek in a session", "To peek shows the messages of the session only", "sessions.peeked bus.sessions"),
        B("dead letter of a session", "A dead letter keeps its session id", "sessions.dead_letter"),
        B("scheduled in a session", "A scheduled message comes to its session when it is due", "sessions.scheduled"),
        B(
            "session required",
            "A receiver without a session is refused where sessions are required",
            "sessions.no_session bus.refused",
        ),
        B("no sessions here", "A session is refused where there are none", "sessions.no_session"),
        B("sessions in turn", "One receiver takes many sessions, and mixes nothing up", "sessions.many"),
        B(
            "several at once",
            "Several messages of a session are worked on at once",
            "pairs.several_of_a_session_at_once bus.sessions complaints.several_messages_of_one_session",
        ),
    ],
    "Topics and rules": [
        B(
            "copy for each subscription",
            "A message comes to each subscription that takes it",
            "topics.every_subscription pairs.rules_of_ours",
        ),
        B(
            "SQL filter",
            "A subscription gets what its SQL filter lets pass",
            "topics.conditions async.topic_and_rules javascript.subscribe go.subscribe pairs.rules_of_ours",
        ),
        B("system properties", "SQL filters read `sys.` and `user.` properties", "topics.conditions"),
        B("LIKE", "SQL filters have LIKE with ESCAPE", "topics.conditions"),
        B("IN", "SQL filters have IN and NOT IN", "topics.conditions"),
        B("IS NULL, EXISTS", "SQL filters ask whether a property is there", "topics.conditions"),
        B("arithmetic", "SQL filters compute with numbers", "topics.conditions"),
        B("quoted names", "SQL filters read properties of any name", "topics.conditions"),
        B("unknown values", "A comparison with a property that is not there is not true", "topics.conditions"),
        B(
            "correlation filter",
            "A correlation filter lets pass what is equal in all that it names",
            "topics.correlation pairs.rules_of_ours bus.rules",
        ),
        B("action", "An action changes the copy of its rule", "topics.action pairs.rules_of_ours bus.rules"),
        B(
            "several rules",
            "Rules without actions make one copy, each with an action one of its own",
            "topics.several_actions",
        ),
        B(
            "change rules",
            "A rule counts from when it is added until it is removed",
            "topics.rules_added_and_removed bus.rules",
        ),
        B("rule twice", "A second rule of one name is refused", "topics.rules_added_and_removed bus.rules"),
        B(
            "list rules",
            "Rules are told as they were made",
            "topics.rules_enumerated javascript.subscribe bus.rules",
        ),
        B("wrong rule", "A rule that makes no sense is refused", "topics.wrong_rules bus.rules"),
        B("filter errors", "A message that a rule fails on is a dead letter, or passes not", "topics.filter_errors"),
        B(
            "dead letters of a subscription",
            "Each subscription has its own dead letters",
            "topics.own_dead_letters",
        ),
        B("duplicates in a topic", "A topic drops what was sent again", "topics.duplicates"),
        B("time to live in a topic", "Messages live as long as their topic allows", "topics.time_to_live"),
        B("scheduled in a topic", "A topic keeps what is scheduled until it is due", "topics.scheduled"),
        B("sessions of a subscription", "A subscription has sessions, as a queue has", "topics.sessions"),
        B("forward", "Queues and subscriptions pass messages on", "topics.forwarded administration.forwarding"),
        B("forward dead letters", "Dead letters are passed on, with their reason", "topics.forwarded_dead_letters"),
        B("transfer dead letter", "What cannot be passed on is a dead letter of the transfer", "topics.not_forwarded"),
        B("closed addresses", "Nobody receives from a topic, or sends to a subscription", "topics.closed_addresses"),
    ],
    "Transactions": [
        B(
            "send and commit",
            "Messages of a transaction are there when it is committed, all at once",
            "java.send-and-commit",
        ),
        B("send and roll back", "Messages of a transaction that is rolled back never are", "java.send-and-roll-back"),
        B("settle and commit", "Outcomes count when the transaction is committed", "java.settle-and-commit"),
        B("settle and roll back", "Outcomes that are rolled back do not count", "java.settle-and-roll-back"),
        B(
            "schedule and commit",
            "Messages have their numbers at once, and are scheduled when the transaction is committed",
            "java.schedule-and-commit bus.what_goes_through_the_management_node",
        ),
        B(
            "schedule and roll back",
            "Messages that are rolled back are never scheduled, and their numbers are not used again",
            "java.schedule-and-roll-back bus.what_goes_through_the_management_node",
        ),
        B(
            "settle deferred and commit",
            "Outcomes of deferred messages count when the transaction is committed",
            "java.deferred-and-commit bus.what_goes_through_the_management_node",
        ),
        B(
            "settle deferred and roll back",
            "Outcomes of deferred messages that are rolled back do not count, and the messages stay locked",
            "java.deferred-and-roll-back bus.what_goes_through_the_management_node",
        ),
        B(
            "across and commit",
            "A message is completed in one entity and sent to another",
            "java.across-and-commit bus.from_one_entity_to_another",
        ),
        B(
            "across and roll back",
            "Neither happens when that is rolled back",
            "java.across-and-roll-back bus.from_one_entity_to_another",
        ),
        B(
            "via a missing entity",
            "To send via an entity that is not there is refused",
            "bus.sending_via_another_entity_is_refused",
        ),
        B("transaction is over", "A message for a transaction that is over is not taken", "java.transaction-over"),
    ],
    "Administration": [
        B("configured queue", "A queue of the configuration has its settings", "administration.queue_as_configured"),
        B(
            "create a queue",
            "A queue that is created has its settings, and takes messages at once",
            "administration.create_queue javascript.administer",
        ),
        B("create twice", "A name is given once", "administration.create_twice javascript.administer"),
        B("nothing there", "What is not there is not found", "administration.missing"),
        B("update a queue", "What is updated holds from then on", "administration.update_queue javascript.administer"),
        B(
            "delete a queue",
            "A queue that is deleted is gone with its messages",
            "administration.delete_queue javascript.administer",
        ),
        B("list entities", "All entities are listed, over many pages", "administration.lists"),
        B(
            "counts",
            "Each state tells how many messages it has",
            "administration.runtime_properties javascript.administer",
        ),
        B(
            "topics and subscriptions",
            "Topics and subscriptions are made, changed and deleted",
            "administration.topics_and_subscriptions",
        ),
        B("rules by HTTP", "Rules are told as they were made", "administration.rules javascript.administer"),
        B("parameters", "SQL filters and actions have parameters", "administration.rules"),
        B("wrong rules by HTTP", "A rule that makes no sense is refused", "administration.wrong_rules"),
        B("target deleted", "A queue keeps what it cannot forward", "administration.target_deleted"),
        B("disabled", "A disabled queue says so", "administration.disabled"),
        B("namespace", "The namespace says what it is", "administration.namespace javascript.administer"),
        B("right to manage", "Who may not manage is refused", "administration.rights"),
    ],
    "Faults and time": [
        B(
            "idle receiver",
            "A receiver that was detached after ten idle minutes goes on",
            "faults.idle_receiver bus.settled_on_an_idle_link bus.waiting_on_an_idle_link "
            "complaints.a_receiver_that_was_idle complaints.waiting_on_a_link_that_is_detached",
        ),
        B(
            "idle sender",
            "A sender that was detached after ten idle minutes goes on",
            "faults.idle_sender bus.settled_on_an_idle_link",
        ),
        B(
            "renewal is a use",
            "A link whose messages are renewed is not idle",
            "faults.renewal_is_a_use",
        ),
        B("link detached by a test", "A link ends with the condition that a test says", "faults.stolen"),
        B(
            "lock lost by a test",
            "A lock that a test takes away is lost",
            "faults.lock_lost pairs.locks bus.several_are_completed_at_once",
        ),
        B(
            "session lost by a test",
            "A session that a test takes away is lost",
            "faults.session_lost bus.a_session_that_is_lost",
        ),
        B("busy", "A busy service refuses as often as a test says", "faults.busy bus.refused"),
        B("restart", "After a restart all messages are as they were", "kept.all_of_them kept.what_was_told_is_there"),
        B("locks and a restart", "A lock lasts over a restart", "kept.locks"),
        B("sessions and a restart", "The state of a session is kept over a restart", "kept.state"),
        B("rules and a restart", "Rules that were added or removed stay so over a restart", "kept.rules"),
        B("other refusals", "A request is refused under the condition that a test says", "faults.conditions"),
        B(
            "tokens end",
            "When the tokens end, links are detached",
            "faults.tokens_ended",
        ),
        B("next token", "After that the next link brings another token", "bus.a_token_that_the_service_ends_early"),
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
            "A hub that is not there is said to be missing",
            "hubs.no_such_hub hub.refused javascript-hubs.missing java-hubs.missing rust.missing",
        ),
        B("missing group", "So is a consumer group", "hubs.no_such_group hub.nothing_there"),
        B("missing partition", "So is a partition", "hubs.no_such_partition hub.nothing_there hub.refused"),
        B("rights", "Who may send may not listen, and the reverse", "hubs.rights"),
        B("wrong key", "Who has no key that is known may do nothing", "hubs.wrong_key"),
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
            "An event comes as it was sent",
            "hubs.event_as_sent hub-pairs.ours_to_theirs javascript-hubs.event java-hubs.event rust.event",
        ),
        B(
            "what the service adds",
            "An event has its number, its offset and the time when it came",
            "hubs.event_as_sent hub-pairs.theirs_to_ours javascript-hubs.event java-hubs.event rust.event",
        ),
        B(
            "other bodies",
            "A body need not be octets",
            "hubs.other_bodies hub.positions javascript-hubs.event java-hubs.event",
        ),
        B(
            "batch",
            "The events of a batch come one by one, in order",
            "hubs.batch_in_order hubs-async.send_and_read go.hub-positions hub-pairs.ours_to_theirs "
            "hub-pairs.theirs_to_ours javascript-hubs.batch java-hubs.batch rust.positions",
        ),
        B(
            "one partition",
            "A sender names the partition that its events go to",
            "hubs.batch_in_order hubs-async.send_and_read go.hub-positions hub.partition_by_number "
            "javascript-hubs.batch java-hubs.batch rust.positions",
        ),
        B(
            "partition key",
            "All events of a key are in one partition, in order",
            "hubs.batch_by_key go.hub-keys hub-pairs.same_partition hub.key javascript-hubs.keys java-hubs.keys "
            "rust.keys",
        ),
        B("keys are spread", "Keys are spread over all partitions", "hubs.keys_spread"),
        B("no key", "What has no key goes to each partition in turn", "hubs.without_key_in_turn"),
        B("publisher", "All events of a publisher have its name for a key", "hub.publisher"),
        B(
            "buffered producer",
            "A producer that gathers events tells of all that was sent",
            "hubs.buffered_producer hubs-async.buffered javascript-hubs.buffered",
        ),
        B("full batch", "A batch takes 1 MiB", "hubs.full_batch hub.full_batch"),
        B("event too large", "A larger event is refused", "hubs.too_large"),
        B("many senders", "Many senders fill one partition without gaps or doubles", "hubs.many_at_once"),
    ],
    "Reading": [
        B(
            "first event",
            "A reader begins with the first event",
            "hubs.first_and_next go.hub-positions hub.positions javascript-hubs.batch java-hubs.batch rust.positions",
        ),
        B(
            "next event",
            "A reader begins with the next event to come",
            "hubs.first_and_next hub-pairs.while_they_send hub.from_now_on javascript-hubs.latest",
        ),
        B(
            "sequence number",
            "A reader begins at or behind a sequence number",
            "hubs.by_sequence_number hubs-async.position go.hub-positions hub.positions "
            "javascript-hubs.positions java-hubs.positions rust.positions",
        ),
        B(
            "offset",
            "A reader begins at or behind an offset",
            "hubs.by_offset go.hub-positions hub-pairs.checkpoints hub.positions "
            "javascript-hubs.positions java-hubs.positions rust.positions",
        ),
        B(
            "time",
            "A reader begins with what came after a time",
            "hubs.by_time hub.positions javascript-hubs.positions java-hubs.positions rust.positions",
        ),
        B("position of each partition", "Each partition has a position of its own", "hubs.for_each_partition"),
        B("beyond the end", "A position beyond the last event is refused", "hubs.beyond_the_end"),
        B(
            "as they come",
            "A reader that waits gets what is sent later",
            "hubs.as_they_come hub-pairs.while_they_send",
        ),
        B(
            "all partitions",
            "One consumer reads all partitions, each in order",
            "hubs.all_partitions hubs-async.send_and_read processor.all_in_order javascript-hubs.keys java-hubs.keys",
        ),
        B("batches of events", "A reader gets several events at once", "hub.batches processor.batches_and_threads"),
        B(
            "consumer groups",
            "Each consumer group reads all events",
            "hubs.groups_apart hub.positions",
        ),
        B(
            "last event",
            "A reader that asks for it hears of the last event",
            "hubs.last_event_tracked hub-pairs.last_event hub.last_event javascript-hubs.last java-hubs.last",
        ),
        B("retention", "Old events go by the clock", "hubs.retention hub.partition"),
        B("canceled receive", "A receive that is canceled loses no event", "hub.cancelled"),
    ],
    "Owner levels": [
        B(
            "higher level",
            "A reader of a higher owner level takes the partition",
            "hubs.higher_level_steals hubs-async.stolen go.hub-owner hub-pairs.they_steal hub.owner_levels "
            "javascript-hubs.owner java-hubs.owner rust.owner",
        ),
        B(
            "same level",
            "So does one of the same level",
            "hubs.same_level_steals hub-pairs.we_steal",
        ),
        B(
            "lower level",
            "A reader of a lower level is refused",
            "hubs.lower_level_kept_out hubs-async.lower_level_kept_out hub.owner_levels",
        ),
        B("level and none", "A reader with a level puts out those without", "hubs.level_puts_out_others"),
        B("end of a level", "When the reader is gone its level counts no more", "hubs.level_ends_with_its_reader"),
        B("level of a group", "A level is for one partition and one group", "hubs.level_of_a_group"),
        B("five readers", "A partition has five readers without a level", "hubs.five_readers hub.too_many"),
    ],
    "Metadata": [
        B(
            "hub",
            "A hub says its name and its partitions",
            "hubs.hub_properties hubs-async.properties go.hub-properties hub-pairs.same_properties "
            "javascript-hubs.properties java-hubs.properties rust.properties",
        ),
        B(
            "partition",
            "A partition says what it has, and whether that is nothing",
            "hubs.partition_properties hubs-async.properties go.hub-properties hub-pairs.same_properties "
            "javascript-hubs.properties java-hubs.properties rust.properties",
        ),
    ],
    "Faults": [
        B("busy", "A busy hub refuses as often as a test says", "hubs.busy hub.busy"),
        B("restart", "After a restart all events have their numbers, and the next one has the next", "kept.events"),
        B(
            "detached reader",
            "A reader that is detached goes on where it was",
            "hubs.detached_reader hub.detached",
        ),
        B("detached sender", "A sender that is detached goes on", "hubs.detached_sender"),
        B("lost connection", "After a loss nothing is missing and nothing comes twice", "hub.goes_on"),
        B("tokens end", "When the tokens end, readers are told, and go on", "hubs.tokens_ended"),
    ],
    "Processors": [
        B(
            "shared partitions",
            "Two processors share the partitions by one store",
            "hubs.two_processors processor.share",
        ),
        B("checkpoints", "A processor goes on where another one was", "hubs.two_processors processor.all_in_order"),
        B("dead owner", "The partitions of a processor that is gone are taken", "processor.dead_owner"),
        B(
            "taken by force",
            "A processor does not fight a reader of a higher level",
            "processor.stolen",
        ),
        B("store fails", "A store that fails ends no processor at once", "processor.store_fails"),
        B(
            "store in blobs",
            "Leases and checkpoints in blobs are read by Microsoft's store and by ours",
            "blobs-python.blobs blobs.blobs",
        ),
        B(
            "processors of two clients",
            "A processor of Microsoft's and one of ours share a hub, and every event is handled",
            "blobs-python.shared_hub blobs.shared_hub",
        ),
        B("no store", "A store that cannot be reached is an error", "blobs.no_storage"),
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
        "Only the SDK for Java, of those driven here, has them in its version",
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
        "message id needed",
        "javascript",
        "Service Bus: complete",
        "It settles messages with an id only, and gives none itself: set `messageId`",
        "It keeps the timers that renew locks by the id of their message",
        "javascript.settle",
    ),
    Deviation(
        "other error code",
        "go",
        "Service Bus: missing entity",
        "What it sends to an entity that is not there fails with `amqp:not-found`, and not with its `CodeNotFound`",
        "It makes that code from answers of the management node, and not from the error of a link",
        "go.missing",
    ),
    Deviation(
        "HTTPS only",
        "python javascript",
        "Service Bus: create a queue",
        "Its administration client insists on HTTPS: give the emulator a certificate",
        "It writes `https://` before every name. The emulator answers by HTTP, too",
        "administration.create_queue javascript.administer",
    ),
    Deviation(
        "address beside the name",
        "python",
        "Service Bus: TLS; Service Bus: WebSocket with TLS; Event Hubs: WebSocket with TLS",
        "With TLS it takes no port from a connection string: say `custom_endpoint_address`",
        "In Azure the port is always the same",
        "websocket.with_tls websocket.event_hubs_both_ways",
    ),
    Deviation(
        "rules by HTTP only",
        "python",
        "Service Bus: change rules; Service Bus: rule twice; Service Bus: list rules; Service Bus: wrong rule",
        "It has no calls for rules by AMQP. The tests send these requests over its own link",
        "Its administration client is there for that",
        "topics.rules_added_and_removed",
    ),
    Deviation(
        "octets for strings",
        "python",
        "Service Bus: fields",
        "Names of application properties, and strings among their values, come as `bytes`",
        "It keeps what its former AMQP library did",
        "complaints.properties_have_the_types_that_were_sent",
    ),
    Deviation(
        "renewer grows",
        "aio",
        "Service Bus: lock kept",
        "Its renewer keeps an entry for each message that it ever had, until it is closed",
        "Tasks that are done are not removed from its list",
        "complaints.a_renewer_keeps_what_is_done",
    ),
    Deviation(
        "own clock",
        "python",
        "Service Bus: wrong clock",
        "By a clock that is 70 s fast it refuses to complete what is locked for 60 s",
        "It compares the end of a lock with the clock of the machine, and does not ask the service",
        "complaints.a_lock_that_looks_expired",
        absent=True,
    ),
    Deviation(
        "work goes on",
        "python",
        "Service Bus: lost lock ends the work",
        "Work on a message whose lock is lost goes on until the message is settled",
        "Its renewer works in a thread beside the program, which it cannot cancel",
        "complaints.work_on_a_message_whose_lock_is_lost",
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
        "It refuses a partition that is not there by itself, with an error of its own",
        "It asks which partitions there are before it reads or sends",
        "hubs.no_such_partition",
    ),
    Deviation(
        "address of an emulator",
        "rust",
        "Event Hubs: connection string",
        "It takes the host alone from a connection string: give `with_custom_endpoint` the address, `amqp://HOST:PORT`",
        "It is made for Azure, where all else is always the same",
        "rust.positions",
    ),
    Deviation(
        "one link for all readers",
        "rust",
        "Event Hubs: sequence number; Event Hubs: offset; Event Hubs: time",
        "Readers of one partition that one client opened share a link, and so the position of the first one",
        "It keeps its links by their address. The test opens a client for each reader",
        "rust.positions",
    ),
    Deviation(
        "drops the connection",
        "rust",
        "Event Hubs: higher level",
        "A reader that lost its partition now and then hears of a lost connection in place of the reason",
        "Its AMQP forgets a session before the end of it is answered, and takes the answer for an error of the peer",
        "rust.owner",
    ),
    Deviation(
        "waits for ever",
        "rust",
        "Event Hubs: hub; Event Hubs: partition key",
        "Now and then a call never returns, once the SDK has ended the session that it gave its token on",
        "The same race, it seems: the emulator has answered all that came. The test gives each behavior five tries",
        "rust.keys",
    ),
    Deviation(
        "no administration",
        "ours",
        ADMINISTRATION,
        "`amqp10.azure` does not create, list or delete entities; it has rules of subscriptions by AMQP",
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
            "This is the broker's limit; `max_message_size` sets another",
        ),
        Difference(
            "both services in one",
            "A queue and an event hub are in one emulator, and either client sends to both",
            "One port and one connection string are enough for a test",
        ),
        Difference(
            "SQL in part",
            "No parameters, no `newid()`, no `property()`; the pattern of a LIKE is a text",
            "They are not built yet. A rule that uses them is refused, and the place in it is said",
        ),
        Difference(
            "settings without effect",
            "Automatic deletion when idle, partitioning and express are kept and told, and do nothing",
            "They are about scale and tidiness, which a test does not need",
        ),
        Difference(
            "two requests in transactions",
            "In a transaction `$management` takes `schedule-message` and `update-disposition`, and refuses the rest",
            "The SDK for Java asks for these two; what the service does with others is not documented",
        ),
    ],
    "Event Hubs": [
        Difference(
            "offsets",
            "An offset is 64 times the sequence number",
            "A program that takes one for the other fails in its tests, and not in Azure",
            "interop/test_azure_eventhub.py::batch_in_order",
        ),
        Difference(
            "20,000 events",
            "A batch has 20,000 events at most",
            "All other links wait while the emulator takes a batch",
            "broker/azure/event_hubs/test_hub.py::test_too_many",
        ),
        Difference(
            "idle links stay",
            "Links to hubs that nobody uses are not detached",
            "Not built yet; those of Service Bus are detached",
        ),
        Difference(
            "not there",
            "No capture, no schema registry, no Kafka, no geo-replication",
            "They are no part of what a client sees over AMQP",
        ),
    ],
}


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
    lines += ["", "## What SDKs do otherwise"]
    for deviation in DEVIATIONS:
        who = ", ".join(COLUMNS[each].title for each in deviation.who.split())
        shown = ", ".join(f"`{each}`" for each in deviation.tests.split())
        lines += ["", f"### {deviation.name}", "", f"{who}. {deviation.what}."]
        lines += [f"Why: {deviation.why}." + (f" Shown by {shown}." if shown else "")]
    lines += ["", "## What the emulator does otherwise than Azure"]
    for service, differences in DIFFERENCES.items():
        lines += [
            "",
            f"### The emulator of {service}",
            "",
            "| name | what is otherwise | why | test |",
            "|---|---|---|---|",
        ]
        for each in differences:
            lines.append(f"| {each.name} | {each.what} | {each.why} | {f'`{each.test}`' if each.test else ''} |")
    lines += ["", "## The tests", "", "In front of each test stands the key of its file:", ""]
    lines += ["| key | file, beneath `tests/` |", "|---|---|"]
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
