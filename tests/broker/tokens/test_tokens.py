"""The broker's side of tokens: which are right, what they allow, and what ends with them; the clock is the test's."""

from __future__ import annotations

import base64
import hmac
import json
import re
from typing import Any
from urllib.parse import quote_plus

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from amqp10 import (
    Accepted,
    AmqpValue,
    Anonymous,
    AuthenticationFailed,
    CbsTokens,
    Connection,
    ConnectionClosed,
    ConnectionGivenUp,
    External,
    Int,
    LinkDetached,
    ManagementError,
    Message,
    MessageRejected,
    Plain,
    SasKey,
    SessionEnded,
    Source,
    Symbol,
    Token,
)
from amqp10.amqp091 import Native
from amqp10.broker import Broker, JwtKey, SasRule, TokenRules
from amqp10.broker._tokens.grants import MAX_AUDIENCES, MAX_SCOPES, PeerTokens
from amqp10.broker._tokens.rules import SasRight, Scope, TokenInvalid
from amqp10.rabbitmq import management
from amqp10.sasl import Mssbcbs
from amqp10.tokens import sas_signature

from ...kit.broker.wire import Wire
from ...kit.inside.broker import Refused, VirtualHostCore
from ...kit.token_rig import KEY, SECRET, jwt, rules, sas_key, wall
from ...kit.token_rig import Source as Tokens

pytestmark = [pytest.mark.in_memory, pytest.mark.capability("tokens")]

NOW = 1_700_000_000.0


def checked(value: str, audience: str | None = "sb://ns/orders", **settings: Any) -> Any:
    said: dict[str, Any] = {"sas": [SasRule("policy", KEY)], "jwt": [JwtKey(SECRET)], "clock": lambda: NOW} | settings
    return TokenRules(**said).check(value, audience)


def signed(resource: str = "sb://ns/orders", end: int = int(NOW) + 60, name: str = "policy", key: str = KEY) -> str:
    return SasKey(name, key).sign(resource, end).value


# SAS


def test_sas_right() -> None:
    """What is signed with the rule's key counts for the audience it was put for, and what is beneath that."""
    grant = checked(signed("sb://ns/"), "amqps://NS/Orders/")
    assert grant.expires_on == NOW + 60
    assert grant.user is None
    for action in ("read", "write", "configure"):
        assert grant.allows(action, "orders", "/")
        assert grant.allows(action, "Orders/$management", "/")
        assert not grant.allows(action, "other", "/")
        assert not grant.allows(action, "orders2", "/")
    assert checked(signed("sb://ns/"), "sb://ns/").allows("read", "anything", "/")
    assert checked(signed("sb://ns"), "sb://ns/queues/orders").allows("read", "orders", "/")


def test_audiences_with_the_kind_of_a_node() -> None:
    """An audience may name the kind of its node first; a queue may have that kind for its name. Others stay shut."""
    for audience, name in (
        ("sb://ns/queues/orders", "orders"),
        ("sb://ns/topics", "topics"),
        ("sb://ns/queues", "queues"),
    ):
        grant = checked(signed(audience), audience)
        assert grant.allows("read", name, "/")
        assert not grant.allows("read", "other", "/")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (signed(key="another"), "not signed"),
        (signed(name="nobody"), "not signed"),
        (signed(end=int(NOW)), "has expired"),
        (signed(end=int(NOW) - 1), "has expired"),
        (signed("sb://ns/other"), "another resource"),
        (signed("sb://other/orders"), "another resource"),
        (signed("sb://ns/orders/deeper"), "another resource"),
        (signed("orders"), "URI with a host"),
        (signed() + "0", "not signed"),
        (signed().replace("sr=", "sr=x"), "not signed"),
        ("SharedAccessSignature sr=a", "must have sr, sig, se and skn"),
        ("SharedAccessSignature sr=a&sig=b&se=-1&skn=policy", "must have sr, sig, se and skn"),
        ("SharedAccessSignature sr=a&sig=\u00e9&se=1&skn=policy", "not signed"),
        ("SharedAccessSignature " + "x" * 70_000, "at most"),
        ("", "neither"),
        ("a.b", "neither"),
        ("\u00e9.\u00e9.\u00e9", "neither"),
    ],
)
def test_wrong(value: str, why: str) -> None:
    with pytest.raises(TokenInvalid, match=why) as caught:
        checked(value)
    assert KEY not in str(caught.value)


