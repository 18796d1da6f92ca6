"""Ways to damage a file: bytes of any file, values of a JSON text, members of a zip. All follow from the given dice."""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

Mutation = Callable[[random.Random, bytes], bytes]
WORDS = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x01\0\0\0", b"PK\5\6", b"[" * 64)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**53, 2**63, -(2**63), 10**400, 0.5, -1e308, 1e308, float("inf"), float("nan"), "", "\0",
    "\ud800", "../../etc/passwd", "<script>alert(1)</script>", "\u202e", "x" * 100_000, [], {}, [[[[[]]]]], [1] * 5000,
)  # fmt: skip


def truncated(dice: random.Random, data: bytes) -> bytes:
    return data[: dice.randrange(len(data))]


def flipped(dice: random.Random, data: bytes) -> bytes:
    """One to eight bits."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 8)):
        out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
    return bytes(out)


def overwritten(dice: random.Random, data: bytes) -> bytes:
    """Four bytes or so that a reader may take for a count, an offset or a mark."""
    at, word = dice.randrange(len(data)), dice.choice(WORDS)
    return data[:at] + word + data[at + len(word) :]


def spliced(dice: random.Random, data: bytes) -> bytes:
    """A part cut out, doubled or put somewhere else."""
    a, b = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    b = min(b, a + 4096)
    at = dice.randrange(len(data))
    kept = data[:a] + data[b:] if dice.random() < 0.6 else data
    return kept[:at] + (data[a:b] if dice.random() < 0.6 else b"") + kept[at:]


BYTES: tuple[Mutation, ...] = (truncated, flipped, overwritten, spliced)


def json_value(dice: random.Random, data: bytes) -> bytes:
    """One to three values of a JSON text replaced, keys removed, added or doubled; numbers may become NaN."""
    value = json.loads(data)
    for _ in range(dice.randint(1, 3)):
        if not value:
            break  # nothing is left to change
        parent, key = _place(dice, value)
        if isinstance(parent, dict) and dice.random() < 0.2:
            parent.pop(key)
        elif isinstance(parent, list) and dice.random() < 0.2:
            parent.insert(dice.randrange(len(parent) + 1), parent[key])
        elif isinstance(parent[key], int | float) and dice.random() < 0.4:
            parent[key] = -parent[key] if dice.random() < 0.5 else parent[key] * 10 ** dice.randrange(20)
        else:
            parent[key] = copy.deepcopy(dice.choice(VALUES))  # the next change may be made inside it
    return json.dumps(value).encode()


def _place(dice: random.Random, value: Any) -> tuple[Any, Any]:
    """A container and a key in it, at any depth."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = dice.choice(keys)
        child = value[key]
        if not isinstance(child, dict | list) or not child or dice.random() < 0.15:
            return value, key
        value = child


def zip_member(inside: dict[str, tuple[Mutation, ...]]) -> Mutation:
    """A zip whose members are whole, but for one that one of the given ways has damaged; names and order may change."""

    def mutate(dice: random.Random, data: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
        at = dice.randrange(len(members))
        name, content = members[at]
        ways = next((found for part, found in inside.items() if part in name), BYTES)
        act = dice.random()
        if act < 0.05:
            members.pop(at)
        elif act < 0.1:
            members[at] = (dice.choice(["../" + name, name + "\0", name.upper(), "/" + name, "more.npy"]), content)
        else:
            members[at] = (name, dice.choice(ways)(dice, content))
        packed = zipfile.ZIP_STORED if dice.random() < 0.3 else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(out, "w", packed, compresslevel=1) as archive:
            for member, text in members:
                archive.writestr(zipfile.ZipInfo(member), text, packed)
        return out.getvalue()

    return mutate


def array_of_json(dice: random.Random, data: bytes) -> bytes:
    """The JSON text in an array of numpy's, damaged as JSON, in an array that has its new length."""
    start = 10 + int.from_bytes(data[8:10], "little")
    text = json_value(dice, data[start:])
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(text)},), }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return data[:8] + len(head).to_bytes(2, "little") + head + text


def whole_pages(dice: random.Random, data: bytes) -> bytes:
    """Cut where a download that broke off is cut: after some whole pages of 4 KiB."""
    return data[: dice.randrange(len(data) // PAGE + 1) * PAGE]


def numbers(dice: random.Random, data: bytes) -> bytes:
    """One or two places in the head overwritten with counts, lengths or offsets that are huge, negative or nothing."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 2)):
        at = dice.randrange(min(len(out), 2 * PAGE)) if dice.random() < 0.8 else 8 * dice.randrange(4)
        out[at : at + 8] = dice.choice(HUGE).to_bytes(8, "little")
    return bytes(out)


def json_nested(dice: random.Random, data: bytes) -> bytes:
    """A value in the middle of the text is thousands of lists or objects, one in the other."""
    depth = dice.choice((50, 900, 1100, 100_000))
    opening, closing = dice.choice(((b"[", b"]"), (b'{"a":', b"}")))
    colons = [place for place in range(len(data)) if data[place : place + 1] == b":"]
    at = dice.choice(colons) + 1
    return data[:at] + opening * depth + (b"1" + closing * depth if dice.random() < 0.7 else b"") + b"," + data[at:]


def impostor(dice: random.Random, data: bytes) -> bytes:
    """Something else under the name: a pickle that would run a program, a zip that unpacks to a hundred megabytes, a
    page, a pointer, text of nothing but brackets."""
    return dice.choice(IMPOSTORS)


def _zip_bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("data.pkl", bytes(100 << 20))
    return out.getvalue()


PAGE = 4096
HUGE = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**33, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 4096)
PICKLE = b"\x80\x04cposix\nsystem\nX\x09\x00\x00\x00touch /tm\x85R."
IMPOSTORS = (
    b"", PICKLE, _zip_bomb(), gzip.compress(bytes(1 << 20)), b"<!DOCTYPE html><html></html>", b"[" * 1_000_000,
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", b"[" + b"[]," * 1_200_000 + b"1]",
    b"\xff\xfe" * 1000, b'{"__metadata__": {}}', (2**63).to_bytes(8, "little") + b"{}", bytes(4096),
)  # fmt: skip
