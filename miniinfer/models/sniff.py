"""Naming a file that is not the model file it was taken for, so that the message states the real cause."""

from __future__ import annotations

from miniinfer.errors import ModelFileError

HEAD_BYTES = 64
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def refuse_impostor(name: str, head: bytes) -> None:
    """Raises ModelFileError if `head` (the first HEAD_BYTES bytes of a file) shows a kind of file that is no model."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not head:
        reason = "is empty: the download or copy did not happen, so fetch it again"
    elif text.startswith((b"<!doctype", b"<html", b"<?xml")):
        reason = "is a web page, not a model: the download link led to a page, so fetch the file itself"
    elif text.startswith(b"version https://git-lfs"):
        reason = "is a git-lfs pointer, not the model: run `git lfs pull` in its repository to get the file itself"
    elif head.startswith(b"PK\x03\x04") or (head.startswith(b"\x80") and head[1:2] in b"\x02\x03\x04\x05"):
        reason = "is a pickle or zip archive, which can run code when it is opened: use a GGUF or safetensors file"
    elif head.startswith((b"ggml", b"ggjt", b"ggla", b"lmgg", b"tjgg", b"algg", b"fmgg")):
        reason = "has a format older than GGUF: convert it with a current llama.cpp or get a GGUF file"
    else:
        return
    raise ModelFileError(f"{name} {reason}.")
