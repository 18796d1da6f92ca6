"""The vocabulary in tokenizer.json of a Hugging Face folder, and the ends and template that lie in its other files.

tokenizer.json describes a pipeline; only the byte-level pipelines whose every part we know are accepted, because a part
that is skipped would give other ids without anybody noticing.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miniinfer.errors import ModelFileError
from miniinfer.models.json_file import read_json_object, read_optional_json_object
from miniinfer.models.report import FactReader
from miniinfer.models.vocabulary import Vocabulary, parse_merges
from miniinfer.strangers import read_file

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
MAX_TEMPLATE_BYTES = 1 << 20
DIGITS = {"type": "Digits", "individual_digits": True}
# Settings of the BPE model that change ids, with the only value that means nothing.
NEUTRAL_MODEL_SETTINGS: dict[str, tuple[object, ...]] = {
    "dropout": (None, 0.0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
}


def read_vocabulary(folder: Path, facts: FactReader, generation: Mapping[str, Any], rows: int) -> Vocabulary:
    """facts: those of config.json. rows: of the embedding. Raises ModelFileError for other kinds of tokenizers."""
    return read_vocabulary_file(folder / "tokenizer.json", facts, generation, rows)


def read_vocabulary_file(path: Path, facts: FactReader, generation: Mapping[str, Any], rows: int) -> Vocabulary:
    """read_vocabulary, from a file of any name; tokenizer_config.json may lie beside it."""
    folder = path.parent
    name = f"{folder.name}/{path.name}"
    content = read_json_object(path)
    settings = read_optional_json_object(folder / "tokenizer_config.json")
    model = _part(content, "model", name)
    pre = _pre_tokenizer(content, name)
    facts.read("pre_tokenizer", path.name, pre)
    _refuse_model_settings(model, content, name)
    added = _added_tokens(content, name)
    tokens = _tokens(model, added, rows, name)
    bos_id = _declared_ids(facts, settings, "bos", {}, tokens)
    return Vocabulary(
        tokens=tokens,
        merges=parse_merges(_list(model, "merges", name), name),
        pre=pre,
        control=frozenset(token_id for token_id, token in added.items() if token.get("special") is True),
        user_defined=frozenset(token_id for token_id, token in added.items() if token.get("special") is not True),
        bos_id=min(bos_id, default=None),
        add_bos=settings.get("add_bos_token") is True,
        declared_stop_ids=_declared_ids(facts, settings, "eos", generation, tokens),
        ignore_merges=model.get("ignore_merges") is True,
    )


def read_chat_template(folder: Path) -> str | None:
    """The default chat template: a file of its own in newer folders, a key of tokenizer_config.json in older ones."""
    path = folder / "chat_template.jinja"
    if path.exists():
        try:
            return read_file(path, MAX_TEMPLATE_BYTES).decode("utf-8")
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            raise ModelFileError(f"{folder.name}/{path.name} cannot be read ({said}).") from error
    template = read_optional_json_object(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # several, by name
        named = [one for one in template if isinstance(one, dict) and one.get("name") == "default"]
        template = named[0].get("template") if named else None
    return template if isinstance(template, str) else None


def _pre_tokenizer(content: Mapping[str, Any], name: str) -> str:
    """Our name for the pipeline that cuts a text into pieces."""
    described = _part(content, "pre_tokenizer", name)
    steps = described.get("pretokenizers") if described.get("type") == "Sequence" else [described]
    steps = steps if isinstance(steps, list) else [described]
    plain = [_without(step, "trim_offsets") for step in steps]
    for known, pipeline in (("gpt-2", [BYTE_LEVEL]), ("smollm", [DIGITS, BYTE_LEVEL])):
        if plain == pipeline:
            return known
    kinds = " + ".join(str(step.get("type")) if isinstance(step, dict) else "?" for step in steps)
    raise ModelFileError(
        f"{name} uses a pre-tokenizer that MiniInfer does not know ({reprlib.repr(kinds)}): "
        "another one would cut the text differently, so this model cannot be used."
    )


def _without(step: object, key: str) -> object:
    return {name: value for name, value in step.items() if name != key} if isinstance(step, dict) else step


def _refuse_model_settings(model: Mapping[str, Any], content: Mapping[str, Any], name: str) -> None:
    if model.get("type", "BPE") != "BPE":
        raise ModelFileError(f"{name} holds a {reprlib.repr(model['type'])} tokenizer, and MiniInfer knows BPE only.")
    for key, neutral in NEUTRAL_MODEL_SETTINGS.items():
        if model.get(key) not in neutral:
            raise ModelFileError(f"{name} sets {key} to {reprlib.repr(model[key])}, which MiniInfer cannot follow.")
    if content.get("normalizer") is not None:
        kind = reprlib.repr(content["normalizer"])
        raise ModelFileError(f"{name} changes every text first (normalizer {kind}), which MiniInfer cannot do.")
    post = content.get("post_processor")
    if post is not None and (not isinstance(post, dict) or post.get("type") != "ByteLevel"):
        kind = reprlib.repr(post.get("type") if isinstance(post, dict) else post)
        raise ModelFileError(f"{name} adds tokens to every text (post-processor {kind}), which MiniInfer cannot do.")


def _added_tokens(content: Mapping[str, Any], name: str) -> dict[int, Mapping[str, Any]]:
    added: dict[int, Mapping[str, Any]] = {}
    for token in _list(content, "added_tokens", name) if content.get("added_tokens") is not None else []:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str) or not token["content"]:
            raise ModelFileError(f"{name} describes an added token without its spelling: {reprlib.repr(token)}.")
        for flag in ("lstrip", "rstrip", "single_word"):
            if token.get(flag):
                spelling = reprlib.repr(token["content"])
                raise ModelFileError(
                    f"{name}: {spelling} swallows its surroundings ({flag}), which MiniInfer cannot do."
                )
        token_id = _id(token.get("id"), name)
        if token_id in added:
            raise ModelFileError(f"{name} adds two tokens with the id {token_id}.")
        added[token_id] = token
    return added


def _tokens(model: Mapping[str, Any], added: Mapping[int, Mapping[str, Any]], rows: int, name: str) -> tuple[str, ...]:
    """Spelling of each id, "" where there is none."""
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise ModelFileError(f"{name} has no vocabulary (model.vocab).")
    spellings: dict[int, str] = {}
    for token, value in vocabulary.items():
        token_id = _id(value, name)
        if spellings.setdefault(token_id, token) != token:
            raise ModelFileError(f"{name} gives two tokens the id {token_id}.")
    spellings |= {token_id: token["content"] for token_id, token in added.items()}
    if max(spellings) >= rows:  # also keeps a hostile id from filling the memory
        raise ModelFileError(f"{name} has a token with the id {max(spellings)}, but the embedding has {rows} rows.")
    return tuple(spellings.get(token_id, "") for token_id in range(max(spellings) + 1))


def _declared_ids(
    facts: FactReader,
    settings: Mapping[str, Any],
    kind: str,
    generation: Mapping[str, Any],
    tokens: tuple[str, ...],
) -> frozenset[int]:
    """All ids that any file of the folder declares as bos or eos: a number, a list of them, or a spelling."""
    declared: set[int] = set()
    for source, keys in (("config.json", facts.keys), ("generation_config.json", generation)):
        value = keys.get(f"{kind}_token_id")
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            token_id = _id(one, f"{facts.path.name}/{source}")
            declared.add(facts.read(f"{kind}_token_id", f"{source}: {kind}_token_id", token_id))
    spelling = settings.get(f"{kind}_token")
    spelling = spelling.get("content") if isinstance(spelling, dict) else spelling
    if isinstance(spelling, str) and spelling in tokens:
        declared.add(facts.read(f"{kind}_token_id", f"tokenizer_config.json: {kind}_token", tokens.index(spelling)))
    return frozenset(declared)


def _id(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ModelFileError(f"{name} holds {reprlib.repr(value)} where a token id is expected.")
    return value


def _part(content: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    value = content.get(key)
    if not isinstance(value, dict):
        raise ModelFileError(f"{name} has no {key}, without which no text can be cut into tokens.")
    return value


def _list(content: Mapping[str, Any], key: str, name: str) -> list[Any]:
    value = content.get(key)
    if not isinstance(value, list):
        raise ModelFileError(f"{name} has no list of {key}.")
    return value
