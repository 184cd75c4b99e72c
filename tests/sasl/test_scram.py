"""SCRAM, by the vectors of RFC 5802 and RFC 7677, and against everything that either side could forge."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.errors import AuthenticationFailed
from amqp10.sasl import Challenge, Failure, ScramSha1, ScramSha256, ScramSha512, Success
from amqp10.sasl._scram import DIGESTS, MAX_ITERATIONS, ScramClient, ScramServer, derive_keys

pytestmark = pytest.mark.capability("login")

# digest, client's nonce, server's part, salt, proof, server signature; user "user", password "pencil", 4096 iterations
RFC5802 = (
    "sha1",
    "fyko+d2lbbFgONRv9qkxdawL",
    "3rfcNHYJY1ZVvWVs7j",
    "QSXCR+Q6sek8bf92",
    "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC7677 = (
    "sha256",
    "rOprNGfwEbeRWgbNEkqO",
    "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    "W22ZaJ0SNY7soEsUEjb6gQ==",
    "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


def by_hand(digest: str, client: str, server: str, salt: str) -> tuple[str, str, str, str, str, str]:
    """RFC 5802 section 3, written a second time and without the package."""

    def mac(key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, digest).digest()

    salted = hashlib.pbkdf2_hmac(digest, b"pencil", base64.b64decode(salt), 4096)
    client_key = mac(salted, b"Client Key")
    message = f"n=user,r={client},r={client}{server},s={salt},i=4096,c=biws,r={client}{server}".encode()
    signature = mac(hashlib.new(digest, client_key).digest(), message)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_signature = mac(mac(salted, b"Server Key"), message)
    return digest, client, server, salt, base64.b64encode(proof).decode(), base64.b64encode(server_signature).decode()


SHA512 = by_hand("sha512", "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj", "W22ZaJ0SNY7soEsUEjb6gQ==")

Vector = tuple[str, str, str, str, str, str]
vectors = pytest.mark.parametrize("vector", [RFC5802, RFC7677, SHA512], ids=["sha1", "sha256", "sha512"])


def test_by_hand_is_right() -> None:
    """The second writing gives the vectors of the RFCs, so that its SHA-512 one can be believed."""
    assert by_hand(*RFC5802[:4]) == RFC5802
    assert by_hand(*RFC7677[:4]) == RFC7677


def client_of(digest: str, nonce: str, user: str = "user", password: str = "pencil") -> ScramClient:
    return ScramClient(digest, user, lambda salt, iterations: derive_keys(digest, password, salt, iterations), nonce)


def server_of(digest: str, nonce: str, salt: str, known: bool = True) -> ScramServer:
    keys = derive_keys(digest, "pencil", base64.b64decode(salt))
    return ScramServer(digest, lambda user: (user if known else None, keys), nonce)


def asked(vector: Vector = RFC5802) -> tuple[ScramClient, str]:
    """A client that has begun, and the challenge that it would take."""
    digest, nonce, more, salt, _, _ = vector
    client = client_of(digest, nonce)
    client.initial()
    return client, f"r={nonce}{more},s={salt},i=4096"


@vectors
def test_client_by_the_vectors(vector: Vector) -> None:
    """First message, proof, and the server's signature."""
    digest, nonce, more, salt, proof, signature = vector
    client = client_of(digest, nonce)
    assert client.initial() == f"n,,n=user,r={nonce}".encode()
    answer = client.respond(f"r={nonce}{more},s={salt},i=4096".encode())
    assert answer == f"c=biws,r={nonce}{more},p={proof}".encode()
    client.finish(f"v={signature}".encode())


@vectors
def test_server_by_the_vectors(vector: Vector) -> None:
    """The challenge, and the signature for the right proof."""
    digest, nonce, more, salt, proof, signature = vector
    server = server_of(digest, more, salt)
    assert server.step(f"n,,n=user,r={nonce}".encode()) == Challenge(f"r={nonce}{more},s={salt},i=4096".encode())
    assert server.step(f"c=biws,r={nonce}{more},p={proof}".encode()) == Success("user", f"v={signature}".encode())


def test_last_word_as_a_challenge() -> None:
    """Some servers prove themselves in a challenge, which is answered with nothing, before the outcome."""
    client, challenge = asked()
    client.respond(challenge.encode())
    assert client.respond(f"v={RFC5802[5]}".encode()) == b""
    client.finish(None)


def test_initial_response_ignored() -> None:
    """An empty challenge asks for the first message again, with the same nonce."""
    client, _ = asked()
    assert client.respond(b"") == client.initial()


