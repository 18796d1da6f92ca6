"""The text side of a model: its tokenizer and chat template, which need neither weights nor torch."""

from __future__ import annotations

from pathlib import Path

from miniinfer.config import ModelConfig
from miniinfer.errors import BadInputError, ModelFileError
from miniinfer.models import gguf_facts, hf_facts, hf_tokenizer
from miniinfer.models.chat import ChatTemplate
from miniinfer.models.gguf import GGUFHeader, read_header
from miniinfer.models.json_file import read_json_object, read_optional_json_object
from miniinfer.models.registry import Progress, existing_path, resolve
from miniinfer.models.report import FactReader
from miniinfer.models.sniff import PICKLE_SUFFIXES
from miniinfer.models.tokenizer import Tokenizer
from miniinfer.models.vocabulary import Vocabulary, check_vocabulary

MOST_TEMPLATE = 1 << 20  # characters; the longest in use have a hundredth of that
MOST_TOKENS = 1 << 20  # of a tokenizer.json without a model; the largest vocabularies have a quarter of that


def load_tokenizer(
    model: str | Path | None = None, progress: Progress | None = None
) -> tuple[Tokenizer, ChatTemplate | None]:
    """The same two as in load_model's result, in a fraction of its time (0.4 s). Raises the same errors."""
    _, tokenizer, template = _load(locate(model, progress))
    return tokenizer, template


def load_text(path: Path) -> tuple[ModelConfig, Tokenizer]:
    """The config too, of a file or folder that is there."""
    config, tokenizer, _ = _load(locate(path, None))
    return config, tokenizer


def _load(path: Path) -> tuple[ModelConfig, Tokenizer, ChatTemplate | None]:
    if path.is_dir():
        facts = FactReader(path, read_json_object(path / "config.json"))
        config = hf_facts.read_config(facts, ())
        return config, *folder_text(path, facts, config.vocab_size)
    header = open_header(path)
    facts = FactReader(path, header.metadata)
    config = gguf_facts.read_config(header, facts)
    return config, *gguf_text(header, facts, config.vocab_size)


def load_tokenizer_file(path: str | Path) -> tuple[Tokenizer, ChatTemplate | None]:
    """load_tokenizer, and also from a tokenizer.json alone, which knows no model: ids run to its last token then."""
    file = existing_path(path)
    if file is None or file.suffix != ".json" or not file.is_file():
        return load_tokenizer(path)
    facts = FactReader(file, {})
    vocabulary = hf_tokenizer.read_vocabulary_file(file, facts, {}, MOST_TOKENS)
    return _text(vocabulary, hf_tokenizer.read_chat_template(file.parent), facts, len(vocabulary.tokens))


def locate(model: str | Path | None, progress: Progress | None) -> Path:
    """The GGUF file or folder that is meant (see registry.resolve); refuses files that hold only a part of a model."""
    path = resolve(model, progress)
    if path.is_dir():
        _refuse_folder_of_gguf(path)
        return path
    if not path.is_file():  # reading a pipe would wait for ever
        raise BadInputError(f"{path} is no file that can be read: give a GGUF file or a Hugging Face folder.")
    if path.suffix in PICKLE_SUFFIXES:
        raise ModelFileError(f"{path.name} is a pickle, which can run code when it is opened: use GGUF or safetensors.")
    if path.suffix == ".safetensors":
        raise BadInputError(f"{path.name} holds weights only: give the folder that also has config.json in it.")
    return path


def _refuse_folder_of_gguf(folder: Path) -> None:
    """A folder without config.json, but with GGUF files: one of them was meant."""
    try:
        found = [] if (folder / "config.json").exists() else sorted(p.name for p in folder.glob("*.gguf"))
    except OSError:
        return  # reading it says why not
    if found:
        raise BadInputError(f"{folder.name} is a folder with GGUF files in it: give the file, {found[0]}.")


def open_header(path: Path) -> GGUFHeader:
    """read_header, with a file that cannot be opened as a ModelFileError too."""
    try:
        return read_header(path)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error.strerror or error}).") from error


def gguf_text(header: GGUFHeader, facts: FactReader, rows: int) -> tuple[Tokenizer, ChatTemplate | None]:
    """rows: of the embedding."""
    template = header.metadata.get("tokenizer.chat_template")
    return _text(gguf_facts.read_vocabulary(facts), template if isinstance(template, str) else None, facts, rows)


def folder_text(folder: Path, facts: FactReader, rows: int) -> tuple[Tokenizer, ChatTemplate | None]:
    """facts: those of config.json; rows: of the embedding."""
    generation = read_optional_json_object(folder / "generation_config.json")
    vocabulary = hf_tokenizer.read_vocabulary(folder, facts, generation, rows)
    return _text(vocabulary, hf_tokenizer.read_chat_template(folder), facts, rows)


def _text(
    vocabulary: Vocabulary, template: str | None, facts: FactReader, rows: int
) -> tuple[Tokenizer, ChatTemplate | None]:
    check_vocabulary(vocabulary, facts.path.name, rows)
    tokenizer = Tokenizer(vocabulary, rows, facts.path.name)
    spelled = ", ".join(f"{token_id} {tokenizer.display(token_id)}" for token_id in sorted(vocabulary.stop_ids))
    facts.derive("stop_ids", spelled or "none", "all declared end ids, and control tokens spelled like an end")
    return tokenizer, _chat_template(template, tokenizer, facts)


def _chat_template(source: str | None, tokenizer: Tokenizer, facts: FactReader) -> ChatTemplate | None:
    """None, with a note, if there is none or it cannot be parsed: the model still takes raw prompts."""
    if source is None:
        facts.notes.append("The model has no chat template, so it takes raw prompts only.")
        return None
    if len(source) > MOST_TEMPLATE:
        facts.notes.append(
            f"The model's chat template has {len(source):,} characters, which none needs, so it is not used: the model "
            "takes raw prompts only."
        )
        return None
    vocabulary = tokenizer.vocabulary
    bos, eos = vocabulary.bos_id, min(vocabulary.declared_stop_ids, default=None)
    try:
        return ChatTemplate(
            source,
            control_tokens=tokenizer.control_spellings,
            bos_token="" if bos is None else tokenizer.decode([bos]),
            eos_token="" if eos is None else tokenizer.decode([eos]),
        )
    except BadInputError as error:
        facts.notes.append(str(error))
        return None
