"""The pass phrase of an app that others can reach. What is kept and handed on is salted scrypt, never the phrase."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata

from miniinfer.errors import BadInputError

FEWEST, MOST = 8, 256  # characters
_N, _R, _P = 2**14, 8, 1  # 16 MB and some 50 ms for each try
_HASH_BYTES = 32


def make_verifier(phrase: str) -> str:
    """Raises BadInputError for a phrase that is too short to keep anybody out, or too long."""
    if not FEWEST <= len(phrase) <= MOST:
        raise BadInputError(f"A pass phrase has from {FEWEST} to {MOST} characters, not {len(phrase)}.")
    salt = secrets.token_bytes(16)
    return f"{salt.hex()}.{_hash(phrase, salt).hex()}"


def matches(phrase: str, verifier: str) -> bool:
    """Whether this is the phrase, compared in constant time. A phrase that is too long is hashed all the same, cut."""
    salt, _, expected = verifier.partition(".")
    same = hmac.compare_digest(_hash(phrase[:MOST], bytes.fromhex(salt)), bytes.fromhex(expected))
    return same and len(phrase) <= MOST


def _hash(phrase: str, salt: bytes) -> bytes:
    # One keyboard sends "ü" as one character, another as two.
    secret = unicodedata.normalize("NFC", phrase).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=_N, r=_R, p=_P, dklen=_HASH_BYTES)
