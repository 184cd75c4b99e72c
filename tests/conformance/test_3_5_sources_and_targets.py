"""Sources and targets (§3.5) and the coordinator (§4.5.1): their descriptors and fields on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Connection
from amqp10.engine import LinkTerms
from amqp10.errors import DecodeError, EncodeError
from amqp10.messaging import (
    Accepted,
    Coordinator,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Source,
    Target,
)
from amqp10.types import Array, Composite, Described, Symbol, UInt, ULong, decode_composite, encode

NODE = {"lifetime-policy": DeleteOnClose(), "supported-dist-modes": Symbol("copy")}
NODE_ON_WIRE = {Symbol("lifetime-policy"): Described(ULong(0x2B), []), Symbol("supported-dist-modes"): Symbol("copy")}
SELECTOR = Described(ULong(0x468C_0000_0004), "a = 1")


@pytest.mark.spec("3.5.3", "the fields of a source, in order")
def test_source_fields() -> None:
    """All eleven, of the types that the specification gives them."""
    source = Source(
        address="queue",
        durable="configuration",
        expiry_policy="never",
        timeout=30,
        dynamic=True,
        dynamic_node_properties=NODE,
        distribution_mode="copy",
        filter={"selector": SELECTOR},
        default_outcome=Accepted(),
        outcomes=("amqp:accepted:list", "amqp:released:list"),
        capabilities=("queue",),
    )
    outcomes = Array("symbol", ["amqp:accepted:list", "amqp:released:list"])
    fields = ["queue", UInt(1), Symbol("never"), UInt(30), True, NODE_ON_WIRE, Symbol("copy")]
    fields += [{Symbol("selector"): SELECTOR}, Described(ULong(0x24), []), outcomes]
    fields += [Array("symbol", ["queue"])]
    assert source.encode() == encode(Described(ULong(0x28), fields))
    assert Source.decode(encode(Described(Symbol("amqp:source:list"), fields))) == source


@pytest.mark.spec("3.5.4", "the fields of a target, in order")
def test_target_fields() -> None:
    """All seven, of the types that the specification gives them."""
    target = Target("queue", "unsettled-state", "link-detach", 30, True, NODE, ("queue", "topic"))
    fields = [
        "queue",
        UInt(2),
        Symbol("link-detach"),
        UInt(30),
        True,
        NODE_ON_WIRE,
        Array("symbol", ["queue", "topic"]),
    ]
    assert target.encode() == encode(Described(ULong(0x29), fields))
    assert Target.decode(encode(Described(Symbol("amqp:target:list"), fields))) == target


@pytest.mark.spec("3.5.3", "absent fields have their defaults")
@pytest.mark.spec("3.5.4", "absent fields have their defaults")
@pytest.mark.parametrize("terminus", [Source, Target])
def test_defaults(terminus: type[Source] | type[Target]) -> None:
    """Not durable, expiring with the session at once, not dynamic, without capabilities."""
    code = terminus.descriptor_code
    for fields in ([], [None] * 7):
        read = terminus.decode(encode(Described(ULong(code), fields)))
        assert read == terminus()
        assert (read.address, read.durable, read.expiry_policy, read.timeout) == (None, "none", "session-end", 0)
        assert (read.dynamic, read.dynamic_node_properties, read.capabilities) == (False, None, ())
    assert terminus().encode() == encode(Described(ULong(code), []))


@pytest.mark.spec("3.5.5", "terminus-durability: 0 none, 1 configuration, 2 unsettled-state")
@pytest.mark.spec("3.5.6", "terminus-expiry-policy: link-detach, session-end, connection-close, never")
def test_restricted_types() -> None:
    """The choices are these and no others."""
    choices: list[tuple[int, dict[str, Any]]] = [
        (1, {"none": UInt(0), "configuration": UInt(1), "unsettled-state": UInt(2)}),
        (2, {word: Symbol(word) for word in ("link-detach", "session-end", "connection-close", "never")}),
    ]
    for index, words in choices:
        name = Target.fields[index].name
        for word, value in words.items():
            payload = encode(Described(ULong(0x29), [None] * index + [value]))
            read = Target.decode(payload)
            assert getattr(read, name) == word
            assert Target.decode(read.encode()) == read
        for wrong in (UInt(3), Symbol("other"), "none"):
            with pytest.raises(DecodeError):
                Target.decode(encode(Described(ULong(0x29), [None] * index + [wrong])))
        misspelled: dict[str, Any] = {name: "other"}
        with pytest.raises(ValueError, match=f"{name} must be one of {', '.join(words)}, not 'other'"):
            Target(**misspelled)
        target = Target()
        setattr(target, name, "other")
        with pytest.raises(EncodeError):
            target.encode()


@pytest.mark.spec("3.5.7", "std-dist-mode: move and copy, as symbols")
@pytest.mark.spec("3.5.8", "filter-set: symbols to described values")
def test_distribution_mode_and_filters() -> None:
    """Both are the seventh and eighth field of a source; a filter of unknown kind is kept as it is."""
    for mode in ("move", "copy"):
        fields = [None] * 6 + [Symbol(mode), {Symbol("f"): Described(Symbol("x:unknown"), [1])}]
        source = Source.decode(encode(Described(ULong(0x28), fields)))
        assert source.distribution_mode == mode
        assert source.filter == {"f": Described(Symbol("x:unknown"), [1])}
        assert source.encode() == encode(Described(ULong(0x28), fields))


LIFETIMES = [
    pytest.param(DeleteOnClose(), 0x2B, "amqp:delete-on-close:list", marks=pytest.mark.spec("3.5.10", "on close")),
    pytest.param(
        DeleteOnNoLinks(), 0x2C, "amqp:delete-on-no-links:list", marks=pytest.mark.spec("3.5.11", "on no links")
    ),
    pytest.param(
        DeleteOnNoMessages(),
        0x2D,
        "amqp:delete-on-no-messages:list",
        marks=pytest.mark.spec("3.5.12", "on no messages"),
    ),
    pytest.param(
        DeleteOnNoLinksOrMessages(),
        0x2E,
        "amqp:delete-on-no-links-or-messages:list",
        marks=pytest.mark.spec("3.5.13", "on no links or messages"),
    ),
]


@pytest.mark.spec("3.5.9", "node-properties: the lifetime-policy is one of the four")
@pytest.mark.parametrize(("policy", "code", "name"), LIFETIMES)
def test_lifetime_policies(policy: Composite, code: int, name: str) -> None:
    """Each policy is an empty described list, and is read as itself in the properties of a dynamic node."""
    assert policy.encode() == encode(Described(ULong(code), []))
    assert decode_composite(encode(Described(Symbol(name), [])))[0] == policy
    target = Target.decode(Target(dynamic=True, dynamic_node_properties={"lifetime-policy": policy}).encode())
    assert target.dynamic_node_properties == {"lifetime-policy": policy}


@pytest.mark.spec("4.5.1", "a coordinator is a target with capabilities")
def test_coordinator() -> None:
    """One capability or many, as symbols."""
    one = encode(Described(ULong(0x30), [Symbol("amqp:local-transactions")]))
    written = encode(Described(ULong(0x30), [Array("symbol", ["amqp:local-transactions"])]))
    assert Coordinator(("amqp:local-transactions",)).encode() == written
    two = Array("symbol", ["amqp:local-transactions", "amqp:multi-txns-per-ssn"])
    for payload, expected in ((one, 1), (written, 1), (encode(Described(Symbol("amqp:coordinator:list"), [two])), 2)):
        assert len(Coordinator.decode(payload).capabilities) == expected
    assert Coordinator.provides == Target.provides


@pytest.mark.spec("3.5.3", "a request for a dynamic source has no address")
@pytest.mark.spec("3.5.4", "a request for a dynamic target has no address")
def test_dynamic_has_no_address() -> None:
    """A client refuses both together before anything is sent; the peer's answer has both."""
    connection = Connection("amqp://localhost")
    reason = "the peer chooses the address of a dynamic node: leave out the address 'mine', or dynamic"
    with pytest.raises(ValueError, match=reason):
        connection.receiver(Source("mine", dynamic=True))
    with pytest.raises(ValueError, match=reason):
        connection.sender(Target("mine", dynamic=True))


