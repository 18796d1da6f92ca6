"""The tensors of a Hugging Face folder: one *.safetensors file, or several with an index that says what lies where."""

from __future__ import annotations

import reprlib
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from miniinfer.engine.embedding import Embedding
from miniinfer.engine.packed import Blocks
from miniinfer.errors import ModelFileError
from miniinfer.models.json_file import read_json_object
from miniinfer.models.llama import HF_NAMES
from miniinfer.models.report import PhaseClock
from miniinfer.models.safetensors_header import Stored, read_header
from miniinfer.models.sniff import HEAD_BYTES, PICKLE_SUFFIXES, refuse_impostor
from miniinfer.strangers import open_file

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
READABLE_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
LISTED_NAMES = 5


class SafetensorsSource:
    """A TensorSource. Bytes are read, not mapped: a file that shrinks meanwhile must not kill us."""

    names = HF_NAMES
    permuted_qk = False

    def __init__(self, folder: Path, clock: PhaseClock) -> None:
        """Raises ModelFileError for a missing or damaged file, pickles, and number types that we cannot read."""
        self.path = folder
        self._clock = clock
        self._files = ExitStack()
        self._places: dict[str, tuple[BinaryIO, Stored]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, str] = {}
        try:
            for file_name, tensor_names in _files_of(folder).items():
                self._open(folder / file_name, tensor_names)
            self._refuse_types()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._places.clear()
        self._files.close()

    def read(self, name: str) -> Tensor:
        with self._clock.phase("read"):
            return self._stored(name).to(torch.float32)

    def blocks(self, name: str) -> Blocks | None:
        return None  # a folder's tensors are dense

    def stored_as(self, name: str) -> str:
        return self.types[name]

    def stored_bytes(self, name: str) -> int:
        return self._places[name][1].nbytes

    def embedding(self, name: str, dtype: torch.dtype) -> Embedding:
        with self._clock.phase("read"):
            matrix = self._stored(name)

        def lookup(ids: Tensor) -> Tensor:
            # By way of float32, as every other weight: a float16 row must not be rounded differently from the unembed.
            return matrix.index_select(0, ids).to(torch.float32).to(dtype)

        return Embedding(lookup, matrix.nbytes, self.types[name])

    def _open(self, path: Path, tensor_names: list[str] | None) -> None:
        """tensor_names: those that the index expects in this file, None for all that it holds."""
        label = f"{self.path.name}/{path.name}"
        try:
            file = self._files.enter_context(open_file(path))
            refuse_impostor(label, file.read(HEAD_BYTES))
            held = read_header(file)
        except FileNotFoundError:
            raise ModelFileError(f"{label} is missing, but the folder's index names it: fetch it again.") from None
        except OSError as error:
            raise ModelFileError(f"{label} cannot be read ({error.strerror or error}).") from error
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"{label} is damaged or cut short ({error}): fetch it again.") from error
        for name in held if tensor_names is None else tensor_names:
            if name not in held:
                raise ModelFileError(f"{label}: missing tensor {name}, which the folder's index expects there.")
            self._places[name] = file, held[name]
            self.shapes[name], self.types[name] = held[name].shape, held[name].dtype

    def _stored(self, name: str) -> Tensor:
        """The tensor as the file has it, in memory of its own."""
        file, stored = self._places[name]
        file.seek(stored.start)
        raw = np.fromfile(file, np.uint8, stored.nbytes)
        if raw.size != stored.nbytes:
            raise ModelFileError(f"{self.path.name} became shorter while it was read ({name}): try again.")
        return torch.from_numpy(raw).view(READABLE_TYPES[stored.dtype]).view(stored.shape)

    def _refuse_types(self) -> None:
        unreadable = [f"{name} ({kind})" for name, kind in self.types.items() if kind not in READABLE_TYPES]
        if unreadable:
            more = f" and {len(unreadable) - LISTED_NAMES} more" if len(unreadable) > LISTED_NAMES else ""
            raise ModelFileError(
                f"{self.path.name} holds tensors of types that MiniInfer cannot read: "
                f"{', '.join(unreadable[:LISTED_NAMES])}{more}; it reads {', '.join(READABLE_TYPES)}."
            )


def _files_of(folder: Path) -> dict[str, list[str] | None]:
    """File names, each with the tensors that the index expects in it."""
    if (folder / INDEX).exists():
        weight_map = read_json_object(folder / INDEX).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise ModelFileError(f"{folder.name}/{INDEX} has no weight_map.")
        files: dict[str, list[str] | None] = {}
        for tensor_name, file_name in weight_map.items():
            if not isinstance(file_name, str) or not _plain_name(file_name):
                raise ModelFileError(
                    f"{folder.name}/{INDEX} names {reprlib.repr(file_name)}, which is no file of the folder."
                )
            names = files.setdefault(file_name, [])
            assert names is not None
            names.append(tensor_name)
        return files
    found = sorted(path.name for path in folder.glob("*.safetensors"))
    if SINGLE in found:
        return {SINGLE: None}
    if len(found) == 1:
        return {found[0]: None}
    if found:
        raise ModelFileError(f"{folder.name} has {len(found)} *.safetensors files and no {INDEX}: fetch the index too.")
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLE_SUFFIXES)
    if pickles:
        raise ModelFileError(
            f"{folder.name} holds its weights as a pickle ({pickles[0]}), which can run code when it is opened: "
            "get the model as *.safetensors or GGUF."
        )
    raise ModelFileError(f"{folder.name} holds no *.safetensors file: give a GGUF file or a Hugging Face folder.")


def _plain_name(file_name: str) -> bool:
    return file_name.endswith(".safetensors") and not set(file_name) & set("/\\:") and not file_name.startswith(".")
