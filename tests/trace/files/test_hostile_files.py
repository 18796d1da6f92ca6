"""Run files of strangers: cut off, damaged, huge, deep, with pickles: each opens or is refused with one sentence."""

import dataclasses
import io
import json
import pickle
import random
import struct
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from miniinfer.errors import ModelFileError
from miniinfer.trace.files.format import MOST_FILE_BYTES, read_trace, trace_bytes
from miniinfer.trace.files.recording import recorded_copy
from tests.trace.files.test_format import everything, same
from tests.trace.live import finished_run

SECRET = "never to be executed"


@pytest.fixture(scope="module")
def good():
    return trace_bytes(recorded_copy(finished_run()))


def refused(data):
    with pytest.raises(ModelFileError) as caught:
        read_trace(data, "strange.npz")
    said = str(caught.value)
    assert said.startswith("strange.npz ")
    assert said.endswith(".")
    assert len(said) < 400
    return said


def test_truncated_files_are_named_not_crashed_on(good):
    for size in [*range(0, len(good), 97), len(good) - 1]:
        refused(good[:size])


def test_flipped_bytes_load_equal_or_are_refused(good):
    whole = read_trace(good, "a")
    for place in range(0, len(good), 41):
        flipped = bytearray(good)
        flipped[place] ^= 1 << place % 8
        with suppress(ModelFileError):
            assert read_trace(bytes(flipped), "a").steps == whole.steps


