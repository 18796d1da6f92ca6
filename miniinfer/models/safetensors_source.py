"""The tensors of a Hugging Face folder: one *.safetensors file, or several with an index that says what lies where."""

from __future__ import annotations

import reprlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from miniinfer.engine.embedding import Embedding
from miniinfer.engine.packed import Blocks
from miniinfer.errors import ModelFileError
from miniinfer.models.json_file import read_json_object
from miniinfer.models.llama import HF_NAMES
from miniinfer.models.report import PhaseClock
from miniinfer.models.sniff import HEAD_BYTES, PICKLE_SUFFIXES, refuse_impostor

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
READABLE_TYPES = ("F32", "F16", "BF16")
LISTED_NAMES = 5


class SafetensorsSource:
    """A TensorSource. Tensors are copied out, so nothing refers to the files once it is closed."""

    names = HF_NAMES
    permuted_qk = False

    def __init__(self, folder: Path, clock: PhaseClock) -> None:
        """Raises ModelFileError for a missing or damaged file, pickles, and number types that we cannot read."""
        self.path = folder
        self._clock = clock
        self._files = ExitStack()
        self._handles: dict[str, Any] = {}  # tensor name -> open file
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
        self._handles.clear()
        self._files.close()

    def read(self, name: str) -> Tensor:
        with self._clock.phase("read"):
            tensor: Tensor = self._handles[name].get_tensor(name).to(torch.float32, copy=True)
            return tensor

    def blocks(self, name: str) -> Blocks | None:
        return None  # a folder's tensors are dense

    def stored_as(self, name: str) -> str:
        return self.types[name]

    def embedding(self, name: str, dtype: torch.dtype) -> Embedding:
        with self._clock.phase("read"):
            matrix: Tensor = self._handles[name].get_tensor(name).clone()

        def lookup(ids: Tensor) -> Tensor:
            # By way of float32, as every other weight: a float16 row must not be rounded differently from the unembed.
            return matrix.index_select(0, ids).to(torch.float32).to(dtype)

        return Embedding(lookup, matrix.nbytes, self.types[name])

    def _open(self, path: Path, tensor_names: list[str] | None) -> None:
        """tensor_names: those that the index expects in this file, None for all that it holds."""
        label = f"{self.path.name}/{path.name}"
        try:
            with open(path, "rb") as file:
                refuse_impostor(label, file.read(HEAD_BYTES))
            handle = self._files.enter_context(safe_open(path, framework="pt", device="cpu"))
        except FileNotFoundError:
            raise ModelFileError(f"{label} is missing, but the folder's index names it: fetch it again.") from None
        except (OSError, SafetensorError) as error:
            raise ModelFileError(f"{label} is damaged or cut short ({error}): fetch it again.") from error
        held = set(handle.keys())
        for name in held if tensor_names is None else tensor_names:
            if name not in held:
                raise ModelFileError(f"{label}: missing tensor {name}, which the folder's index expects there.")
            part = handle.get_slice(name)
            self._handles[name] = handle
            self.shapes[name] = tuple(part.get_shape())
            self.types[name] = str(part.get_dtype())

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