@pytest.mark.parametrize("final", [None, b"", b"v=", b"v=!", b"v=AAAA", b"x=y", b"\xff", b"e=other-error"])
def test_server_that_cannot_prove_itself(final: bytes | None) -> None:
    """Success without the right signature is none: it may be anybody who said so."""
    client, challenge = asked()
    client.respond(challenge.encode())
    with pytest.raises(AuthenticationFailed):
        client.finish(final)
    with pytest.raises(AuthenticationFailed):
        client.respond(final or b"")


def test_success_without_any_exchange() -> None:
    """A server that says "welcome" at once has proven nothing."""
    client, _ = asked()
    with pytest.raises(AuthenticationFailed, match="prove"):
        client.finish(None)
    with pytest.raises(AuthenticationFailed, match="prove"):
        client.finish(f"v={RFC5802[5]}".encode())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("r=fyko", "r=Fyko"), "nonce"),
        (lambda text: text.replace(RFC5802[2], ""), "nonce"),
        (lambda text: text.replace("4096", "4095"), "iteration count"),
        (lambda text: text.replace("4096", "1"), "iteration count"),
        (lambda text: text.replace("4096", str(MAX_ITERATIONS + 1)), "iteration count"),
        (lambda text: text.replace("4096", "9" * 5000), "malformed"),
        (lambda text: text.replace("4096", "-4096"), "malformed"),
        (lambda text: text.replace("4096", "4_096"), "malformed"),
        (lambda text: text.replace("4096", "٤٠٩٦"), "malformed"),
        (lambda text: text.replace(RFC5802[3], ""), "salt"),
        (lambda text: text.replace(RFC5802[3], "!"), "malformed"),
        (lambda text: text.replace(",i=4096", ""), "malformed"),
        (lambda text: "m=critical," + text, "extension"),
        (lambda text: "v=AAAA", "malformed"),
        (lambda text: "\x00", "malformed"),
    ],
)
def test_challenges_refused(change: Callable[[str], str], reason: str) -> None:
    """A foreign nonce, a cheap or endless derivation, and whatever is malformed."""
    client, challenge = asked()
    with pytest.raises(AuthenticationFailed, match=reason):
        client.respond(change(challenge).encode())


def test_user_names_are_escaped() -> None:
    """Comma and equals sign in a name (RFC 5802 section 5.1), both ways; SASLprep on the way."""
    exchange = ScramSha256("a=b,c\u2168", "pencil").exchange()
    first = exchange.initial()
    assert first is not None
    assert first.startswith(b"n,,n=a=3Db=2CcIX,r=")
    names = []
    keys = derive_keys("sha256", "pencil", b"salt")

    def keys_of(user: str) -> tuple[str, object]:
        names.append(user)
        return user, keys

    ScramServer("sha256", keys_of).step(first)  # type: ignore[arg-type]
    assert names == ["a=b,cIX"]


def test_passwords_are_prepared() -> None:
    """Two spellings of one password give one proof."""
    for password in ("pencil", "pen\u00adcil"):
        mechanism = ScramSha1("user", password)
        client = ScramClient("sha1", "user", mechanism._keys_of, RFC5802[1])
        _, challenge = asked()
        assert client.respond(challenge.encode()).endswith(RFC5802[4].encode())


@pytest.mark.parametrize(("user", "password"), [("", "p"), ("\u00ad", "p"), ("u\0", "p"), ("u", "p\u0007")])
def test_refused_when_made(user: str, password: str) -> None:
    """A password that SASLprep prohibits is refused before anything is connected."""
    with pytest.raises(ValueError, match="user name"):
        ScramSha256(user, password)


def test_repr_hides_the_password() -> None:
    """The user may be seen, password and keys not."""
    mechanism = ScramSha256("user", "pencil")
    assert repr(mechanism) == "ScramSha256('user', ...)"
    assert "pencil" not in repr(mechanism.exchange())
    keys = derive_keys("sha256", "pencil", b"salt")
    assert repr(keys.client_key) not in repr(keys)