def rewritten(data, change, **more):
    arrays = dict(np.load(io.BytesIO(data)))
    header = json.loads(arrays.pop("header.json").tobytes())
    change(header, arrays)
    out = io.BytesIO()
    np.savez_compressed(out, **arrays, **more, **{"header.json": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    return out.getvalue()


HOSTILE = [
    (lambda h, a: h.update(version=3), "version '3'"),
    (lambda h, a: h.update(version=True), "version"),
    (lambda h, a: h.update(format="other"), "not a MiniInfer run file"),
    (lambda h, a: h.update(more=1), "unknown: more"),
    (lambda h, a: h["steps"].reverse(), "damaged"),
    (lambda h, a: h["next"].pop(), "damaged"),
    (lambda h, a: h["tokens"].pop(), "damaged"),
    (lambda h, a: h["tokens"][1].__setitem__(0, 10**9), "damaged"),
    (lambda h, a: h["tokens"][1].__setitem__(1, "\ud800"), "surrogates"),
    (lambda h, a: h["tokens"][1].__setitem__(2, "xy"), "damaged"),
    (lambda h, a: h["run"].update(name="n" * 201), "at most 200"),
    (lambda h, a: h["run"].update(prompt=None), "damaged"),
    (lambda h, a: h["run"].update(kind="live"), "trunk"),
    (lambda h, a: h["run"].update(block_size=-1), "damaged"),
    (lambda h, a: h["run"].update(num_prompt_tokens=2**62), "damaged"),
    (lambda h, a: h["run"]["model"].update(num_layers=-1), "num_layers|whole number"),
    (lambda h, a: h["run"]["model"].update(num_layers=10**9, num_heads=10**9), "too many heads"),
    (lambda h, a: h["run"]["params"].update(temperature=float("inf")), "damaged"),
    (lambda h, a: h["run"]["params"].update(seed=2**70), "seed"),
    (lambda h, a: h["run"].update(edit={"step": 99, "token_id": 1}), "left its trunk"),
    (lambda h, a: h["steps"][0].update(step_ms=float("nan")), "no number"),
    (lambda h, a: h["steps"][0].update(step_ms=-1), "damaged"),
    (lambda h, a: h["steps"][0].update(num_scheduled=10**18), "damaged"),
    (lambda h, a: h["steps"][0].update(kv_used_bytes=2**60), "damaged"),
    (lambda h, a: h["steps"][0].update(token_id=None), "before the prompt was through"),
    (lambda h, a: h["steps"][0].update(step_ms=1e308), "0 to"),
    (lambda h, a: h["steps"][0].update(logprob=2.5), "damaged"),
    (lambda h, a: h["steps"][0].update(stage_ms={"![](//a.b/c)": 1.0}), "a word was expected"),
    (lambda h, a: h["steps"][0].update(stage_ms={"attn_mix": 1e308, "attn_out": 1e308}), "0 to"),
    (lambda h, a: h["steps"][0].update(kv_allocated_bytes=2**50), "bytes of the KV cache"),
    (lambda h, a: h["steps"][0].update(kv_used_bytes=h["steps"][0]["kv_used_bytes"] - 1), "bytes of the KV cache"),
    (lambda h, a: h["run"].update(device="![](//a.b/c)"), "a word was expected"),
    (lambda h, a: h["run"].update(dtype="**float**"), "one of float32"),
    (lambda h, a: h["run"]["model"].update(architecture="a b"), "a word was expected"),
    (lambda h, a: h["run"]["model"].update(num_layers=1025), "too many heads"),
    (lambda h, a: h["origin"].update(at="yesterday"), "a word was expected"),
    (lambda h, a: h["next"][-1].update(cut_by=["<b>"] * len(h["next"][-1]["cut_by"])), "a word was expected"),
    (lambda h, a: h["next"][-1].update(lo=1.0, hi=0.0), "ends before it begins"),
    (lambda h, a: a.update(norms=a["norms"] * np.float32(1e12)), "no length"),
    (lambda h, a: h["next"][-1].update(used_probs=[2.0] * len(h["next"][-1]["used_probs"])), "0 to 1"),
    (lambda h, a: h["next"][-1].update(token_id=89, tokens=h["next"][-1]["tokens"][:1]), "damaged"),
    (lambda h, a: h["rows"].append(h["rows"][-1]), "damaged"),
    (lambda h, a: h.update(rows=[-1]), "damaged"),
    (lambda h, a: h.update(head=[0, 0]), "rows of one head"),
    (lambda h, a: h.update(cell=1), "pooled maps"),
    (lambda h, a: h.update(step_settings=[5] * len(h["steps"])), "damaged"),
    (lambda h, a: a.update(pattern=a["pattern"][:-1]), "attention rows"),
    (lambda h, a: a.update(pattern=a["pattern"].astype(np.float32)), "attention rows"),
    (lambda h, a: a.update(norms=a["norms"][:1]), "lengths of K and V"),
    (lambda h, a: a.update(norms=a["norms"] * np.float32("nan")), "no length"),
    (lambda h, a: a.update(probs=a["probs"] + 2), "a probability"),
    (lambda h, a: a.update(norms=a["norms"].astype(np.float64)), "another kind of numbers"),
    (lambda h, a: a.update(norms=np.asfortranarray(a["norms"])), "another kind of numbers"),
    (lambda h, a: a.pop("probs"), "damaged"),
    (lambda h, a: a.update(more=np.zeros(1, np.uint8)), "more.npy"),
]


@pytest.mark.parametrize(("change", "sentence"), HOSTILE)
def test_wrong_contents_are_refused(good, change, sentence):
    with pytest.raises(ModelFileError, match=sentence):
        read_trace(rewritten(good, change), "strange.npz")


def test_the_first_version_is_read(good):
    def older(header, arrays):
        header["version"] = 1
        for name in ("origin", "settings", "step_settings", "rows", "head", "cell"):
            del header[name]

    back, new = read_trace(rewritten(good, older), "a"), read_trace(good, "a")
    assert back == dataclasses.replace(
        back, steps=new.steps, tokens=new.tokens, next_tokens=new.next_tokens, settings=new.settings
    )
    same(everything(back), everything(new))


class Bomb:
    def __reduce__(self):
        return (pytest.fail, (SECRET,))


def members(data, **changes):
    """The zip with other bytes in some members."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, changes.get(entry.filename.removesuffix(".npy"), old.read(entry.filename)))
    return out.getvalue()


def npy(shape, descr="|u1", body=b"", fortran=False):
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def test_pickles_are_not_executed(good):
    evil = io.BytesIO()
    np.save(evil, np.array([Bomb()], object), allow_pickle=True)
    assert "another kind of numbers" in refused(members(good, pattern=evil.getvalue()))
    refused(members(good, pattern=pickle.dumps(Bomb())))
    refused(pickle.dumps(Bomb()))


HUGE = ["(10**18,)", f"({10**18},)", "(-5,)", "(2**62, 2**62)", f"({2**62}, {2**62})", "(" * 300]


@pytest.mark.parametrize("shape", HUGE)
def test_an_array_that_claims_to_be_huge_is_never_made(good, shape):
    refused(members(good, norms=npy(shape, "<f4")))


def test_a_bomb_is_not_unpacked(good):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in ("header.json", "pattern", "norms", "probs"):
            with archive.open(f"{name}.npy", "w") as member:
                for _ in range(100):
                    member.write(bytes(2**20))
    assert "is the limit" in refused(whole.getvalue())
    liar = whole.getvalue().replace(struct.pack("<I", 100 * 2**20), struct.pack("<I", 1000))
    refused(liar)
    assert "MB" in refused(bytes(MOST_FILE_BYTES + 1))


@pytest.mark.parametrize("name", ["../evil.npy", "/etc/passwd", "..\\..\\x.npy", "pattern", "patterns.npy"])
def test_a_member_of_another_name_is_refused(good, name):
    out = io.BytesIO(good)
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"x")
    assert "members that a run file does not have" in refused(out.getvalue())


def test_two_members_of_one_name_and_a_huge_directory_are_refused(good):
    out = io.BytesIO(good)
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("pattern.npy", b"x")
    assert "members" in refused(out.getvalue())
    out = io.BytesIO(good.replace(b"probs.npy", b"norms.npy"))
    assert "members" in refused(out.getvalue())
    crowd = io.BytesIO()
    with zipfile.ZipFile(crowd, "w") as archive:
        for i in range(3000):
            archive.writestr(f"{i}", b"")
    assert "directory" in refused(crowd.getvalue())


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000, '{"a":' * 100_000, "9" * 5000, '{"format":"miniinfer-trace","version":' + "9" * 4000 + "}", "[]",
        '{"format":1,"format":"miniinfer-trace"}', "null", '"miniinfer-trace"',
        '{"format":NaN}', "", "\0", '{"format":"miniinfer-trace","version":2}',
    ],
)  # fmt: skip
def test_deep_long_and_odd_headers_are_refused(good, text):
    refused(members(good, **{"header.json": npy(f"({len(text)},)", body=text.encode())}))


def test_a_header_of_millions_of_values_is_not_made(good):
    text = b"[" + b"[]," * 2_000_000 + b"1]"
    assert "values" in refused(members(good, **{"header.json": npy(f"({len(text)},)", body=text)}))


def test_random_damage_to_header_and_arrays_is_never_more_than_a_sentence(good):
    rng = random.Random(5)
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        parts = {entry.filename.removesuffix(".npy"): archive.read(entry) for entry in archive.infolist()}
    for _ in range(300):
        name = rng.choice(sorted(parts))
        data = bytearray(parts[name])
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((0, 0x22, 0x2D, 0x39, 0x5B, 0x7B, 0xFF, rng.randrange(256)))
        with suppress(ModelFileError):
            run = read_trace(members(good, **{name: bytes(data)}), "a.npz")
            everything(run)