def test_sas_rights() -> None:
    """A rule's rights, and the entity that it is for."""
    allowed = {"Send": {"write"}, "Listen": {"read"}, "Manage": {"read", "write", "configure"}}
    for right, actions in allowed.items():
        grant = checked(signed(), sas=[SasRule("policy", KEY, [right])])  # type: ignore[list-item]
        for action in ("read", "write", "configure"):
            assert grant.allows(action, "orders", "/") is (action in actions)
    assert checked(signed(), sas=[SasRule("policy", KEY, entity="Orders")])
    with pytest.raises(TokenInvalid, match="another entity"):
        checked(signed(), sas=[SasRule("policy", KEY, entity="other")])
    with pytest.raises(TokenInvalid, match="cannot be used to log in"):
        checked(signed(), None)


def test_sas_of_others() -> None:
    """Others percent-encode in small letters: what is signed is the resource as it stands in the token."""
    resource, end = quote_plus("sb://ns/orders").lower(), str(int(NOW) + 5)
    signature = quote_plus(sas_signature(KEY, resource, end))
    assert checked(f"SharedAccessSignature sig={signature}&se={end}&skn=policy&sr={resource}")


# JSON Web Tokens


def test_jwt_scopes() -> None:
    """What a token allows is in its scope, as RabbitMQ has it."""
    claims = {"sub": "ann", "exp": NOW + 60, "scope": "read:*/orders rabbitmq.write:%2F/o* broker.configure:dev/* x:y"}
    grant = checked(jwt(claims), None)
    assert grant.user == "ann"
    assert grant.allows("read", "orders", "anywhere")
    assert not grant.allows("read", "orders2", "/")
    assert grant.allows("write", "orders2", "/")
    assert not grant.allows("write", "orders2", "dev")
    assert grant.allows("configure", "any", "dev")
    assert not grant.allows("configure", "any", "/")
    assert checked(jwt({**claims, "scope": ["read:*/[a]"]}), None).allows("read", "[a]", "/")
    assert not checked(jwt({**claims, "scope": 5}), None).allows("read", "orders", "/")
    at_cbs = checked(jwt({**claims, "scope": "read:*/*"}), "sb://ns/orders")
    assert at_cbs.allows("read", "orders", "/")
    assert not at_cbs.allows("read", "other", "/")


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW}, "has expired"),
        ({"exp": "soon"}, "has no expiration time"),
        ({"exp": None}, "has no expiration time"),
        ({"exp": float("nan")}, "has no expiration time"),
        ({"exp": float("inf")}, "has no expiration time"),
        ({"exp": 10**400}, "has no expiration time"),
        ({"nbf": float("nan")}, "has no expiration time"),
        ({"nbf": NOW + 5}, "not valid yet"),
        ({"iss": "eve"}, "another issuer"),
        ({"aud": ["x"]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": 5}, "no claim 'sub'"),
        ({"sub": ""}, "no claim 'sub'"),
        ({"sub": "\ud800"}, "lone surrogates"),
        ({"scope": " ".join(f"read:*/{number}" for number in range(501))}, "at most 500 scopes"),
    ],
)
def test_jwt_wrong(claims: dict[str, Any], why: str) -> None:
    right = {"sub": "ann", "exp": NOW + 60, "iss": "me", "aud": ["here", "there"]}
    key = JwtKey(SECRET, issuer="me", audience="here")
    assert checked(jwt(right), None, jwt=[key]).user == "ann"
    with pytest.raises(TokenInvalid, match=why):
        checked(jwt({**right, **claims}), None, jwt=[key])