def test_keys_are_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second connection to a server costs no derivation, another salt does."""
    derived = []
    real = hashlib.pbkdf2_hmac

    def count(*args: Any) -> bytes:
        derived.append(args)
        return real(*args)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", count)
    mechanism = ScramSha1("user", "pencil")
    for salt in ("c2FsdA==", "c2FsdA==", "cGVwcGVy"):
        exchange = mechanism.exchange()
        first = (exchange.initial() or b"").decode()
        exchange.respond(f"r={first.rpartition('r=')[2]}x,s={salt},i=4096".encode())
    assert len(derived) == 2


@pytest.mark.parametrize("mechanism", [ScramSha1, ScramSha256, ScramSha512])
def test_both_sides(mechanism: type[ScramSha1]) -> None:
    """Nonces of their own, and each proves itself to the other; twice, for an exchange is one try."""
    keys = derive_keys(mechanism.digest, "pencil", b"salt")
    login = mechanism("user", "pencil")
    firsts = set()
    for _ in range(2):
        client, server = login.exchange(), ScramServer(mechanism.digest, lambda user: (user, keys))
        first = client.initial()
        firsts.add(first)
        challenge = server.step(first)
        assert isinstance(challenge, Challenge)
        success = server.step(client.respond(challenge.data))
        assert isinstance(success, Success)
        assert success.identity == "user"
        client.finish(success.additional)
    assert len(firsts) == 2
    assert DIGESTS[mechanism.name] == mechanism.digest


# The server's refusals

FIRST = f"n,,n=user,r={RFC5802[1]}"
FINAL = f"c=biws,r={RFC5802[1]}{RFC5802[2]},p={RFC5802[4]}"


@pytest.mark.parametrize(
    "first",
    [
        FIRST.replace("n,,", "x,,"),
        FIRST.replace("n,,", "n,a=root,"),
        FIRST.replace("n,,", "n,,m=ext,"),
        FIRST.replace("n=user", "n=us=er"),
        FIRST.replace("n=user", "n="),
        FIRST.replace("n=user", "n=\u0007"),
        FIRST.replace(RFC5802[1], ""),
        "n,,r=abc",
        "n,",
        "",
    ],
)
def test_first_messages_refused(first: str) -> None:
    """Unknown flags, acting as somebody else, extensions, bad escapes."""
    assert server_of("sha1", RFC5802[2], RFC5802[3]).step(first.encode()) == Failure()


def test_first_messages_taken() -> None:
    """The own name as authorization identity, and a client that could bind channels (its flag is proven, too)."""
    for header in ("n,a=user,", "y,,"):
        server = server_of("sha1", "def", RFC5802[3])
        assert isinstance(server.step(FIRST.replace("n,,", header).encode()), Challenge)
        challenge = f"r={RFC5802[1]}def,s={RFC5802[3]},i=4096"
        keys = derive_keys("sha1", "pencil", base64.b64decode(RFC5802[3]))
        without = f"c={base64.b64encode(header.encode()).decode()},r={RFC5802[1]}def"
        message = f"n=user,r={RFC5802[1]},{challenge},{without}".encode()
        signature = hmac.digest(keys.stored_key, message, "sha1")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(keys.client_key, signature, strict=True))).decode()
        assert isinstance(server.step(f"{without},p={proof}".encode()), Success)


@pytest.mark.parametrize(
    "final",
    [
        FINAL.replace("p=v0", "p=w0"),
        FINAL.replace(RFC5802[4], "AAAA"),
        FINAL.replace(RFC5802[4], "!"),
        FINAL.replace("r=fyko", "r=Fyko"),
        FINAL.replace(f",p={RFC5802[4]}", ""),
        "",
    ],
)
def test_final_messages_refused(final: str) -> None:
    """A wrong proof, another nonce, another header; and the right one does not help afterwards."""
    server = server_of("sha1", RFC5802[2], RFC5802[3])
    server.step(FIRST.encode())
    assert server.step(final.encode()) == Failure()
    assert server.step(FINAL.encode()) == Failure()


def test_no_response() -> None:
    """Without an initial response the server asks for one, once; later there must be one."""
    server = server_of("sha1", RFC5802[2], RFC5802[3])
    assert server.step(None) == Challenge(b"")
    server.step(FIRST.encode())
    assert server.step(None) == Failure()


def test_stranger_with_the_right_password() -> None:
    """Keys that fit do not help a user that is not there."""
    server = server_of("sha1", RFC5802[2], RFC5802[3], known=False)
    assert isinstance(server.step(FIRST.encode()), Challenge)
    assert server.step(FINAL.encode()) == Failure()


KEYS = derive_keys("sha256", "pencil", b"salt")


@given(st.lists(st.one_of(st.none(), st.binary(max_size=60), st.text("nyca=,rp3DC2", max_size=40).map(str.encode))))
def test_server_never_raises(responses: list[bytes | None]) -> None:
    """Whatever a client sends, the answer is a step, and never a success."""
    server = ScramServer("sha256", lambda user: (user, KEYS))
    for response in responses:
        assert isinstance(server.step(response), Challenge | Failure)


@given(st.lists(st.one_of(st.binary(max_size=60), st.text("rsiv=,4096Ab", max_size=40).map(str.encode)), max_size=5))
def test_client_raises_one_error(challenges: list[bytes]) -> None:
    """Whatever a server sends, it is answered or is `AuthenticationFailed`, and never verified."""
    client = ScramClient("sha256", "user", lambda salt, iterations: KEYS, "nonce")
    try:
        for challenge in challenges:
            client.respond(challenge)
    except AuthenticationFailed:
        pass
    with pytest.raises(AuthenticationFailed):
        client.finish(None)
