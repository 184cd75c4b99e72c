"""SCRAM-PLUS: logins that are bound to TLS (RFC 5802 §6), against `scramp` and against who changes what is said."""

from __future__ import annotations

import base64

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from amqp10.errors import AuthenticationFailed, InsecureTransport
from amqp10.sasl import (
    Authenticator,
    Challenge,
    Failure,
    Mechanism,
    Plain,
    Refusal,
    ScramSha1,
    ScramSha1Plus,
    ScramSha256,
    ScramSha256Plus,
    ScramSha512,
    ScramSha512Plus,
    Step,
    Success,
    bind_channel,
    choose,
    from_credentials,
)

pytestmark = pytest.mark.capability("login")

HERE = b"h" * 32
"""The server's certificate, by its hash."""

ELSEWHERE = b"e" * 32
"""Another's."""

END_POINT = "tls-server-end-point"
USER = from_credentials("user", "pencil")
PLUS = [ScramSha1Plus, ScramSha256Plus, ScramSha512Plus]
SCRAM = [ScramSha1, ScramSha256, ScramSha512]
RULES = Authenticator({"user": "pencil"})
BOUND = RULES.for_connection(secure=True, end_point=HERE)

Make = type[ScramSha1] | type[ScramSha1Plus]


def bound(mechanism: Mechanism, end_point: bytes | None = HERE) -> Mechanism:
    (one,) = bind_channel([mechanism], end_point)
    return one


def log_in(mechanism: Mechanism, authenticator: Authenticator = BOUND) -> Step:
    """A whole exchange; the client checks the server, too."""
    client, server = mechanism.exchange(), authenticator.exchange(mechanism.name)
    step = server.step(client.initial())
    while isinstance(step, Challenge):
        step = server.step(client.respond(step.data))
    if isinstance(step, Success):
        client.finish(step.additional)
    return step


# Against another implementation


@pytest.mark.parametrize("make", [*PLUS, *SCRAM])
def test_scramp_as_the_server(make: Make) -> None:
    """It lets our client in, bound or not, and our client its server."""
    client = bound(make("user", "pencil")).exchange()
    peer = scramp.ScramMechanism(make.name)
    salt, stored_key, server_key, iterations = peer.make_auth_info("pencil")
    binding = (END_POINT, HERE) if make in PLUS else None
    server = peer.make_server(lambda name: (salt, stored_key, server_key, iterations), channel_binding=binding)
    server.set_client_first((client.initial() or b"").decode())
    server.set_client_final(client.respond(server.get_server_first().encode()).decode())
    client.finish(server.get_server_final().encode())
    assert server.stage is scramp.core.ServerStage.get_server_final


@pytest.mark.parametrize("make", [*PLUS, *SCRAM])
def test_scramp_as_the_client(make: Make) -> None:
    """Our server lets it in, bound or not, and it our server."""
    client = scramp.ScramClient([make.name], "user", "pencil", (END_POINT, HERE) if make in PLUS else None)
    server = BOUND.exchange(make.name)
    challenge = server.step(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.data.decode())
    success = server.step(client.get_client_final().encode())
    assert isinstance(success, Success)
    assert success.identity == "user"
    client.set_server_final((success.additional or b"").decode())


@pytest.mark.parametrize("make", SCRAM)
def test_scramp_whose_offer_was_changed(make: Make) -> None:
    """A client that would have bound itself says so, and is refused where that was offered; and let in elsewhere."""
    client = scramp.ScramClient([make.name], "user", "pencil", (END_POINT, HERE))
    first = client.get_client_first().encode()
    assert first.startswith(b"y,,")
    stripped = "server-does-support-channel-binding"
    assert BOUND.exchange(make.name).step(first) == Refusal(f"e={stripped}".encode(), stripped)
    assert isinstance(RULES.exchange(make.name).step(first), Challenge)


def test_scramp_refuses_our_client_elsewhere() -> None:
    """With another certificate in between it sees that, and what it says is understood here."""
    client = bound(ScramSha256Plus("user", "pencil"), ELSEWHERE).exchange()
    peer = scramp.ScramMechanism("SCRAM-SHA-256-PLUS")
    known = peer.make_auth_info("pencil")
    server = peer.make_server(lambda name: known, channel_binding=(END_POINT, HERE))
    server.set_client_first((client.initial() or b"").decode())
    final = client.respond(server.get_server_first().encode()).decode()
    with pytest.raises(scramp.ScramException):
        server.set_client_final(final)
    with pytest.raises(AuthenticationFailed, match="somebody is in between"):
        client.finish(server.get_server_final().encode())


# What is said of channel binding


@pytest.mark.parametrize("make", PLUS)
def test_both_sides(make: Make) -> None:
    """Bound to one certificate it is let in; to another it is told why not, and the server's word is kept."""
    assert isinstance(log_in(bound(make("user", "pencil"))), Success)
    assert log_in(bound(make("user", "wrong"))) == Failure()
    assert log_in(bound(make("nobody", "pencil"))) == Failure()
    with pytest.raises(AuthenticationFailed, match="another certificate than was seen here"):
        log_in(bound(make("user", "pencil"), ELSEWHERE))


