"""The server's rules: what is offered to whom, who comes in, and what a stranger can find out."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import replace
from typing import Any

import pytest

from amqp10.sasl import (
    Anonymous,
    Authenticator,
    Challenge,
    External,
    Failure,
    Mechanism,
    OAuthBearer,
    Plain,
    ScramSha1,
    ScramSha256,
    ScramSha512,
    Step,
    StoredKeys,
    Success,
    XOAuth2,
)

pytestmark = pytest.mark.capability("login")

USERS = {"ann": "apple", "bob": "banana", "Jürgen": "schlüssel", "eve": ""}
SCRAM = ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1"]


def secure(**settings: object) -> Authenticator:
    return Authenticator(**settings).for_connection(secure=True)  # type: ignore[arg-type]


def log_in(authenticator: Authenticator, mechanism: Mechanism) -> Step:
    """A whole exchange; the client checks the server, too."""
    client, server = mechanism.exchange("localhost"), authenticator.exchange(mechanism.name)
    step = server.step(client.initial())
    for _ in range(5):
        if not isinstance(step, Challenge):
            break
        step = server.step(client.respond(step.data))
    if isinstance(step, Success):
        client.finish(step.additional)
    return step


@pytest.mark.parametrize("make", [ScramSha1, ScramSha256, ScramSha512, Plain])
def test_users(make: type[Plain]) -> None:
    """The right password lets in, any other does not, by every mechanism with passwords."""
    authenticator = secure(users=USERS)
    for user, password in USERS.items():
        step = log_in(authenticator, make(user, password))
        assert isinstance(step, Success)
        assert step.identity == user
        assert log_in(authenticator, make(user, password + "x")) == Failure()
    assert log_in(authenticator, make("ann", "banana")) == Failure()
    assert log_in(authenticator, make("ann", "")) == Failure()
    assert log_in(authenticator, make("nobody", "apple")) == Failure()
    assert log_in(authenticator, make("nobody", "")) == Failure()


@pytest.mark.parametrize("make", [ScramSha256, Plain])
def test_spellings_of_a_name(make: type[Plain]) -> None:
    """Names and passwords are compared prepared, and the identity is the name as the server has it."""
    authenticator = secure(users={"Ju\u0308rgen": "p\u2168"})
    step = log_in(authenticator, make("J\u00fcrgen", "pIX"))
    assert isinstance(step, Success)
    assert step.identity == "Ju\u0308rgen"


@pytest.mark.parametrize(
    ("settings", "facts", "offered"),
    [
        ({"anonymous": True}, {"secure": False}, ["ANONYMOUS"]),
        ({"users": USERS}, {"secure": True}, [*SCRAM, "PLAIN"]),
        ({"users": USERS}, {"secure": False}, SCRAM),
        ({"users": USERS, "allow_insecure": True}, {"secure": False}, [*SCRAM, "PLAIN"]),
        ({"users": USERS, "anonymous": True}, {"secure": True}, [*SCRAM, "PLAIN", "ANONYMOUS"]),
        ({"external": True, "users": USERS}, {"secure": True}, [*SCRAM, "PLAIN"]),
        (
            {"external": True, "users": USERS},
            {"secure": True, "external_identity": "ann"},
            ["EXTERNAL", *SCRAM, "PLAIN"],
        ),
        ({"anonymous": True}, {"secure": True, "external_identity": "ann"}, ["ANONYMOUS"]),
        ({"tokens": lambda user, token: user}, {"secure": True}, ["OAUTHBEARER", "XOAUTH2"]),
        ({"tokens": lambda user, token: user, "anonymous": True}, {"secure": False}, ["ANONYMOUS"]),
        ({}, {"secure": True}, ["EXTERNAL"]),
        ({"users": {}, "external": True}, {"secure": True}, ["EXTERNAL"]),
    ],
)
@pytest.mark.spec("5.3.3.1", "the list of mechanisms is never empty")
def test_offers(settings: dict[str, object], facts: dict[str, object], offered: list[str]) -> None:
    """Secrets only where they are not readable, EXTERNAL only with a certificate, and never an empty list."""
    assert Authenticator(**settings).for_connection(**facts).mechanisms() == offered  # type: ignore[arg-type]


def test_unbound_is_careful() -> None:
    """Without facts of a connection the transport counts as readable."""
    assert Authenticator(USERS).mechanisms() == SCRAM


def test_binding_leaves_the_original() -> None:
    """One authenticator serves many connections."""
    authenticator = Authenticator(USERS, external=True)
    authenticator.for_connection(secure=True, external_identity="ann")
    assert authenticator.for_connection(secure=False).mechanisms() == SCRAM


def test_not_offered() -> None:
    """A mechanism that was not offered to this connection cannot be begun."""
    for name in ("PLAIN", "EXTERNAL", "ANONYMOUS", "XOAUTH2", "GSSAPI"):
        with pytest.raises(ValueError, match="not offered"):
            Authenticator(USERS, external=True).for_connection(secure=False).exchange(name)


def test_external() -> None:
    """The certificate's name, and nobody at all without a certificate."""
    bound = Authenticator(external=True).for_connection(secure=True, external_identity="ann")
    assert log_in(bound, External()) == Success("ann")
    assert log_in(bound, External("ann")) == Success("ann")
    assert log_in(bound, External("bob")) == Failure()
    assert log_in(secure(external=True), External("bob")) == Failure()
    not_allowed = Authenticator().for_connection(secure=True, external_identity="ann")
    assert log_in(not_allowed, External()) == Failure()