def test_jwt_at_cbs() -> None:
    """A token allows no more than its scope says, whatever audience it is put for, that of all entities too."""
    token = jwt({"exp": NOW + 60, "scope": "read:*/orders write:*/orders%2F*"})
    for audience in ("sb://ns/", "sb://ns", "sb://ns/orders"):
        grant = checked(token, audience)
        assert grant.allows("read", "orders", "/")
        assert grant.allows("write", "orders/new", "/")
        for other in ("secret", "orders/new", "ORDERS", "/orders"):
            assert not grant.allows("read", other, "/")
    assert not checked(token, "sb://ns/orders/new").allows("read", "orders", "/")


def unsigned(header: bytes, claims: bytes) -> str:
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (header, claims, b"x"))


@pytest.mark.parametrize(
    "token",
    [
        unsigned(b'{"alg":"HS256"}', b"[" * 20_000),
        unsigned(b'{"alg":' * 2_000, b"{}"),
        unsigned(b'{"alg":"HS256"}', b'{"exp":' + b"9" * 5_000 + b"}"),
        unsigned(b'{"alg":["HS256"]}', b"{}"),
        unsigned(b"\xff", b"{}"),
        *(jwt({"sub": "eve", "exp": NOW + 60}, algorithm=name) for name in ("none", "None", "hs256", "", "RS256")),
        jwt({"sub": "eve", "exp": NOW + 60}).rpartition(".")[0] + ".",
        "\ud800.a.b",
        "SharedAccessSignature sr=\ud800&sig=x&se=1&skn=policy",
        f"SharedAccessSignature sr=sb%3A%2F%2Fns&sig=%FF%FE&se={int(NOW) + 60}&skn=policy",
        signed() + f"&se={int(NOW) + 600}",
        signed(end=int(NOW) - 1) + f"&se={int(NOW) + 600}",
        signed("sb://other/") + "&sr=sb%3A%2F%2Fns%2F",
    ],
)
def test_forged(token: str) -> None:
    """Whatever else a token says, it counts for nothing; nobody has to be known to show one."""
    for audience in (None, "sb://ns/orders"):
        with pytest.raises(TokenInvalid):
            checked(token, audience)


def test_jwt_critical() -> None:
    """What a header names as critical would have to be understood (RFC 7515, 4.1.11)."""

    def part(octets: bytes) -> str:
        return base64.urlsafe_b64encode(octets).decode().rstrip("=")

    header = part(b'{"alg":"HS256","crit":["b64"],"b64":false}')
    text = f"{header}.{part(json.dumps({'sub': 'ann', 'exp': NOW + 60}).encode())}"
    with pytest.raises(TokenInvalid, match="critical"):
        checked(f"{text}.{part(hmac.digest(SECRET.encode(), text.encode(), 'sha256'))}", None)


def public_pem(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def asymmetric(key: Any, algorithm: str) -> str:
    def part(octets: bytes) -> str:
        return base64.urlsafe_b64encode(octets).decode().rstrip("=")

    claims = {"sub": "ann", "exp": NOW + 60}
    text = ".".join(part(json.dumps(each).encode()) for each in ({"alg": algorithm}, claims))
    if isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(text.encode(), padding.PKCS1v15(), SHA256())
    else:
        r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(SHA256())))
        signature = r.to_bytes(32) + s.to_bytes(32)
    return f"{text}.{part(signature)}"


def test_jwt_algorithms() -> None:
    """RS256 and ES256, with their own keys and signatures of the right size only.

    A public key is no secret, so a token that is signed with it by HS256 counts for nothing.
    """
    pair, curve = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    others = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    for private, other, algorithm in ((pair, others[0], "RS256"), (curve, others[1], "ES256")):
        pem = public_pem(private)
        key = JwtKey(pem, algorithm)  # type: ignore[arg-type]
        assert checked(asymmetric(private, algorithm), None, jwt=[key]).user == "ann"
        confused = jwt({"sub": "eve", "exp": NOW + 60}, secret=pem.decode())
        right = asymmetric(private, algorithm)
        for bad in (
            confused,
            asymmetric(other, algorithm),
            right[:-4],
            right + "AAAA",
            jwt({"sub": "eve", "exp": NOW + 60}, algorithm="none"),
        ):
            with pytest.raises(TokenInvalid):
                checked(bad, None, jwt=[key])
    with pytest.raises(ValueError, match="not an RSA key"):
        JwtKey(public_pem(curve), "RS256")
    with pytest.raises(ValueError, match="curve P-256"):
        JwtKey(public_pem(pair), "ES256")
    with pytest.raises(ValueError, match="not a public key"):
        JwtKey(SECRET, "RS256")


