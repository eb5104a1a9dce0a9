"""Encryption of files: AES-256-GCM (NIST SP 800-38D), with its own data key for each file.

A sealed file is an encrypted one. It begins with a marker line and a line of JSON; the encrypted
text follows. The JSON holds the data key, encrypted by KMS or by a key that scrypt (RFC 7914)
derives from a passphrase. The file's name is authenticated too. So a renamed file fails to decrypt,
and no file can replace another one.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from compact.errors import InvalidArgument, StoreDamaged, StoreFailed
from compact.messages.protocols import BlobStore
from compact.store.blobs.s3_blobs import client, translating

MAGIC = b"compact-sealed-1\n"
"""First line of a sealed (encrypted) file. A change of the format changes the number."""
VARIABLE = "COMPACT_ENCRYPTION_KEY"
"""Environment variable that holds the passphrase."""
SHORTEST = 12
"""The shortest passphrase, in characters. Shorter ones can be guessed, even with scrypt."""
SCRYPT = {"n": 2**17, "r": 8, "p": 1}
"""scrypt's parameters. One guess at a passphrase costs 128 MiB of memory and some tenths of a
second. New parameters need a new `MAGIC`."""
INSTALL = (
    "encryption needs cryptography: pip install cryptography, or, in a clone of compact, "
    "pip install '.[encryption]'"
)
_NONCE, _LONGEST = 12, 2**31 - 64
"""Size of AES-GCM's nonce, and the longest text encrypted in one call, in bytes."""
_MISSING = {
    "kms": "give the KMS key",
    "scrypt": f"give its passphrase: key=, or {VARIABLE} in the environment",
}
"""How the data key was encrypted → what the user has to give to read the file."""


class DataKeys(Protocol):
    """A source of data keys."""

    kind: str

    def new(self, name: str) -> tuple[bytes, Mapping[str, str]]:
        """Make a key for a file. Return it, and its encrypted form to store with the text.

        Raises:
            StoreFailed: no key can be made.
        """
        ...

    def stored(self, name: str, head: Mapping[str, Any]) -> bytes:
        """Return a file's key, decrypted from its stored form.

        Raises:
            StoreFailed: it cannot be decrypted, or not with this passphrase.
        """
        ...


class SealedBlobs:
    """A `BlobStore` that encrypts files and keeps them in another `BlobStore`. `seals` encrypts;
    without it files are stored unencrypted. `seals` and `opens` decrypt. Unencrypted files are read
    as they are. Errors are those of `BlobStore`.
    """

    def __init__(
        self, blobs: BlobStore, seals: DataKeys | None, opens: Sequence[DataKeys] = ()
    ) -> None:
        self._blobs, self._seals = blobs, seals
        self._keys = {each.kind: each for each in (*opens, *filter(None, [seals]))}

    def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
        """Store data, encrypted if there is a key."""
        if self._seals is not None:
            data = self._sealed(self._seals, name, data)
        self._blobs.put(name, data, replaces=replaces)

    def get(self, name: str) -> bytes:
        """Return the content of a file."""
        data = self._blobs.get(name)
        return self._opened(name, data) if data.startswith(MAGIC) else data

    def delete(self, name: str) -> None:
        """Remove a file. This needs no key."""
        self._blobs.delete(name)

    def address(self, name: str) -> str:
        """Return the file's address."""
        return self._blobs.address(name)

    def _sealed(self, keys: DataKeys, name: str, data: bytes) -> bytes:
        if len(data) > _LONGEST:
            raise StoreFailed(f"{self.address(name)}: more than 2 GiB cannot be sealed")
        key, head = keys.new(name)
        nonce = secrets.token_bytes(_NONCE)
        line = json.dumps({**head, "nonce": _text(nonce)}).encode()
        sealed: bytes = _cipher(key).encrypt(nonce, data, name.encode())
        return b"".join((MAGIC, line, b"\n", sealed))

    def _opened(self, name: str, data: bytes) -> bytes:
        line, _, sealed = data.removeprefix(MAGIC).partition(b"\n")
        altered = StoreDamaged(f"{self.address(name)} was altered")
        try:
            head = json.loads(line)
            kind = "scrypt" if "salt" in head else "kms"
            nonce = base64.b64decode(head["nonce"], validate=True)
            keys = self._keys.get(kind)
            if keys is None:
                raise StoreFailed(f"{self.address(name)} is encrypted: {_MISSING[kind]}")
            return _decrypted(keys.stored(name, head), nonce, sealed, name)
        except (ValueError, LookupError, TypeError):
            raise altered from None


