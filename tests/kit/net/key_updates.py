"""Records of TLS 1.3 by hand (RFC 8446 §5.2), because `ssl` lets nobody change the keys."""

from __future__ import annotations

import ssl
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

HANDSHAKE, DATA = 22, 23


class ClientRecords:
    """Writes the records of a client after its handshake, in place of OpenSSL.

    Args:
        keylog: the file that the client's context has had as `keylog_filename`.
        tls: the client's end of TLS, which has written no data.
    """

    def __init__(self, keylog: Path, tls: ssl.SSLObject) -> None:
        cipher = tls.cipher()
        assert cipher is not None
        assert cipher[0] == "TLS_AES_256_GCM_SHA384"
        lines = [line.split() for line in keylog.read_text().splitlines()]
        (secret,) = [line[2] for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0"]
        self._use(bytes.fromhex(secret))

    def data(self, content: bytes) -> bytes:
        """Return a record of data."""
        return self._record(DATA, content)

    def key_update(self, *, ask: bool) -> bytes:
        """Return a change of the keys (§4.6.3), and ask for the same from the peer, or not."""
        record = self._record(HANDSHAKE, bytes([24, 0, 0, 1, ask]))
        self._use(self._derived(self._secret, b"traffic upd", 48))
        return record

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._cipher = AESGCM(self._derived(secret, b"key", 32))
        self._iv = int.from_bytes(self._derived(secret, b"iv", 12))
        self._number = 0

    def _derived(self, secret: bytes, label: bytes, length: int) -> bytes:
        """HKDF-Expand-Label (§7.1)."""
        label = b"tls13 " + label
        info = length.to_bytes(2) + bytes([len(label)]) + label + b"\x00"
        return HKDFExpand(SHA384(), length, info).derive(secret)

    def _record(self, kind: int, content: bytes) -> bytes:
        head = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2)
        nonce = (self._iv ^ self._number).to_bytes(12)
        self._number += 1
        return head + self._cipher.encrypt(nonce, content + bytes([kind]), head)