def test_anonymous() -> None:
    """Nobody in particular; whether SASL may be left out goes with it."""
    assert log_in(secure(anonymous=True), Anonymous()) == Success(None)
    assert secure(anonymous=True).anonymous_allowed
    assert not secure(users=USERS).anonymous_allowed


def test_tokens() -> None:
    """The verifier decides, for both mechanisms."""
    authenticator = secure(tokens=lambda user, token: "owner" if token == "good" else None)
    assert log_in(authenticator, OAuthBearer("good")) == Success("owner")
    assert log_in(authenticator, XOAuth2("me", "good")) == Success("owner")
    assert log_in(authenticator, OAuthBearer("bad")) == Failure()
    assert log_in(authenticator, XOAuth2("me", "bad")) == Failure()


@pytest.mark.parametrize("users", [{"": "p"}, {"u\0": "p"}, {"u": "top\0secret"}])
def test_users_refused(users: dict[str, str]) -> None:
    """Names and passwords that nobody could log in with are refused at once; the password is not quoted."""
    with pytest.raises(ValueError, match="user") as caught:
        Authenticator(users)
    assert "secret" not in repr(caught.value)


def test_repr_hides_passwords() -> None:
    """No password in the repr of any of it."""
    authenticator = secure(users={"ann": "applesauce"})
    for shown in (authenticator, authenticator._users, authenticator.exchange("PLAIN")):
        assert "applesauce" not in repr(shown) + str(shown)


# What a stranger can find out


def first_challenge(authenticator: Authenticator, user: str) -> dict[str, str]:
    step = authenticator.exchange("SCRAM-SHA-256").step(f"n,,n={user},r=abc".encode())
    assert isinstance(step, Challenge)
    return dict(part.split("=", 1) for part in step.data.decode().split(","))


def test_strangers_look_like_users() -> None:
    """Salt and iterations of a user that is not there: of the same kind, the same each time, different for each."""
    authenticator = secure(users=USERS)
    ann, nobody, other = (first_challenge(authenticator, name) for name in ("ann", "nobody", "other"))
    again = first_challenge(authenticator, "nobody")
    assert nobody["s"] == again["s"]
    assert nobody["i"] == ann["i"]
    assert len(nobody["s"]) == len(ann["s"])
    assert len({ann["s"], nobody["s"], other["s"]}) == 3


