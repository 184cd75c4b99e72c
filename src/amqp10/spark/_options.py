"""The options of `format("amqp")`: one declaration each, from which parsing, errors and the table in the docs are made.

Spark passes options as strings, with their names in lower case. This module does not import Spark.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from importlib.util import find_spec
from typing import Any, Final, Literal

from ._option_parsers import (
    at_least,
    boolean,
    choice,
    dialect_name,
    directory,
    ending_offsets,
    function_name,
    json_object,
    json_strings,
    moment,
    nonempty,
    offsets,
    seconds,
    urls,
)

AddressType = Literal["queue", "topic", "raw"]
Mode = Literal["auto", "queue", "stream", "eventhubs"]
Ack = Literal["auto", "browse", "wal", "accept"]
BodyFormat = Literal["binary", "string", "json", "amqp"]
MessageIds = Literal["auto", "column", "none"]
OnReject = Literal["fail", "drop"]
TransactionScope = Literal["none", "task"]
Probe = Literal["auto", "always"]
Dedupe = Literal["auto", "all", "none"]
Sasl = Literal[
    "auto",
    "anonymous",
    "plain",
    "external",
    "scram-sha-1",
    "scram-sha-256",
    "scram-sha-512",
    "scram-sha-1-plus",
    "scram-sha-256-plus",
    "scram-sha-512-plus",
    "xoauth2",
    "oauthbearer",
    "cbs",
]

# Options that Spark itself adds to some queries.
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname", "mode_", "mergeschema"})


def _option(
    where: str,
    parse: Callable[[str], Any],
    meaning: str,
    default: Any = None,
    *,
    shown: str | None = None,
    aliases: tuple[str, ...] = (),
    secret: bool = False,
    name: str | None = None,
) -> Any:
    """Declare an option: where it applies ("read", "stream", "write"), its parser, and its text in the docs."""
    metadata = {"where": where, "parse": parse, "meaning": meaning, "aliases": aliases, "shown": shown, "name": name}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed options. Their repr has no secrets."""

    # Where to, and as whom
    url: tuple[str, ...] = _option(
        "all",
        urls,
        "The broker: `amqp://user:password@host:port` or any other URL that `Connection` accepts. Several, "
        "separated by commas, are tried in turn.",
        shown="required",
        secret=True,
    )
    address: str | None = _option(
        "all",
        nonempty,
        "The queue, topic or stream. When writing without it, the column `to` of each row is its address, in "
        "the broker's form.",
        shown="required to read",
        aliases=("queue", "path"),
    )
    address_type: AddressType = _option(
        "all",
        choice(AddressType),
        "What `address` names: a `queue` or a `topic`, which is put into the broker's form (`/queues/orders` "
        "on RabbitMQ). `raw` uses the address unchanged. A topic can only be written to, because it keeps "
        "nothing for the next batch.",
        "queue",
    )
    username: str | None = _option("all", nonempty, "The user, if the URL has none.")
    password: str | None = _option("all", str, "Its password.", secret=True)
    token: str | None = _option("all", nonempty, "An access token in place of a password.", secret=True)
    sasl: Sasl = _option(
        "all",
        choice(Sasl),
        "The SASL mechanism. `auto` is the strongest that the peer and the credentials allow. `cbs`, the "
        "default of `mode=eventhubs`, puts tokens at the node `$cbs`, as Azure requires: the option `token`, "
        "or tokens signed by a shared access key, with its policy as the user and the key as the password.",
        "auto",
    )
    allow_insecure: bool = _option(
        "all",
        boolean,
        "Allow sending a password, or tokens for `$cbs`, to another machine without TLS, readable to everyone"
        " on the way.",
        False,
    )
    tls_ca: str | None = _option(
        "all", nonempty, "File of authorities (PEM) that sign the server's certificate.", name="tls.ca"
    )
    tls_certificate: str | None = _option("all", nonempty, "File of our own certificate (PEM).", name="tls.certificate")
    tls_key: str | None = _option("all", nonempty, "File of its key (PEM).", name="tls.key")
    tls_verify: bool = _option("all", boolean, "Check the server's certificate.", True, name="tls.verify")
    dialect: str = _option(
        "all", dialect_name, "The protocol: `1.0`, one of the older ones, or `auto` to ask the server.", "1.0"
    )
    idle_timeout: float = _option("all", seconds, "Seconds of silence after which a connection counts as lost.", 60.0)
    connect_timeout: float = _option(
        "all", seconds, "Seconds for which the client retries a connection that cannot be opened or was lost.", 30.0
    )
    setup: str | None = _option(
        "all",
        function_name,
        "A function, `MODULE:FUNCTION`, that each Python process of Spark calls once before it connects, for "
        "telemetry or logging. The module must exist on all machines.",
    )

    # Reading
    mode: Mode = _option(
        "read, stream",
        choice(Mode),
        "What `address` is: a `queue`, whose messages are consumed; a RabbitMQ `stream` or super stream; or "
        "the partitions of `eventhubs`. `auto` means a stream if an option for streams is set, otherwise a "
        "queue. If the broker says that it is the other kind, the query fails with that reason.",
        "auto",
    )
    ack: Ack = _option(
        "read, stream",
        choice(Ack),
        "`browse`: read the queue and leave its messages there (batch only). `wal`: take messages, write them"
        " to `walLocation`, then accept them. `accept`: accept them at once (at most once). `auto`: `browse` "
        "in batch, `wal` in streams.",
        "auto",
    )
    body_format: BodyFormat = _option(
        "all",
        choice(BodyFormat),
        "`binary`: data unchanged, text as UTF-8, other values as JSON. `string`: the same, in a column of "
        "strings. `json`: bodies that are values, including text, as JSON. `amqp`: the whole encoded message.",
        "binary",
    )
    sessions: bool = _option(
        "read, stream",
        boolean,
        "The queue or subscription of Azure Service Bus requires sessions. A task takes the next free one, "
        "then another, and holds them until their messages are settled. Not with `ack=browse`.",
        False,
    )
    selector: str | None = _option("read, stream", nonempty, "A filter for the broker to apply: `region = 'eu'`.")
    pushdown: bool = _option(
        "read",
        boolean,
        "Let the broker apply filters of the DataFrame by `subject` and `priority` when a queue is browsed. "
        "Needs `spark.sql.python.filterPushdown.enabled=true`.",
        False,
    )
    amqp_filters: dict[str, Any] | None = _option(
        "read, stream",
        json_object,
        'Further filters for the broker, by name: `{"rabbitmq:stream-filter": ["eu"]}`. The name is the '
        'descriptor, unless the value is `{"descriptor": "...", "value": ...}`. If the broker says that it '
        "does not apply one, the read fails. RabbitMQ never says so, although its queues apply none.",
        name="amqp.filters",
    )
    amqp_source_capabilities: tuple[str, ...] = _option(
        "read, stream",
        json_strings,
        'Capabilities to request from the source: `["shared"]`.',
        (),
        shown="-",
        name="amqp.sourceCapabilities",
    )
    amqp_link_properties: dict[str, Any] | None = _option(
        "all",
        json_object,
        'Properties of the links that consume or write: `{"rabbitmq:priority": 5}`.',
        name="amqp.linkProperties",
    )
    num_partitions: int = _option(
        "read, stream",
        at_least(1),
        "Number of links that consume a queue at the same time. Order is kept only with 1.",
        1,
    )
    max_messages: int = _option(
        "read",
        at_least(1),
        "Maximum number of messages that a batch read takes or browses; for a log, shared in proportion among"
        " its partitions.",
        2**31 - 1,
        shown="no limit",
    )
    receive_timeout: float = _option(
        "read, stream", seconds, "Seconds of silence after which a task fails, while the broker should deliver.", 60.0
    )

    # Streaming from queues
    wal_location: str | None = _option(
        "read, stream",
        directory,
        "Directory of the write-ahead segments, which the driver and all executors must see: a local path on "
        "one node, otherwise a shared file system.",
        shown="required with `ack=wal`",
    )
    wal_lease: float = _option(
        "stream",
        seconds,
        "Seconds of silence of a task after which another attempt stops waiting for its segment.",
        60.0,
    )
    dedupe: Dedupe = _option(
        "stream",
        choice(Dedupe),
        "Drop messages that arrive again, recognized by their message-id. `auto`: messages of batches whose "
        "acceptance the broker did not confirm because a task or a connection died. `all`: messages of every "
        "batch whose ids are kept. `none`: drop nothing.",
        "auto",
    )
    wal_retain_batches: int = _option(
        "stream",
        at_least(1),
        "Number of committed batches whose message-ids are kept for that. Ids that the broker did not confirm"
        " are also kept for 24 hours.",
        10,
    )
    max_messages_per_trigger: int = _option(
        "stream",
        at_least(1),
        "Maximum number of messages in a micro-batch.",
        100_000,
        aliases=("maxOffsetsPerTrigger",),
    )
    max_bytes_per_trigger: int | None = _option(
        "stream",
        at_least(1),
        "For a queue, the approximate maximum number of octets in a micro-batch. A link that has its share "
        "asks for no more, and takes only what is on its way.",
        shown="no limit",
    )
    stop_file: str | None = _option(
        "stream",
        nonempty,
        "While a file of this name exists on the driver's machine, no batch begins. So a query can finish its"
        " current batch, and then waits for `query.stop()`.",
    )
    probe: Probe = _option(
        "stream",
        choice(Probe),
        "How the driver detects waiting messages: `auto` browses one; `always` starts a batch at each trigger.",
        "auto",
    )

    # Streaming from logs
    starting_offsets: str | dict[str, int | str] | None = _option(
        "read, stream",
        offsets,
        'Where to begin: `earliest`, `latest`, or offsets by partition, `{"orders": 17}`.',
        shown="`earliest` in batch, `latest` in streams",
    )
    starting_timestamp: datetime | None = _option(
        "read, stream",
        moment,
        "Alternative starting point: the first message since that time by the broker's clock, in milliseconds"
        " since 1970 or as `2026-01-31T06:00:00Z`. RabbitMQ knows only the time of messages that were stored "
        "together, and begins with the first of them.",
    )
    ending_offsets: str | dict[str, int | str] | None = _option(
        "read", ending_offsets, "Where to end (exclusive): `latest`, or offsets by partition.", shown="`latest`"
    )
    fail_on_data_loss: bool = _option(
        "read, stream",
        boolean,
        "Fail if messages to be read no longer exist: retention has removed them, the log was created anew, "
        "or an older checkpoint refers to deleted segments. If false, warn and continue with the remaining "
        "messages.",
        True,
    )
    min_partitions: int = _option(
        "read, stream", at_least(1), "Split offset ranges to get at least this many partitions.", 1
    )
    consumer_group: str = _option("read, stream", nonempty, "The consumer group of Event Hubs.", "$Default")

    # Writing
    message_ids: MessageIds = _option(
        "write",
        choice(MessageIds),
        "`auto`: a row without `message_id` gets one that stays the same when its task is repeated. `column`:"
        " use only the column, which must not be null. `none`: use the column, or no id.",
        "auto",
    )
    duplicate_id_property: str | None = _option(
        "write",
        nonempty,
        "Application property that gets the message-id, by which the broker drops duplicates: `_AMQ_DUPL_ID` "
        "on Artemis.",
    )
    transaction: TransactionScope = _option(
        "write", choice(TransactionScope), "`task`: send all rows of a task or none.", "none"
    )
    max_in_flight: int = _option("write", at_least(1), "Maximum number of messages of a task without an outcome.", 1000)
    on_reject: OnReject = _option(
        "write",
        choice(OnReject),
        "If the broker rejects a message: `fail` the task, or `drop` the message with a line in the log.",
        "fail",
    )
    durable: bool = _option("write", boolean, "Whether messages without a column `durable` are durable.", True)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Parse options as Spark passes them; names may be in any case.

        Raises:
            ValueError: an option is unknown, missing, given twice, or has a wrong value; the message names the option,
                and never has a secret.
        """
        values: dict[str, Any] = {}
        for name, text in given.items():
            key = name.lower()
            each = _BY_NAME.get(key)
            if each is None:
                if key in _SPARKS_OWN:
                    continue
                raise ValueError(f"amqp: there is no option {name!r}{_nearest(key)}")
            if each.name in values:
                raise ValueError(f"amqp: option {option_name(each)!r} is given twice, the second time as {name!r}")
            try:
                values[each.name] = each.metadata["parse"](text)
            except ValueError as error:
                raise ValueError(f"amqp: option {option_name(each)!r}: {error}") from None
        if "url" not in values:
            raise ValueError("amqp: option 'url' is missing: the broker, amqp://user:password@host:port")
        options = cls(**values)
        options._agree()
        return options

    def _agree(self) -> None:
        """Check that the options do not contradict each other.

        Raises:
            ValueError: two options contradict each other.
        """
        if self.tls_key is not None and self.tls_certificate is None:
            raise ValueError("amqp: option 'tls.key' needs option 'tls.certificate'")
        if self.starting_offsets is not None and self.starting_timestamp is not None:
            raise ValueError("amqp: options 'startingOffsets' and 'startingTimestamp': give only one of them")
        for name in ("starting_offsets", "starting_timestamp", "ending_offsets"):
            if self.mode == "queue" and getattr(self, name) is not None:
                raise ValueError(f"amqp: option {option_name(_FIELDS[name])!r}: mode is 'queue', which has no offsets")
        if self.sessions:
            if self.log:
                raise ValueError("amqp: option 'sessions': queues of Service Bus have sessions, and this reads a log")
            if self.filtered:
                raise ValueError(f"amqp: option {self.filtering}: Service Bus filters no sessions")
        if self.transaction == "task" and self.duplicate_id_property is not None:
            raise ValueError(
                "amqp: options 'transaction' and 'duplicateIdProperty' do not go together: a broker fails a "
                "transaction in which it finds a duplicate, so a task repeated after its commit would always fail"
            )
        if self.log and self.max_bytes_per_trigger is not None:
            raise ValueError(
                "amqp: option 'maxBytesPerTrigger' is for queues: of a log only the number of messages is known"
            )

    def require_address(self) -> str:
        """Return the address to read from.

        Raises:
            ValueError: no address is given, or it is a topic.
        """
        if self.address is None:
            raise ValueError("amqp: option 'address' is missing: the queue or stream to read from")
        if self.address_type == "topic":
            raise ValueError(
                f"amqp: option 'addressType': {self.address!r} is a topic, which keeps no messages for the next "
                "batch: have the broker put its messages into a queue, and read that"
            )
        return self.address

    def require_wal(self, why: str) -> str:
        """Return the directory of the write-ahead segments.

        Args:
            why: what needs the directory, for the error.

        Raises:
            ValueError: no directory is given, or this system has no file locks (`fcntl`), as Windows has none.
        """
        if find_spec("fcntl") is None:
            raise ValueError(
                "amqp: option 'ack' must not be 'wal' on this system: it has no flock, by which tasks publish their "
                "segments in turn; run Spark on Linux or macOS, or set ack=accept (at most once) or ack=browse"
            )
        if self.wal_location is None:
            raise ValueError(
                f"amqp: option 'walLocation' is missing: {why}. It is a directory that the driver and all executors "
                "see. Without it only ack=accept reads, and loses the messages of a failed task"
            )
        return self.wal_location

    @property
    def log(self) -> bool:
        """Whether the source is a log, read by offsets."""
        if self.mode == "auto":
            places = (self.starting_offsets, self.starting_timestamp, self.ending_offsets)
            return any(each is not None for each in places)
        return self.mode != "queue"

    @property
    def stopping(self) -> bool:
        """Whether the stop file exists, so that no batch may begin."""
        return self.stop_file is not None and os.path.exists(self.stop_file)

    @property
    def filtered(self) -> bool:
        """Whether the broker filters messages."""
        return self.selector is not None or bool(self.amqp_filters)

    @property
    def filtering(self) -> str:
        """The quoted name of the option that has the filter, for errors."""
        return (
            "'amqp.filters'" if self.selector is None else "'selector' or 'pushdown'" if self.pushdown else "'selector'"
        )


def option_name(each: Field[Any]) -> str:
    """Return the documented name of an option: `walLocation` for `wal_location`."""
    if each.metadata["name"]:
        return str(each.metadata["name"])
    first, *rest = each.name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_FIELDS: Final = {each.name: each for each in fields(Options)}
_BY_NAME: Final = {
    name.lower(): each for each in fields(Options) for name in (option_name(each), *each.metadata["aliases"])
}


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, _BY_NAME, 1, 0.7)
    return f"; did you mean {option_name(_BY_NAME[close[0]])!r}?" if close else ""


def reference() -> str:
    """Return the table of all options, in Markdown."""
    lines = ["| option | for | default | meaning |", "| --- | --- | --- | --- |"]
    for each in fields(Options):
        default = each.metadata["shown"]
        if default is None:
            assert each.default is not MISSING
            default = "-" if each.default is None else f"`{_shown(each.default)}`"
        names = ", ".join(f"`{name}`" for name in (option_name(each), *each.metadata["aliases"]))
        lines.append(f"| {names} | {each.metadata['where']} | {default} | {each.metadata['meaning']} |")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