def test_the_largest_that_are_taken() -> None:
    """A token, an audience and a list of scopes of just the size that is allowed."""
    claims = {"sub": "ann", "exp": NOW + 60, "scope": " ".join(f"read:*/{number}" for number in range(500))}
    assert checked(jwt(claims), None).allows("read", "499", "/")
    for length, why in ((65_536, "neither"), (65_537, "at most 65536 characters")):
        with pytest.raises(TokenInvalid, match=why):
            checked("x" * length)
    audience = "sb://ns/" + "x" * (2048 - 8)
    assert checked(signed("sb://ns/"), audience)
    with pytest.raises(TokenInvalid, match="an audience must have at most 2048 characters"):
        checked(signed("sb://ns/"), audience + "x")


def test_keys_are_taken_from_any_iterable() -> None:
    """Rules and keys that an iterator gave are there for every token, not for the first alone."""
    both = TokenRules(iter([SasRule("policy", KEY)]), iter([JwtKey(SECRET)]), clock=lambda: NOW)
    for _ in range(2):
        assert both.check(signed(), "sb://ns/orders")
        assert both.check(jwt({"sub": "ann", "exp": NOW + 60})).user == "ann"


def test_a_rule_takes_its_rights_from_any_iterable() -> None:
    """The check of the rights does not use up an iterator: a rule without rights would allow nothing, in silence."""
    rights: list[SasRight] = ["Send", "Listen"]
    assert SasRule("policy", KEY, iter(rights)).rights == ("Send", "Listen")


