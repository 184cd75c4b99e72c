"""The brokers. Facts about those that this project's tests run were observed; others come from the sources named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .._arguments import without_secrets
from ._profile import Fact, Profile, TransactionSupport

_SEEN: Final = "tests/interop/"

GENERIC: Final = Profile("generic", "AMQP 1.0")
"""An unknown peer: addresses are names, and the profile has no other facts."""

EMBEDDED: Final = Profile(
    "embedded",
    "amqp10's embedded broker",
    products=("amqp10",),
    tokens_since="",
    early_outcomes=True,
    capabilities=True,
    hints={
        "released": "it reached no queue: no binding of the exchange matches (released = unroutable), or the queue is"
        " being deleted"
    },
    facts=(
        Fact(
            "A node is created when a link attaches: a topic if the terminus has that capability, otherwise a queue.",
            "docs/embedded/index.md",
        ),
        Fact("Without a store everything is in memory, including durable messages.", "docs/embedded/index.md"),
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
        "amqp:not-found": "it makes no node on first use, and before 4.2 ends the session for an unknown one: declare "
        "it first, with amqp10.rabbitmq or, in 0-9-1, connection.native",
        "amqp:invalid-field": "addresses are /queues/NAME to receive, /queues/NAME or /exchanges/NAME/KEY to send, "
        "with names percent-encoded",
        "no topic": "messages are received from queues: bind one to the exchange",
        "no replies": "give reply_to= the address of a queue; amqp10.rabbitmq declares one",
    },
    facts=(
        Fact(
            "Addresses (v2) are /queues/NAME, /exchanges/NAME and /exchanges/NAME/KEY, with names percent-"
            "encoded. Only queues can be received from.",
            "https://www.rabbitmq.com/docs/amqp",
        ),
        Fact(
            "A message that reached no queue is released, not rejected.",
            "https://github.com/rabbitmq/rabbitmq-server/issues/7823",
        ),
        Fact(
            "Nodes are not created on first use. 4.0 and 4.1 end the session, later versions only detach the link.",
            "https://github.com/rabbitmq/rabbitmq-server/pull/14389",
        ),
        Fact(
            "It treats the frame that aborts a delivery as one more part of it. Only the end of the link "
            "discards the delivery, and the next delivery on that link ends the session.",
            _SEEN,
        ),
        Fact(
            "Since 4.2 it creates a dynamic source for replies, if the request is for a volatile queue and "
            "settled messages.",
            "https://www.rabbitmq.com/docs/direct-reply-to",
        ),
        Fact(
            "It does not support receiver-settle-mode second, other dynamic sources, transactions or subscriptions.",
            _SEEN,
        ),
        Fact(
            "Queues do not copy messages for browsers but hand them over. 4.0 nevertheless confirms to copy; "
            "later versions answer move. Streams do copy.",
            _SEEN,
        ),
        Fact(
            "Since 4.1 a connection that was opened with a token accepts the next one by PUT /auth/tokens at "
            "its management node.",
            "https://github.com/rabbitmq/rabbitmq-server/pull/12599",
        ),
        Fact("A consumer's priority is the link property rabbitmq:priority, of type int.", _SEEN),
        Fact(
            "It ignores an outcome for a large message that it is still sending. The next consumer gets the "
            "message again.",
            _SEEN,
        ),
        Fact("4.0 ends the whole session, with all of its links, when one asks for a transaction coordinator.", _SEEN),
        Fact("Its transfer-ids begin at 2^32 - 4, so they wrap almost at once.", _SEEN),
        Fact(
            "4.0 and 4.1 may lose frames that arrive on a channel right after its session ended, so this "
            "client rotates channels.",
            "https://github.com/rabbitmq/rabbitmq-server/pull/14317",
        ),
        Fact(
            "A management request that is unknown, or that the user may not make, ends the session.",
            _SEEN,
        ),
        Fact(
            "4.0 echoes filters even if it applies none. Only streams filter.",
            "https://www.rabbitmq.com/docs/stream-filtering",
        ),
        Fact(
            "A connection has at most 64 sessions, and a session at most 256 links, unless configured otherwise.",
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
            "The capability of the terminus, queue or topic, decides how an address that is created on first "
            "use routes: anycast or multicast.",
            "https://activemq.apache.org/components/artemis/documentation/latest/amqp.html",
        ),
        Fact(
            "ADDRESS::QUEUE, the fully qualified queue name, receives from one queue of an address.",
            "https://activemq.apache.org/components/artemis/documentation/latest/address-model.html",
        ),
        Fact("All messages of one group-id go to one consumer.", _SEEN),
        Fact(
            "An aborted large message (100 KiB) usually stops the link: later messages get no outcome. The "
            "client continues on another link.",
            _SEEN,
        ),
        Fact(
            "An outcome for a large message that it is still sending stops the link: no more messages come, "
            "or it detaches.",
            _SEEN,
        ),
        Fact("Rejected messages go to the dead-letter address at once.", _SEEN),
        Fact(
            "A drain that follows closely after another may be answered too early, or never. The client asks again.",
            _SEEN,
        ),
        Fact(
            "In a transaction only the outcome accepted has an effect. Others are ignored, and the message "
            "stays with its receiver. The txn-id of a flow is ignored, too.",
            _SEEN,
        ),
        Fact(
            "After an outcome that does not settle, as is possible in a transaction, it reuses the delivery-"
            "tag while the delivery is still unsettled.",
            "seen on 2.55.0",
        ),
        Fact("Work in a transaction that has ended closes the connection, with amqp:internal-error.", "seen on 2.55.0"),
        Fact("An unsettled map in an attach is not answered: links do not resume.", _SEEN),
        Fact(
            "It confirms a durable subscription with a timeout, but ends it at the detach: the expiry policy "
            "link-detach closes it.",
            _SEEN,
        ),
        Fact(
            "It refuses a second receiver of an unshared subscription with amqp:internal-error, and also "
            "unsubscribing while the subscription is in use.",
            _SEEN,
        ),
        Fact(
            "Ending a subscription needs the permission deleteDurableQueue. Without it, the subscription "
            "silently stays.",
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
            "It sends every message to its end, whatever the session's window. The waiting part of a streamed"
            " message is limited only by the size of the message.",
            _SEEN,
        ),
        Fact("It grants receiver-settle-mode second in full.", _SEEN),
        Fact("A rejected message arrives again, and counts as a failed delivery.", _SEEN),
        Fact("Its sources do not list the outcome modified, but it applies it and counts the failure.", _SEEN),
        Fact(
            "In settle mode mixed it disconnects when an unsettled message follows directly after a settled one.", _SEEN
        ),
        Fact(
            "A non-empty unsettled map is refused with amqp:not-implemented (QPID-7845).",
            "https://issues.apache.org/jira/browse/QPID-7845",
        ),
        Fact(
            "Its coordinator lists no capabilities, but accepts several transactions on a session, and work "
            "of several sessions in one transaction.",
            _SEEN,
        ),
        Fact(
            "If a message is released in a transaction that is rolled back, no consumer gets the message any more.",
            "seen on 10.1.0",
        ),
        Fact(
            "An unsettled outcome in a transaction is lost if the link is detached before the commit: the "
            "message arrives again.",
            "seen on 10.1.0",
        ),
        Fact(
            "The txn-id by which a link acquires outlives its transaction: the next flow has to name another "
            "one, or null.",
            "seen on 10.1.0",
        ),
        Fact("A flow whose next-incoming-id is wrong ends the session with window-violation.", _SEEN),
        Fact(
            "A second link of the same container and name takes a subscription over (amqp:link:stolen), and "
            "the messages waiting in it are dropped.",
            _SEEN,
        ),
        Fact("Subscriptions are kept forever or end at the detach: it answers with timeout 0.", _SEEN),
        Fact("A consumer without a priority comes before all consumers that have one.", _SEEN),
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
        Fact("It never answers a sender's detach unless closed is set.", "seen on 6.3.1"),
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
            "The capability of the terminus says what an address is, or else its prefix queue:// or topic://."
            " Without either it is a queue.",
            "https://docs.solace.com/API/AMQP/Rules-Dest-Spec.htm",
        ),
        Fact(
            "It answers a batchable transfer late. A transfer whose outcome somebody waits for must not be "
            "batchable; this client sends none.",
            "https://github.com/Azure/amqpnetlite/issues/351",
        ),
        Fact(
            "It may detach a link without setting closed, although it will not take the link back.",
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
            "AMQP channels support neither transactions nor more than one session per connection.",
            "https://www.ibm.com/support/knowledgecenter/en/SSFKSJ_9.2.0/com.ibm.mq.dev.doc/amqp_scen_clients_mq.htm",
        ),
        Fact(
            "It expects a heartbeat within the idle timeout that it announces, not exactly at its end. This "
            "client sends one at half that time.",
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
            "A transaction can include work of any link of the connection, whatever its session.",
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
        Fact(
            "Its hosts look like those of Service Bus, so this profile is used only when you name it.",
            "the host names of both",
        ),
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
    raise LookupError(
        f"there is no profile {without_secrets(name)}; "
        f"the profiles are {', '.join(repr(each.name) for each in PROFILES)}"
    )


def recognize(properties: Mapping[Any, Any], host: str = "") -> Profile:
    """Return the profile of a peer, by the properties of its open (§2.7.1) or its host name; else `GENERIC`.

    Args:
        properties: the properties of the peer's open, in which brokers name their product.
        host: the name of the host connected to.
    """
    product_names = [str(properties[key]) for key in ("product", "platform") if key in properties]
    for each in PROFILES:
        if any(word.startswith(each.products) for word in product_names if each.products):
            return each
        if each.hosts and host.lower().endswith(each.hosts):
            return each
    return GENERIC
