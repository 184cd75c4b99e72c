"""The brokers. What is said of those that this project's tests run was seen there; the rest is from the sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ._profile import Fact, Profile, TransactionSupport

_SEEN: Final = "tests/interop/"

GENERIC: Final = Profile("generic", "AMQP 1.0")
"""An unknown peer: addresses are names, and the profile states no other facts."""

EMBEDDED: Final = Profile(
    "embedded",
    "amqp10's embedded broker",
    products=("amqp10",),
    tokens_since="",
    early_outcomes=True,
    capabilities=True,
    hints={
        "released": "no queue took it: no binding of the exchange matches (released = unroutable), or it is going away"
    },
    facts=(
        Fact(
            "A node is made when a link attaches: a topic if the terminus has the capability.",
            "docs/embedded/index.md",
        ),
        Fact("Without a store everything is in memory, durable messages too.", "docs/embedded/index.md"),
    ),
)

RABBITMQ: Final = Profile(
    "rabbitmq",
    "RabbitMQ",
    products=("RabbitMQ",),
    queue="/queues/{quoted}",
    topic="/exchanges/{quoted}",
    topic_source="",
    aborts=False,
    copies=False,
    transactions=None,
    reply_capabilities=("rabbitmq:volatile-queue",),
    replies_since="4.2",
    tokens_since="4.1",
    resumes=False,
    hints={
        "no exclusive": "declare the queue exclusive, for its connection, or with a single active consumer",
        "released": "it routed the message to no queue: no binding of the exchange matches (released = unroutable)",
        "rejected": "a queue refused the message, by its length limit or because it is not available",
        "amqp:not-found": "it makes no node on first use, and may end the session for an unknown one: declare it "
        "before, with amqp10.rabbitmq or, in 0-9-1, connection.native",
        "amqp:invalid-field": "addresses are /queues/NAME to receive, /queues/NAME or /exchanges/NAME/KEY to send, "
        "with names percent-encoded",
        "no topic": "messages are received from queues: bind one to the exchange",
        "no replies": "give reply_to= the address of a queue; amqp10.rabbitmq declares one",
    },
    facts=(
        Fact(
            "Addresses (v2) are /queues/NAME, /exchanges/NAME and /exchanges/NAME/KEY, names percent-encoded; only "
            "queues can be received from.",
            "https://www.rabbitmq.com/docs/amqp",
        ),
        Fact(
            "A message that no queue took is released, not rejected.",
            "https://github.com/rabbitmq/rabbitmq-server/issues/7823",
        ),
        Fact("Nodes are not made on first use; 4.0 ends the session, later versions only detach the link.", _SEEN),
        Fact(
            "It takes the frame that aborts a delivery for one more part of it: only the end of the link does away "
            "with the delivery, and the next one on that link ends the session.",
            _SEEN,
        ),
        Fact(
            "Since 4.2 a dynamic source is made for replies, if it is asked for as a volatile queue and settled.",
            "https://www.rabbitmq.com/docs/direct-reply-to",
        ),
        Fact("receiver-settle-mode second, other dynamic sources, transactions, subscriptions: not there.", _SEEN),
        Fact(
            "Queues do not copy for browsers but take, though 4.0 confirms to copy; later versions answer move. "
            "Streams do copy.",
            _SEEN,
        ),
        Fact(
            "Since 4.1 a connection that was opened with a token takes the next one by PUT /auth/tokens at its "
            "management node.",
            "https://github.com/rabbitmq/rabbitmq-server/pull/12599",
        ),
        Fact("A consumer's priority is the link property rabbitmq:priority, of type int.", _SEEN),
        Fact(
            "It ignores an outcome for a large message that it is still sending: the message comes again to the next "
            "consumer.",
            _SEEN,
        ),
        Fact("4.0 ends the whole session, with all of its links, when one asks for a transaction coordinator.", _SEEN),
        Fact("It begins its transfer-ids at 2^32 - 4, so that they wrap at once.", _SEEN),
        Fact(
            "4.0 and 4.1 may lose what comes on a channel right after its session ended; so channels take turns here.",
            "https://github.com/rabbitmq/rabbitmq-server/pull/14317",
        ),
        Fact(
            "A management request that it does not know, or that the user may not make, ends the session.",
            _SEEN,
        ),
        Fact(
            "Filters are echoed by 4.0 even where it applies none; only stream queues filter.",
            "https://www.rabbitmq.com/docs/stream-filtering",
        ),
        Fact(
            "At most 64 sessions a connection and 256 links a session, unless configured.",
            "https://github.com/rabbitmq/rabbitmq-server/issues/12234",
        ),
    ),
)

ARTEMIS: Final = Profile(
    "artemis",
    "Apache Artemis",
    products=("apache-activemq-artemis",),
    aborts=False,
    capabilities=True,
    timeouts=False,
    transactions=TransactionSupport(outcomes=frozenset({"accepted"}), acquires=False),
    resumes=False,
    hints={
        "no exclusive": "its queue is exclusive by configuration, and then gives all messages to one of its consumers",
        "amqp:unauthorized-access": "the user may not create the address either: see security-settings in broker.xml",
        "amqp:resource-limit-exceeded": "the address is full (max-size-bytes with address-full-policy FAIL)",
    },
    facts=(
        Fact(
            "The capability of the terminus, queue or topic, says how an address made on first use routes: anycast or "
            "multicast.",
            "https://activemq.apache.org/components/artemis/documentation/latest/amqp.html",
        ),
        Fact(
            "ADDRESS::QUEUE, the fully qualified queue name, receives from one queue of an address.",
            "https://activemq.apache.org/components/artemis/documentation/latest/address-model.html",
        ),
        Fact("All messages of one group-id go to one consumer.", _SEEN),
        Fact(
            "A large message (100 KiB) that is aborted stops the link, more often than not: what follows on it gets no "
            "outcome. The client goes on with another link.",
            _SEEN,
        ),
        Fact(
            "An outcome for a large message that it is still sending stops the link: nothing follows, or it detaches.",
            _SEEN,
        ),
        Fact("Rejected messages go to the dead-letter address at once.", _SEEN),
        Fact(
            "A drain that follows another one closely may be answered too early, or never; the client asks again.",
            _SEEN,
        ),
        Fact(
            "In a transaction only the outcome accepted has an effect; others are ignored, and the message stays with "
            "its receiver. The txn-id of a flow is ignored, too.",
            _SEEN,
        ),
        Fact(
            "After an outcome that does not settle, as one in a transaction may be, it uses the delivery-tag again "
            "while the delivery is unsettled.",
            "seen on 2.55.0",
        ),
        Fact("Work in a transaction that is over closes the connection, with amqp:internal-error.", "seen on 2.55.0"),
        Fact("An unsettled map in an attach is not answered: links do not resume.", _SEEN),
        Fact(
            "A durable subscription with a timeout is confirmed, and ends with the detach all the same: expiry policy "
            "link-detach closes.",
            _SEEN,
        ),
        Fact(
            "A second receiver of a subscription that is not shared is refused with amqp:internal-error, and so is "
            "unsubscribing while it is in use.",
            _SEEN,
        ),
        Fact(
            "Ending a subscription needs the permission deleteDurableQueue; without it, it stays, and nothing is said.",
            _SEEN,
        ),
    ),
)

BROKER_J: Final = Profile(
    "broker-j",
    "Apache Qpid Broker-J",
    products=("Apache Qpid Broker-J",),
    early_outcomes=True,
    capabilities=True,
    unlisted_outcomes=frozenset({"modified"}),
    keeps_window=False,
    transactions=TransactionSupport(outcomes=frozenset({"accepted", "rejected", "modified"}), spans_sessions=True),
    resumes=False,
    hints={
        "no exclusive": "its queue is exclusive by its attribute of that name",
        "amqp:precondition-failed": "a memory-only virtual host takes no durable messages",
        "amqp:not-implemented": "links do not resume here, and an unsettled map in an attach is refused",
    },
    facts=(
        Fact(
            "It sends every message to its end, whatever the session's window: what waits of a stream is bounded by "
            "the message's size only.",
            _SEEN,
        ),
        Fact("It is the broker that grants receiver-settle-mode second in full.", _SEEN),
        Fact("A rejected message comes again, and counts as a failed delivery.", _SEEN),
        Fact("Its sources do not list the outcome modified, yet it applies it, and counts the failure.", _SEEN),
        Fact("In settle mode mixed it hangs up on an unsettled message right behind a settled one.", _SEEN),
        Fact(
            "A non-empty unsettled map is refused with amqp:not-implemented (QPID-7845).",
            "https://issues.apache.org/jira/browse/QPID-7845",
        ),
        Fact(
            "Its coordinator names no capabilities, yet takes several transactions on a session, and work of several "
            "sessions in one.",
            _SEEN,
        ),
        Fact(
            "A message that is released in a transaction is stuck when that is rolled back: no consumer gets it.",
            "seen on 10.1.0",
        ),
        Fact(
            "An unsettled outcome in a transaction is lost if the link is detached before the commit: the message "
            "comes again.",
            "seen on 10.1.0",
        ),
        Fact(
            "The txn-id by which a link acquires outlives its transaction: the next flow has to name another, or null.",
            "seen on 10.1.0",
        ),
        Fact("A flow whose next-incoming-id is wrong ends the session with window-violation.", _SEEN),
        Fact(
            "A second link of the same container and name takes a subscription over (amqp:link:stolen), and what "
            "waited in it is dropped.",
            _SEEN,
        ),
        Fact("Subscriptions are kept for ever or end with the detach: it answers timeout 0.", _SEEN),
        Fact("A consumer that says no priority is before all that say one.", _SEEN),
    ),
)

ACTIVEMQ: Final = Profile(
    "activemq",
    "Apache ActiveMQ Classic",
    products=("ActiveMQ", "Apache ActiveMQ"),
    queue="queue://{}",
    topic="topic://{}",
    facts=(
        Fact(
            "A name without prefix is a queue; topic://NAME is a topic.",
            "https://activemq.apache.org/components/classic/documentation/amqp",
        ),
        Fact("A sender's detach without closed is never answered; a closing one is.", "seen on 6.3.1"),
    ),
)

SOLACE: Final = Profile(
    "solace",
    "Solace PubSub+",
    products=("Solace",),
    queue="queue://{}",
    topic="topic://{}",
    capabilities=True,
    facts=(
        Fact(
            "The capability of the terminus, or the prefix queue:// or topic:// of the address, says what it is; the "
            "capability goes first, and without either it is a queue.",
            "https://docs.solace.com/API/AMQP/Rules-Dest-Spec.htm",
        ),
        Fact(
            "A transfer sent batchable is answered late; one that is waited for must not be, and none of ours is.",
            "https://github.com/Azure/amqpnetlite/issues/351",
        ),
        Fact(
            "Its detach of a link may come without closed, though it will not take the link back.",
            "https://github.com/rabbitmq/rabbitmq-server/issues/2578",
        ),
    ),
)

IBM_MQ: Final = Profile(
    "ibm-mq",
    "IBM MQ",
    capabilities=True,
    transactions=None,
    facts=(
        Fact(
            "Without the capability queue a terminus is a topic.",
            "https://www.ibm.com/docs/en/ibm-mq/9.2?topic=applications-point-point-support-amqp-channels",
        ),
        Fact(
            "Transactions and more than one session a connection are not supported on AMQP channels.",
            "https://www.ibm.com/support/knowledgecenter/en/SSFKSJ_9.2.0/com.ibm.mq.dev.doc/amqp_scen_clients_mq.htm",
        ),
        Fact(
            "It wants a heartbeat within the idle timeout that it names, not on it: this client sends at half of it.",
            "https://github.com/Azure/go-amqp/issues/16",
        ),
    ),
)

SERVICE_BUS: Final = Profile(
    "service-bus",
    "Azure Service Bus",
    hosts=(".servicebus.windows.net", ".servicebus.usgovcloudapi.net", ".servicebus.chinacloudapi.cn"),
    topic_source="",
    transactions=TransactionSupport(spans_sessions=True),
    resumes=False,
    hints={
        "amqp:link:detach-forced": "a link without traffic for 10 minutes is detached, heartbeats or not: attach again",
        "no topic": "a subscription is received from by its own path: TOPIC/Subscriptions/NAME",
    },
    facts=(
        Fact(
            "A link without traffic is detached after 10 minutes, and a connection without links after 5.",
            "https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-troubleshoot",
        ),
        Fact(
            "A subscription's address is TOPIC/Subscriptions/NAME, a dead-letter queue's ends in /$DeadLetterQueue.",
            "https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide",
        ),
        Fact(
            "A transaction takes work of any link of the connection, whatever its session.",
            "https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide",
        ),
        Fact(
            "Tokens are put to the node $cbs; PLAIN with a shared access key works, too.",
            "https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide",
        ),
    ),
)

EVENT_HUBS: Final = Profile(
    "event-hubs",
    "Azure Event Hubs",
    topic_source="",
    hints={
        **SERVICE_BUS.hints,
        "no topic": "a partition is received from: HUB/ConsumerGroups/GROUP/Partitions/N",
    },
    facts=(
        Fact(
            "A partition's address is HUB/ConsumerGroups/GROUP/Partitions/N; a selector filter says where to begin.",
            "https://learn.microsoft.com/azure/event-hubs/event-hubs-amqp-troubleshoot",
        ),
        Fact("Its hosts are those of Service Bus, so it is used only when it is named.", "the host names of both"),
    ),
)

PROFILES: Final = (
    EMBEDDED,
    RABBITMQ,
    ARTEMIS,
    BROKER_J,
    ACTIVEMQ,
    SOLACE,
    IBM_MQ,
    SERVICE_BUS,
    EVENT_HUBS,
    GENERIC,
)


def profile(name: str) -> Profile:
    """Return the profile called `name`.

    Raises:
        LookupError: no profile has this name; the message lists the names that exist.
    """
    for each in PROFILES:
        if each.name == name:
            return each
    raise LookupError(f"no profile {name!r}; there is {', '.join(repr(each.name) for each in PROFILES)}")


def recognize(properties: Mapping[Any, Any], host: str = "") -> Profile:
    """Return the profile of a peer, by the properties of its open (§2.7.1) or its host name; else `GENERIC`.

    Args:
        properties: the properties of the peer's open, in which brokers name their product.
        host: the name of the host connected to.
    """
    said = [str(properties[key]) for key in ("product", "platform") if key in properties]
    for each in PROFILES:
        if any(word.startswith(each.products) for word in said if each.products):
            return each
        if each.hosts and host.lower().endswith(each.hosts):
            return each
    return GENERIC