STORED = {name: StoredKeys.from_password(password, iterations=4096) for name, password in USERS.items()}


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Each derivation of keys, which is what costs."""
    calls: list[Any] = []
    real = hashlib.pbkdf2_hmac

    def count(*args: Any) -> bytes:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", count)
    return calls


@pytest.mark.parametrize("users", [USERS, STORED, {**USERS, **dict(list(STORED.items())[:2])}])
def test_strangers_cost_as_much_as_users(users: dict[str, Any], derived: list[Any]) -> None:
    """SCRAM derives nothing on the server, for nobody; PLAIN as often for a stranger as for each user."""
    authenticator = secure(users=users)
    derived.clear()
    for name in (*users, "nobody"):
        first_challenge(authenticator, name)
    assert not derived
    costs = set()
    for name in (*USERS, "nobody"):
        for password in ("wrong", USERS.get(name, "")):
            derived.clear()
            authenticator.exchange("PLAIN").step(f"\0{name}\0{password}".encode())
            costs.add(len(derived))
    assert costs == {0 if users is USERS else 1}


@pytest.mark.parametrize("make", [ScramSha1, ScramSha256, ScramSha512, Plain])
def test_stored_keys(make: type[Plain]) -> None:
    """A user with keys in place of a password logs in by the password, also after the keys were written as text."""
    users = {name: StoredKeys.parse(str(keys)) for name, keys in STORED.items()}
    assert users == {
        name: StoredKeys({k: replace(v, client_key=b"") for k, v in keys.keys.items()}) for name, keys in STORED.items()
    }
    authenticator = secure(users=users)
    for user, password in USERS.items():
        assert isinstance(log_in(authenticator, make(user, password)), Success)
        assert log_in(authenticator, make(user, password + "x")) == Failure()
    assert log_in(authenticator, make("nobody", "")) == Failure()


def test_strangers_after_a_restart() -> None:
    """Where a user's salt stays, a stranger's does as well."""
    one, two = secure(users=STORED), secure(users=STORED)
    for name in (*STORED, "nobody", "other"):
        assert first_challenge(one, name)["s"] == first_challenge(two, name)["s"]


@pytest.mark.parametrize(
    "text",
    ["", "x", "SCRAM-SHA-256$4096:YQ==$YQ==:YQ==", str(STORED["ann"]).replace("$4096", "$4095")],
    ids=["empty", "a letter", "short", "few rounds"],  # a salt is another one in each process
)
def test_no_stored_keys(text: str) -> None:
    """Text that does not have the keys for all mechanisms is refused, and so are too few iterations."""
    with pytest.raises(ValueError, match="keys of a password"):
        StoredKeys.parse(text)
    with pytest.raises(ValueError, match="iterations must be in"):
        StoredKeys.from_password("x", iterations=4095)


def test_stored_keys_are_not_shown() -> None:
    """Neither the keys nor a part of them is in a repr."""
    assert repr(STORED["ann"]) == "StoredKeys(...)"


@pytest.mark.parametrize("accents", ["\u0301\u0316", "\ufdfa"], ids=["put in order", "made longer"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_names_that_take_long(monkeypatch: pytest.MonkeyPatch, mechanism: str, accents: str) -> None:
    """Before the login, a frame full of accents is refused unread: to put them in order takes time by their square."""
    normalized: list[int] = []

    class Counted:
        def normalize(self, form: Any, text: str) -> str:
            normalized.append(len(text))
            return unicodedata.ucd_3_2_0.normalize(form, text)

    monkeypatch.setattr("amqp10.sasl._prepare.ucd_3_2_0", Counted())
    name = accents * (60_000 // len(accents.encode()))
    response = f"\0{name}\0{name}" if mechanism == "PLAIN" else f"n,,n={name},r=abc"
    told: list[tuple[str, str | None, str | None]] = []
    authenticator = Authenticator(USERS).for_connection(secure=True, failed=lambda *what: told.append(what))
    normalized.clear()
    assert authenticator.exchange(mechanism).step(response.encode()) == Failure()
    assert told == [(mechanism, name, None)]
    assert normalized == []


def test_failures_are_told() -> None:
    """An observer of a connection is told of the failed logins of that connection, and of no others."""
    told: list[tuple[str, str | None, str | None]] = []
    authenticator = Authenticator(USERS).for_connection(secure=True, failed=lambda *what: told.append(what))
    log_in(authenticator, Plain("ann", "apple"))
    log_in(authenticator, ScramSha256("ann", "apple"))
    assert told == []
    log_in(authenticator, Plain("ann", "x"))
    log_in(authenticator, ScramSha256("no=body", "x"))
    authenticator.exchange("PLAIN").step(b"rubbish")
    assert told == [("PLAIN", "ann", None), ("SCRAM-SHA-256", "no=body", None), ("PLAIN", None, None)]