@pytest.mark.parametrize("flag", ["p=tls-unique", "p=tls-exporter", "p=", "p=tls-server-end-point2"])
def test_other_types(flag: str) -> None:
    """A binding that the server does not have is refused by its name; no answer to that helps."""
    server = BOUND.exchange("SCRAM-SHA-256-PLUS")
    refused = server.step(f"{flag},,n=user,r=abc".encode())
    assert isinstance(refused, Refusal)
    assert refused.data == b"e=unsupported-channel-binding-type"
    assert server.step(b"p=tls-server-end-point,,n=user,r=abc") == Failure()
    assert server.step(None) == Failure()


@pytest.mark.parametrize("flag", ["n", "y", "", "P=tls-server-end-point"])
def test_plus_without_a_binding(flag: str) -> None:
    """A client that asks for SCRAM-PLUS binds."""
    assert BOUND.exchange("SCRAM-SHA-1-PLUS").step(f"{flag},,n=user,r=abc".encode()) == Failure()


def test_binding_without_plus() -> None:
    """A client that does not ask for SCRAM-PLUS does not bind."""
    refused = BOUND.exchange("SCRAM-SHA-1").step(b"p=tls-server-end-point,,n=user,r=abc")
    assert isinstance(refused, Refusal)
    assert refused.data == b"e=channel-binding-not-supported"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("unsupported-channel-binding-type", "tls-server-end-point"),
        ("channel-binding-not-supported", "cannot bind"),
        ("channel-bindings-dont-match", r"another certificate.*ScramSha256\(user, password\)"),
        ("invalid-proof", "refused the SCRAM proof"),
        ("", "refused the SCRAM proof"),
    ],
)
def test_what_the_client_makes_of_it(error: str, said: str) -> None:
    """Whether it is said at once or at the end; the code is that of refused credentials."""
    client = bound(ScramSha256Plus("user", "pencil")).exchange()
    client.initial()
    for hear in (client.respond, client.finish):
        with pytest.raises(AuthenticationFailed, match=said) as caught:
            hear(f"e={error}".encode())
        assert caught.value.code == 1


@given(st.data())
def test_changed_on_the_way(data: st.DataObject) -> None:
    """A login fails if somebody changes an octet of the client's message, or puts another header in its place."""
    client, server = bound(ScramSha1Plus("user", "pencil")).exchange(), BOUND.exchange("SCRAM-SHA-1-PLUS")
    first = client.initial() or b""
    changed = data.draw(st.booleans(), "the first")
    challenge = server.step(change(data, first) if changed else first)
    if not isinstance(challenge, Challenge) or isinstance(challenge, Refusal):
        assert changed
        return
    try:
        final = client.respond(challenge.data)
    except AuthenticationFailed:
        assert changed
        return
    step = server.step(final if changed else change(data, final))
    assert isinstance(step, Failure | Refusal)


def change(data: st.DataObject, message: bytes) -> bytes:
    """One octet is another. Base64's last characters have bits that mean nothing, and are left as they are."""
    at = data.draw(st.integers(0, len(message) - 4), "at")
    other = data.draw(st.integers(0, 255).filter(lambda octet: octet != message[at]), "octet")
    return message[:at] + bytes([other]) + message[at + 1 :]


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_bound_to(ours: bytes, theirs: bytes) -> None:
    """The two sides must see the same, all of it."""
    if not ours:
        return
    client, server = (
        bound(ScramSha1Plus("user", "pencil"), ours).exchange(),
        RULES.for_connection(secure=True, end_point=theirs).exchange("SCRAM-SHA-1-PLUS"),
    )
    challenge = server.step(client.initial())
    assert isinstance(challenge, Challenge)
    step = server.step(client.respond(challenge.data))
    assert isinstance(step, Success) == (ours == theirs)


def test_binding_is_in_the_proof() -> None:
    """An attacker in between who replaces the binding by the right one fails at the proof."""
    client, server = (
        bound(ScramSha256Plus("user", "pencil"), ELSEWHERE).exchange(),
        BOUND.exchange("SCRAM-SHA-256-PLUS"),
    )
    challenge = server.step(client.initial())
    assert isinstance(challenge, Challenge)
    final = client.respond(challenge.data)
    header = f"p={END_POINT},,".encode()
    forged = final.replace(base64.b64encode(header + ELSEWHERE), base64.b64encode(header + HERE))
    assert forged != final
    assert server.step(forged) == Failure()


# Choosing


def offered(authenticator: Authenticator, mechanisms: tuple[Mechanism, ...] = USER) -> tuple[str, bytes]:
    """Return the chosen mechanism, and the beginning of its first message."""
    one = choose(authenticator.mechanisms(), bind_channel(mechanisms, HERE), secure=True)
    return one.name, (one.exchange().initial() or b"").partition(b",,")[0]