class Passphrase:
    """The user's passphrase for database and archives. `repr` does not show it.

    Raises:
        InvalidArgument: it is too short.
    """

    kind = "scrypt"

    def __init__(self, text: str, *, is_given: bool = True) -> None:
        self.is_given = is_given
        """Whether the caller gave the passphrase. Otherwise it came from the environment."""
        if len(text) < SHORTEST:
            reason = f"should have {SHORTEST} characters at least: openssl rand -hex 32 makes one"
            raise InvalidArgument("key", reason)
        self._text = text
        self._made: dict[bytes, bytes] = {}
        self._salt = b""

    def __repr__(self) -> str:
        return "Passphrase(…)"

    @classmethod
    def in_force(cls, given: str | None) -> Passphrase | None:
        """Return the given passphrase, else the one in the environment, else None."""
        if given is not None:
            return cls(given)
        text = os.environ.get(VARIABLE)
        return cls(text, is_given=False) if text else None

    def revealed(self) -> bytes:
        """Return the passphrase itself."""
        return self._text.encode("utf-8", "surrogatepass")

    def new(self, name: str) -> tuple[bytes, Mapping[str, str]]:
        """Make a random key, encrypted by a key derived from the passphrase."""
        self._salt = self._salt or secrets.token_bytes(16)
        key, nonce = secrets.token_bytes(32), secrets.token_bytes(_NONCE)
        kept = nonce + _cipher(self._derived(self._salt)).encrypt(nonce, key, name.encode())
        return key, {"salt": _text(self._salt), "key": _text(kept)}

    def stored(self, name: str, head: Mapping[str, Any]) -> bytes:
        """Return the key, decrypted.

        Raises:
            StoreFailed: another passphrase sealed it.
        """
        salt, kept = (base64.b64decode(head[each], validate=True) for each in ("salt", "key"))
        own, nonce = self._derived(salt), kept[:_NONCE]
        try:
            return _decrypted(own, nonce, kept[_NONCE:], name)
        except _Altered:
            raise StoreFailed(
                f"{name} is sealed with another key: give the one it was archived with "
                f"(key=, or {VARIABLE} in the environment); it stays as it is"
            ) from None

    def _derived(self, salt: bytes) -> bytes:
        if salt not in self._made:
            try:
                from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
            except ImportError:
                raise StoreFailed(INSTALL) from None
            self._made[salt] = Scrypt(salt=salt, length=32, **SCRYPT).derive(self.revealed())
        return self._made[salt]


class KmsKeys:
    """Data keys from KMS, for the objects of a bucket. Without a key id it can only decrypt: KMS
    knows which key encrypted an object. `clients` are keyword arguments for boto3's client. Errors
    are those of `DataKeys`.
    """

    kind = "kms"

    def __init__(self, key: str | None, bucket: str, prefix: str = "", **clients: object) -> None:
        self._key, self._bucket, self._prefix = key, bucket, prefix
        self._settings = clients

    def new(self, name: str) -> tuple[bytes, Mapping[str, str]]:
        """Get a new key from KMS."""
        with translating(f"the KMS key {self._key}"):
            made = self._client.generate_data_key(
                KeyId=self._key, KeySpec="AES_256", EncryptionContext=self._context(name)
            )
        return made["Plaintext"], {"key": _text(made["CiphertextBlob"])}

    def stored(self, name: str, head: Mapping[str, Any]) -> bytes:
        """Return the key, decrypted by KMS."""
        blob = base64.b64decode(head["key"], validate=True)
        context = self._context(name)
        with translating(f"the KMS key of s3://{self._bucket}/{context['object']}"):
            made = self._client.decrypt(CiphertextBlob=blob, EncryptionContext=context)
        key: bytes = made["Plaintext"]
        return key

    def _context(self, name: str) -> dict[str, str]:
        key = f"{self._prefix}/{name}" if self._prefix else name
        return {"bucket": self._bucket, "object": key}

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401 - boto3 has no types
        return client("kms", **self._settings)


class _Altered(ValueError):
    """The text was not encrypted with this key, or under another name."""


def _decrypted(key: bytes, nonce: bytes, sealed: bytes, name: str) -> bytes:
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag

    try:
        text: bytes = cipher.decrypt(nonce, sealed, name.encode())
    except InvalidTag:
        raise _Altered(name) from None
    return text


def _cipher(key: bytes) -> Any:  # noqa: ANN401 - imported where it is needed
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise StoreFailed(INSTALL) from None
    return AESGCM(key)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