@pytest.mark.spec("3.5.3", "a source that is not dynamic has no dynamic-node-properties")
@pytest.mark.spec("3.5.4", "a target that is not dynamic has no dynamic-node-properties")
def test_properties_of_no_dynamic_node() -> None:
    """A client refuses both together before anything is sent."""
    connection, properties = Connection("amqp://localhost"), {"lifetime-policy": DeleteOnClose()}
    reason = "dynamic_node_properties need dynamic=True, for they describe a node to make"
    with pytest.raises(ValueError, match=f"Source: {reason}"):
        connection.receiver(Source("mine", dynamic_node_properties=properties))
    with pytest.raises(ValueError, match=f"Target: {reason}"):
        connection.sender(Target("mine", dynamic_node_properties=properties))


@pytest.mark.spec("1.5", "a filter whose descriptor is neither symbol nor ulong is not sent")
@pytest.mark.parametrize("descriptor", ["apache.org:selector-filter:string", 0x468C_0000_0004, None])
def test_descriptors_of_filters(descriptor: Any) -> None:
    """A client refuses it before anything is sent: to a peer it would mean nothing."""
    connection = Connection("amqp://localhost")
    with pytest.raises(ValueError, match="the descriptor of the filter 'f' must be a Symbol or ULong"):
        connection.receiver(Source("q", filter={"f": Described(descriptor, "n > 1")}))


@pytest.mark.spec("3.2.15", "the address of a terminus is a string")
@pytest.mark.parametrize("terms", [LinkTerms("l", source=Source(5)), LinkTerms("l", target=Target(5))])
def test_addresses(terms: LinkTerms) -> None:
    """A client refuses any other before anything is sent."""
    with pytest.raises(ValueError, match=r"(Source|Target): address must be a str, not 5"):
        terms.checked()