def test_offer() -> None:
    """-PLUS before the rest, where there is a certificate to bind to and where there are users."""
    scram = ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1"]
    assert BOUND.mechanisms() == [*(f"{name}-PLUS" for name in scram), *scram, "PLAIN"]
    assert RULES.for_connection(secure=True).mechanisms() == [*scram, "PLAIN"]
    assert Authenticator(anonymous=True).for_connection(secure=True, end_point=HERE).mechanisms() == ["ANONYMOUS"]


def test_preferred() -> None:
    """Offered, it is used; where it is not, nothing is said of it, for Broker-J lets nobody in who says "y"."""
    assert offered(BOUND) == ("SCRAM-SHA-512-PLUS", b"p=tls-server-end-point")
    assert offered(RULES) == ("SCRAM-SHA-512", b"n")
    one = choose(BOUND.mechanisms(), bind_channel(USER, None), secure=True)
    assert (one.name, (one.exchange().initial() or b"")[:3]) == ("SCRAM-SHA-512", b"n,,")
    mixed = ["SCRAM-SHA-512", "SCRAM-SHA-1-PLUS"]
    assert choose(mixed, bind_channel(USER, HERE), secure=True).name == "SCRAM-SHA-1-PLUS"


STRIPPED = [name for name in BOUND.mechanisms() if not name.endswith("-PLUS")]


def test_stripped_offer() -> None:
    """If somebody removes -PLUS from the offer, the login is not bound, unless the client requires -PLUS."""
    one = choose(STRIPPED, bind_channel(USER, HERE), secure=True)
    assert isinstance(log_in(one), Success)
    insisting = bind_channel([make("user", "pencil") for make in PLUS], HERE)
    with pytest.raises(AuthenticationFailed, match="somebody in between took that out of its offer"):
        choose(STRIPPED, insisting, secure=True)
    assert choose(BOUND.mechanisms(), insisting, secure=True).name == "SCRAM-SHA-512-PLUS"


@pytest.mark.parametrize("make", SCRAM)
def test_flag_is_proved(make: Make) -> None:
    """A login fails if somebody changes the client's flag about the offer, in the header or in the proof."""
    client, server = scramp.ScramClient([make.name], "user", "pencil", (END_POINT, HERE)), BOUND.exchange(make.name)
    challenge = server.step(client.get_client_first().encode().replace(b"y,,", b"n,,"))
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.data.decode())
    final = client.get_client_final().encode()
    assert b"c=eSws" in final
    assert isinstance(server.step(final), Refusal)
    client, server = scramp.ScramClient([make.name], "user", "pencil", (END_POINT, HERE)), BOUND.exchange(make.name)
    challenge = server.step(client.get_client_first().encode().replace(b"y,,", b"n,,"))
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.data.decode())
    assert server.step(client.get_client_final().encode().replace(b"c=eSws", b"c=biws")) == Failure()


def test_one_by_name() -> None:
    """SCRAM by itself is not bound, so that it passes a proxy that ends TLS; -PLUS by itself insists."""
    assert offered(BOUND, (ScramSha256("user", "pencil"),)) == ("SCRAM-SHA-256", b"n")
    assert isinstance(log_in(bound(ScramSha256("user", "pencil"))), Success)
    both = (ScramSha256Plus("user", "pencil"), ScramSha256("user", "pencil"))
    assert offered(RULES, both) == ("SCRAM-SHA-256", b"n")
    with pytest.raises(AuthenticationFailed, match="this side can use SCRAM-SHA-256-PLUS"):
        offered(RULES, both[:1])
    with pytest.raises(InsecureTransport, match=r"SCRAM-SHA-256-PLUS.*amqps"):
        choose(BOUND.mechanisms(), bind_channel(both[:1], None), secure=True).exchange()
    assert bind_channel((*both, Plain("user", "pencil")), None)[0] is both[1]


def test_original_is_left_as_it_was() -> None:
    """One mechanism serves many connections, and derives its keys once for all of them."""
    mechanism = ScramSha256Plus("user", "pencil")
    assert isinstance(log_in(bound(mechanism)), Success)
    with pytest.raises(InsecureTransport):
        mechanism.exchange()
    assert isinstance(
        log_in(bound(mechanism, ELSEWHERE), RULES.for_connection(secure=True, end_point=ELSEWHERE)), Success
    )


def test_keys_are_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second connection costs no derivation."""
    import hashlib

    derived = []
    real = hashlib.pbkdf2_hmac

    def count(digest: str, *rest: object) -> bytes:
        derived.append(digest)
        return real(digest, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", count)
    mechanism = ScramSha256Plus("user", "pencil")
    for _ in range(2):
        assert isinstance(log_in(bound(mechanism)), Success)
    assert derived == ["sha256"]


def test_refusals_are_told() -> None:
    """Once, with the reason, whether the client answers or not."""
    told: list[tuple[str, str | None, str | None]] = []
    rules = RULES.for_connection(secure=True, end_point=HERE, failed=lambda *what: told.append(what))
    server = rules.exchange("SCRAM-SHA-256")
    server.step(b"y,,n=user,r=abc")
    assert told == [("SCRAM-SHA-256", "user", "server-does-support-channel-binding")]
    assert server.step(b"") == Failure()
    assert len(told) == 1
