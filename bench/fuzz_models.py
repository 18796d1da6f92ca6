"""Kinds of files that a model is made of, for bench.fuzz_files: weights, vocabularies, configs and chat templates.

The good ones are a tiny model with random weights, as a GGUF file and as a folder. What can be loaded is stepped.
"""

from __future__ import annotations

import functools
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

from bench.fuzz_kind import Kind, folder
from bench.fuzz_mutations import BYTES, Mutation, impostor, json_nested, json_value, numbers, whole_pages
from miniinfer.engine.engine import Engine
from miniinfer.models.chat import ChatTemplate, encode_chat
from miniinfer.models.loader import load_model
from miniinfer.models.template_sandbox import SANDBOX
from tests.models import tiny_files

PATIENCE = 0.1  # seconds of processor time for a template, of which the app gives twenty times as much
MESSAGES = [{"role": "user", "content": "hello <|im_end|> \u202e"}]
SNIPPETS = (
    "{% for a in range(99999) %}", "{% for a in messages %}", "{% endfor %}", "{% if messages %}", "{% endif %}", "{{ ",
    " }}", "{% ", " %}", "{{ messages[0].content * 9 ** 9 }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages | list | string | center(999999999) }}", "{% set a = [a, a] %}", "{% include '../../etc/passwd' %}",
    "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}", "{{ cycler.__init__.__globals__.os.system('id') }}",
    "{{ raise_exception('no') }}", "{{ '%999999999d' % 1 }}", "(" * 300, "[" * 300, "{#", "\x00", "\ud800", "\u202e",
    "{% for a in range(99999) %}" * 2 + "{% endfor %}" * 2, "{% set x = 'a' * 9999999 %}{{ x | replace('a', x) }}",
    "{{ messages[-1] | tojson | replace('', 'aaaa' * 9999) }}", "{% break %}", "{{ 9 ** (9 ** 9) }}", "{% raw %}",
)  # fmt: skip


@functools.cache
def _home() -> Path:
    return folder()


def _use(path: Path) -> None:
    """Load it, write a chat, and compute a step of it."""
    model = load_model(path, device="cpu")
    if model.chat_template is not None:
        encode_chat(model.tokenizer, model.chat_template, MESSAGES)
    engine = Engine(model)
    engine.add_request([0, 1, 2])
    engine.step()


# A GGUF file

GGUF_VALUES = (
    0, 1, 2**31, 2**32 - 1, -1.0, float("nan"), float("inf"), "", "x" * 70_000, "\x00\u202e", True, [], ["x"] * 999,
)  # fmt: skip


def _gguf_path() -> Path:
    return _home() / "damaged.gguf"


def _place_gguf(data: bytes) -> bytes:
    _gguf_path().write_bytes(data)
    return data


@functools.cache
def _gguf() -> bytes:
    return tiny_files.gguf_bytes(tiny_files.METADATA, tiny_files.gguf_tensors(tiny_files.hf_tensors()))


def gguf_key(dice: random.Random, data: bytes) -> bytes:
    """A whole file in which one to three keys have other values, other types, or are not there."""
    keys = dict(tiny_files.METADATA)
    for _ in range(dice.randint(1, 3)):
        name = dice.choice(sorted(keys))
        if dice.random() < 0.1:
            del keys[name]
        else:
            keys[name] = dice.choice(GGUF_VALUES)
    return tiny_files.gguf_bytes(keys, tiny_files.gguf_tensors(tiny_files.hf_tensors()))


# A folder


@functools.cache
def _folder() -> Path:
    made = tiny_files.write_folder(_home() / "folder")
    (made / "tokenizer_config.json").write_text(json.dumps({"chat_template": tiny_files.TEMPLATE, "bos_token": "x"}))
    weight_map = dict.fromkeys(tiny_files.hf_tensors(), "model.safetensors")
    (made / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return made


@functools.cache
def _good(name: str) -> bytes:
    return (_folder() / name).read_bytes()


def part_of_a_folder(name: str, *ways: Mutation) -> Kind:
    """The folder with one damaged file in it; the good one is put back for the next kind."""

    def place(data: bytes) -> bytes:
        for other in PARTS:
            if (_folder() / other).read_bytes() != _good(other):
                (_folder() / other).write_bytes(_good(other))
        (_folder() / name).write_bytes(data)
        return data

    def good() -> bytes:
        for part in PARTS:
            _good(part)
        return _good(name)

    return Kind(good, lambda data: _use(_folder()), ways, place)


PARTS = (
    "model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json",
    "chat_template.jinja",
)  # fmt: skip


def safetensors_header(change: Mutation) -> Mutation:
    """The header changed as JSON, with its length put right, so that what it says is read."""

    def mutate(dice: random.Random, data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        header = change(dice, data[8 : 8 + length])
        return struct.pack("<Q", len(header)) + header + data[8 + length :]

    return mutate


# Chat templates


def template_text(dice: random.Random, data: bytes) -> bytes:
    """One to four pieces of templates put somewhere, one after another or into each other."""
    text = data.decode()
    for _ in range(dice.randint(1, 4)):
        at = dice.choice((0, len(text), dice.randrange(len(text) + 1)))
        text = text[:at] + dice.choice(SNIPPETS) + text[at:]
    return text.encode(errors="surrogatepass")


def patiently(read: Callable[[bytes], object]) -> Callable[[bytes], object]:
    def reading(data: bytes) -> object:
        SANDBOX.seconds = PATIENCE
        return read(data)

    return reading


def _render(data: bytes) -> object:
    return ChatTemplate(data.decode(errors="replace"), control_tokens=tiny_files.CONTROL).render(MESSAGES)


JSON_WAYS = (*BYTES, json_value, json_value, json_value, json_nested, impostor)
MODEL_KINDS: dict[str, Kind] = {
    "GGUF": Kind(
        _gguf, patiently(lambda data: _use(_gguf_path())), (*BYTES, whole_pages, numbers, numbers, gguf_key, impostor),
        _place_gguf,
    ),
    "safetensors": part_of_a_folder(
        "model.safetensors", *BYTES, whole_pages, numbers, safetensors_header(json_value),
        safetensors_header(json_value), safetensors_header(json_nested), impostor,
    ),
    "config.json": part_of_a_folder("config.json", *JSON_WAYS),
    "tokenizer.json": part_of_a_folder("tokenizer.json", *JSON_WAYS),
    "tokenizer_config.json": part_of_a_folder("tokenizer_config.json", *JSON_WAYS),
    "weights index": part_of_a_folder("model.safetensors.index.json", *JSON_WAYS),
    "chat template": Kind(
        lambda: tiny_files.TEMPLATE.encode(), patiently(_render), (*BYTES, template_text, template_text, template_text)
    ),
}  # fmt: skip