def test_settings() -> None:
    with pytest.raises(ValueError, match="rights must be some of"):
        SasRule("a", "b", ["Receive"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="rights must be some of"):
        SasRule("a", "b", iter(["Receive"]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one of them is empty"):
        SasRule("a", "")
    with pytest.raises(ValueError, match="algorithm must be one of"):
        JwtKey("x", "none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        JwtKey("")
    with pytest.raises(ValueError, match="this is PEM"):
        JwtKey(public_pem(ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(ValueError, match="at least"):
        TokenRules()
    with pytest.raises(ValueError, match="two SAS rules"):
        TokenRules([SasRule("a", "b"), SasRule("a", "c")])
    with pytest.raises(ValueError, match="grace"):
        TokenRules([SasRule("a", "b")], grace=0)
    shown = repr((SasRule("a", KEY), JwtKey(SECRET), TokenRules([SasRule("a", KEY)], [JwtKey(SECRET)])))
    assert KEY not in shown
    assert SECRET not in shown


def test_most_audiences() -> None:
    """A connection has so many audiences, and may replace each of their tokens at any time."""
    tokens = PeerTokens(TokenRules([SasRule("policy", KEY)], clock=lambda: NOW))
    value = signed("sb://ns/")
    for number in range(MAX_AUDIENCES):
        tokens.put(f"sb://ns/{number}", value)
    tokens.put("sb://ns/0", value)
    with pytest.raises(TokenInvalid, match="at most"):
        tokens.put("sb://ns/one-more", value)


def test_most_scopes() -> None:
    """All tokens of a connection have so many scopes; what is replaced or expires makes room."""
    now = NOW
    tokens = PeerTokens(TokenRules([], [JwtKey(SECRET)], clock=lambda: now))

    def token(count: int) -> str:
        return jwt({"exp": NOW + 60, "scope": " ".join(f"read:*/{number}" for number in range(count))})

    for number in range(MAX_SCOPES // 500):
        tokens.put(f"sb://ns/{number}", token(500))
    with pytest.raises(TokenInvalid, match="at most 5000 scopes together"):
        tokens.put("sb://ns/more", token(1))
    tokens.put("sb://ns/0", token(400))
    tokens.put("sb://ns/more", token(100))
    now += 60
    tokens.expire()
    now -= 1
    for number in range(MAX_SCOPES // 500):
        tokens.put(f"sb://ns/{number}", token(500))
    tokens.end_all()
    tokens.put("sb://ns/more", token(1))


def test_the_same_for_many_hosts() -> None:
    """A token that is put for two hosts counts until the later one expires."""
    now = NOW
    tokens = PeerTokens(TokenRules([SasRule("policy", KEY)], clock=lambda: now))
    tokens.put("sb://one/", signed("sb://one/", int(NOW) + 100))
    tokens.put("sb://two/", signed("sb://two/", int(NOW) + 50))
    rights = tokens.rights_in("/", None)
    assert rights is not None
    rights.check("read", "orders")
    now += 60
    rights.check("read", "orders")
    now += 60
    with pytest.raises(Refused):
        rights.check("read", "orders")


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_patterns(pattern: str, text: str) -> None:
    """In a scope, "*" stands for any text, and nothing else is special."""
    scope = Scope(frozenset({"read"}), name=pattern)
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text)
    assert scope.covers("read", text, "/") is (expected is not None)


def test_tokens_in_requests() -> None:
    """A token that a request carries allows what it says, in its own virtual host; it is not kept."""
    tokens = PeerTokens(rules(clock=lambda: NOW))
    tokens.rights_in("dev", None)
    sas = signed("sb://ns/orders")
    assert tokens.carried(sas, "orders", ["read"])
    assert tokens.carried(signed("sb://ns/"), "orders", ["write"])
    for wrong in (
        signed("sb://ns/other"),
        signed(key="another"),
        signed(end=int(NOW)),
        "SharedAccessSignature sig=x",
        "",
    ):
        assert not tokens.carried(wrong, "orders", ["read", "write", "configure"])
    web = jwt({"exp": NOW + 60, "scope": "read:dev/orders write:prod/orders"})
    assert tokens.carried(web, "orders", ["write", "read"])
    assert not tokens.carried(web, "orders", ["write"])
    assert not tokens.carried(web, "other", ["read"])
    rights = tokens.rights_in("dev", None)
    assert rights is not None
    with pytest.raises(Refused, match="read access"):
        rights.check("read", "orders")


def test_grace() -> None:
    """Who has no token any more is closed when the time has passed that the rules give, counted from its end."""
    now = NOW
    tokens = PeerTokens(rules(clock=lambda: now, required=True, grace=20.0))
    assert tokens.due == NOW + 20
    now = NOW + 19.9
    assert tokens.expire() is None
    tokens.put("sb://ns/a", signed("sb://ns/", end=int(NOW) + 60))
    tokens.put("sb://ns/b", signed("sb://ns/", end=int(NOW) + 70))
    assert tokens.due == NOW + 60
    now = NOW + 60
    assert tokens.expire() is None
    assert tokens.due == NOW + 70
    now = NOW + 75
    assert tokens.expire() is None  # the last one went; from now on there is grace
    now = NOW + 94.9
    assert tokens.expire() is None
    now = NOW + 95
    error = tokens.expire()
    assert error is not None
    assert (error.condition, error.description) == ("amqp:unauthorized-access", "no valid token was put for 20 s")
    free = PeerTokens(rules(clock=lambda: now))
    assert free.due is None
    assert free.expire() is None


# The broker


@pytest.mark.anyio
async def test_nothing_without_a_token() -> None:
    """Peers without a name may come in, and do nothing; those with a password do what they may as ever."""
    async with Broker(None, tokens=rules(), users={"ann": "secret"}, queues=["q"]) as broker:
        async with broker.connect(sasl=Anonymous()) as connection:
            for link in (connection.sender("q"), connection.receiver("q"), connection.sender("made")):
                with pytest.raises(LinkDetached, match="refused for peers without a name"):
                    async with link:
                        pytest.fail("nothing is allowed")
            async with connection.sender(None) as sender:
                with pytest.raises(MessageRejected, match="write access"):
                    await sender.send(Message("x", to="q"))
        async with (
            broker.connect("amqp://ann:secret@h") as connection,
            connection.sender("q") as sender,
        ):
            await sender.send(Message("x"))
    assert Broker("0.0.0.0", tokens=rules())  # nobody comes in who may do anything


@pytest.mark.anyio
@pytest.mark.parametrize("valid", [False, True])
async def test_required(valid: bool) -> None:
    """Whoever has no valid token for 20 s is closed, where the broker demands one."""
    tokens = CbsTokens(sas_key(lifetime=100), clock=wall) if valid else None
    async with (
        Broker(None, tokens=rules(required=True), queues=["q"]) as broker,
        broker.connect("amqp://ns", tokens=tokens, idle_timeout=None) as connection,
    ):
        if valid:
            async with connection.sender("q"):
                await anyio.sleep(1000)
            assert connection.open
        else:
            began = wall()
            told = [event async for event in connection.events() if isinstance(event, ConnectionGivenUp)]
            assert "no valid token was put for 20 s" in str(told[0].cause)
            assert wall() - began == pytest.approx(20, abs=1)


async def put(requester: Any, token: object, name: object = "sb://ns/q", **said: Any) -> tuple[Any, Any]:
    """Put a token by hand."""
    properties = {"operation": "put-token", "type": "jwt", "name": name, **said}
    response = await requester.request(Message(AmqpValue(token), application_properties=properties))
    answer = response.application_properties
    return answer["status-code"], answer["status-description"]


@pytest.mark.anyio
async def test_by_hand() -> None:
    """What the node answers to what is not right, in the forms that Azure's clients read."""
    async with (
        Broker(None, tokens=rules(), queues=["q"]) as broker,
        broker.connect() as connection,
        connection.requester("$cbs", reply_to="$cbs") as requester,
    ):
        right = jwt({"exp": wall() + 60, "scope": "write:*/*"})
        status, description = await put(requester, right)
        assert (type(status), status, description) == (Int, 202, "Accepted")
        assert (await put(requester, right, operation="delete-token"))[0] == 400
        assert (await put(requester, right, type="saml"))[0] == 400
        assert (await put(requester, right, name=None))[0] == 400
        assert (await put(requester, 5))[0] == 400
        assert (await put(requester, "x.y.z"))[0] == 401
        said = {"operation": "put-token", "type": "jwt", "name": "sb://h/"}
        refused = await requester.request(Message(AmqpValue("x"), application_properties=said))
        assert refused.application_properties["error-condition"] == Symbol("com.microsoft:auth-failed")
        async with connection.sender("q") as sender:
            await sender.send(Message("x"))
        async with connection.transaction() as transaction:
            request = Message(AmqpValue(right), application_properties=said)
            refused = await requester.request(request, transaction=transaction)
            assert refused.application_properties["status-code"] == 501
        with pytest.raises(MessageRejected, match="no link for the answer"):
            async with connection.session() as apart, apart.sender("$cbs") as alone:
                await alone.send(Message(AmqpValue("x")))


@pytest.mark.anyio
async def test_what_ends_with_a_token() -> None:
    """Links are detached when their token ends, or when its successor allows less; others stay."""
    async with (
        Broker(None, tokens=rules(), queues=["a", "b"]) as broker,
        broker.connect(idle_timeout=None) as connection,
        connection.requester("$cbs", reply_to="$cbs") as requester,
    ):

        async def grant(name: str, scope: str, life: float) -> None:
            token = jwt({"exp": wall() + life, "scope": scope})
            assert (await put(requester, token, name=f"sb://ns/{name}"))[0] == 202

        await grant("a", "read:*/* write:*/*", 100)
        await grant("b", "read:*/* write:*/*", 1000)
        async with (
            connection.receiver("a") as first,
            connection.receiver("b") as second,
            connection.sender(None) as anonymous,
        ):
            await anonymous.send(Message("x", to="a"))
            await first.receive()
            with pytest.raises(LinkDetached, match="unauthorized-access"):
                await first.receive()
            with pytest.raises(MessageRejected, match="write access"):
                await anonymous.send(Message("x", to="a"))
            await anonymous.send(Message("x", to="b"))
            await second.receive()
            await grant("b", "write:*/*", 1000)
            with pytest.raises(LinkDetached, match="read access"):
                await second.receive()
            await anonymous.send(Message("x", to="b"))


@pytest.mark.anyio
async def test_mssbcbs() -> None:
    """Where tokens at `$cbs` say who a peer is, ANONYMOUS has the name that Azure gives it, too."""
    async with Broker(None, tokens=rules()) as broker, broker.connect(sasl=Mssbcbs()) as connection:
        assert connection.mechanism == "MSSBCBS"
    async with Broker(None) as broker:
        with pytest.raises(AuthenticationFailed, match="the server offers ANONYMOUS, and this side can use MSSBCBS"):
            async with broker.connect(sasl=Mssbcbs()):
                pass


@pytest.mark.anyio
async def test_login_by_the_key_of_a_rule() -> None:
    """PLAIN takes the name and the key of a SAS rule, for as long as the connection lasts; it may what the rule may."""
    sas = TokenRules([SasRule("policy", KEY), SasRule("listen", "k", ["Listen"], entity="q")], required=True)
    async with Broker(None, tokens=sas, queues=["q", "other"]) as broker:
        async with broker.connect(sasl=Plain("policy", KEY)) as connection:
            assert connection.mechanism == "PLAIN"
            await anyio.sleep(30)  # nobody waits for a token at $cbs
            async with connection.sender("other") as sender:
                await sender.send(Message("x"))
        async with broker.connect(sasl=Plain("listen", "k")) as connection:
            async with connection.receiver("q"):
                pass
            for link in (connection.receiver("other"), connection.sender("q")):
                with pytest.raises(LinkDetached, match="refused for user 'listen'"):
                    await link.__aenter__()
        for name, key in (("policy", "k"), ("nobody", KEY), ("listen", "")):
            with pytest.raises(AuthenticationFailed):
                await broker.connect(sasl=Plain(name, key)).__aenter__()


@pytest.mark.anyio
async def test_mechanisms_of_rules() -> None:
    """SAS rules alone offer what Azure does, and no mechanism that takes other tokens."""
    async with Broker(None, tokens=TokenRules([SasRule("policy", KEY)])) as broker:
        with pytest.raises(
            AuthenticationFailed, match="the server offers ANONYMOUS, MSSBCBS, PLAIN, and this side can use EXTERNAL"
        ):
            await broker.connect(sasl=External()).__aenter__()


@pytest.mark.anyio
async def test_login_rights() -> None:
    """A user by token may do what its scope says: no more, and not manage the broker."""
    source = Tokens(scope="read:*/q write:*/q")
    async with (
        Broker(None, tokens=rules(), queues=["q", "other"]) as broker,
        broker.connect(sasl=Plain("anybody", (await source.get_token("")).value)) as connection,
    ):
        async with connection.sender("q") as sender:
            await sender.send(Message("x"))
        with pytest.raises(LinkDetached, match="refused for user 'ann'"):
            async with connection.sender("other"):
                pytest.fail("not allowed")
        async with management(connection) as manager:
            with pytest.raises(ManagementError, match="403"):
                await manager.declare_queue("new", "classic")
            with pytest.raises(ManagementError, match=r"403.*administrator"):
                await manager.request("GET", "/quarantine")


async def renew(connection: Connection, token: str) -> None:
    """Tell a new token as the dialect does."""
    if connection.dialect == "1.0":
        async with management(connection) as manager:
            await manager.request("PUT", "/auth/tokens", AmqpValue(token.encode()))
    else:
        native: Native = connection.native
        await native.update_secret(token, "a test")


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", ["1.0", "0-9-1"])
async def test_renewed_login(dialect: str) -> None:
    """A new token counts in place of the login's: for how long, and for what; links are looked at anew."""
    async with (
        Broker(None, tokens=rules(), queues=["q", "other"]) as broker,
        broker.connect(
            dialect=dialect, idle_timeout=None, sasl=Plain("a", (await Tokens(100).get_token("")).value)
        ) as connection,
        connection.session() as session,
        session.receiver("q") as receiver,
    ):
        await anyio.sleep(50)
        await renew(connection, (await Tokens(1000).get_token("")).value)
        await anyio.sleep(500)
        assert connection.open
        await renew(connection, (await Tokens(100, scope="read:*/other").get_token("")).value)
        with pytest.raises(LinkDetached if dialect == "1.0" else (LinkDetached, SessionEnded)):
            await receiver.receive()
        async with connection.session() as again, again.receiver("other") as other:
            with pytest.raises(ConnectionClosed, match="has ended"):
                await other.receive()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("x.y.z", "neither a SAS token"),
        (jwt({"sub": "eve", "exp": 9e9}), "another user"),
        (jwt({"sub": "ann", "exp": 1}), "has expired"),
    ],
)
async def test_renewal_refused(token: str, why: str) -> None:
    """What is no token of that user is refused: in 1.0 with a status, in 0-9-1 with the end of the connection."""
    async with Broker(None, tokens=rules()) as broker:
        login = Plain("a", (await Tokens().get_token("")).value)
        async with broker.connect(sasl=login) as connection:
            with pytest.raises(ManagementError, match=f"403.*{why}"):
                await renew(connection, token)
            assert connection.open
        async with broker.connect(sasl=login, dialect="0-9-1") as connection:
            with pytest.raises(ConnectionClosed, match=why):
                await renew(connection, token)


@pytest.mark.anyio
async def test_nothing_to_renew() -> None:
    """Without tokens the broker says so in 1.0, and confirms any secret in 0-9-1, as ever."""
    async with Broker(None) as broker:
        async with broker.connect() as connection:
            with pytest.raises(ManagementError, match="404"):
                await renew(connection, "x")
        async with broker.connect(dialect="0-9-1") as connection:
            await renew(connection, "x")
    async with Broker(None, tokens=rules()) as broker, broker.connect() as connection:
        with pytest.raises(ManagementError, match=r"403.*not opened with a token"):
            await renew(connection, (await Tokens().get_token("")).value)
        async with management(connection) as manager:
            with pytest.raises(ManagementError, match=r"400.*binary"):
                await manager.request("PUT", "/auth/tokens", "a text")
            with pytest.raises(ManagementError, match=r"403.*UTF-8"):
                await manager.request("PUT", "/auth/tokens", AmqpValue(b"\xff"))


@pytest.mark.anyio
async def test_stream_of_another_host() -> None:
    """A scope names virtual hosts: what it allows in one it does not in another."""
    source = Tokens(scope="read:dev/*")
    async with Broker(None, tokens=rules(), queues=["q"], virtual_hosts=["/", "dev"], auto_create=False) as broker:
        token: Token = await source.get_token("")
        async with broker.connect(sasl=Plain("a", token.value)) as connection:
            with pytest.raises(LinkDetached, match="virtual host '/'"):
                async with connection.receiver(Source("q")):
                    pytest.fail("of the other host only")


def test_answers_nobody_takes(vhost: VirtualHostCore) -> None:
    """Requests are refused while a mebibyte of answers waits for credit; the links to the node count as others."""
    wire = Wire(vhost, tokens=PeerTokens(rules(clock=lambda: NOW)))
    responses, requests = wire.receive_from("$cbs"), wire.send_to("$cbs")
    request = Message(AmqpValue("x.y.z"), message_id=b"i" * 400_000, application_properties={"operation": "x"}).encode()
    taken = []
    for _ in range(5):
        delivery = requests.send(request)
        wire.turn()
        taken.append(isinstance(delivery.remote_state, Accepted))
    assert taken == [True, True, True, False, False]
    responses.flow(10)
    wire.turn()
    assert len(responses.incoming) == 3
    assert wire.peer.unread_octets == 0
