"""The requests of a JSON Lines file, read and written: one object a line, every mistake named by its line. No model is
needed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from miniinfer.config import SamplingParams
from miniinfer.errors import BadInputError
from miniinfer.strangers import parse_json, read_stream
from miniinfer.trace.batch.settings import BatchRequest

SAMPLING = {field.name for field in dataclasses.fields(SamplingParams)}
LISTS = {"stop", "stop_ids", "order"}
MOST_BYTES = 64 << 20  # of a file
FIELDS = ("id", "prompt", "chat", "arrival", *sorted(SAMPLING))


class FileRequests(NamedTuple):
    """ids: each request's id as the file spells it, which may be a whole number."""

    requests: tuple[BatchRequest, ...]
    ids: dict[str, str | int]


def read_requests(path: str) -> FileRequests:
    """All requests, in the order of the file; empty lines are passed over. Raises BadInputError."""
    try:
        with open(path, "rb") as file:  # a pipe is welcome: `batch <(a program that writes requests)`
            data = read_stream(file, MOST_BYTES)
    except OSError as error:
        raise BadInputError(f"The file {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # also a name that no file can have
        raise BadInputError(f"The file {path} cannot be read: {error}.") from error
    return parse_requests(data, path)


def requests_to_lines(requests: Iterable[BatchRequest]) -> bytes:
    """What `parse_requests` reads as the same requests; settings that are the usual ones are left out."""
    lines = []
    for request in requests:
        usual = vars(SamplingParams())
        line: dict[str, Any] = {"id": request.request_id, "prompt": request.prompt}
        line |= {"chat": True} if request.chat else {}
        line |= {"arrival": request.arrival} if request.arrival else {}
        line |= {name: value for name, value in vars(request.params).items() if value != usual[name]}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines).encode()


def parse_requests(data: bytes, path: str) -> FileRequests:
    """The same of a file's bytes. path: what mistakes call it."""
    lines = data.splitlines()
    requests: list[BatchRequest] = []
    places: dict[str, int] = {}
    ids: dict[str, str | int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = _object(line)
            request = _request(fields)
        except BadInputError as error:
            raise BadInputError(f"{path}, line {number}: {error}") from error
        if request.request_id in places:
            raise BadInputError(
                f"{path}, line {number}: the id {request.request_id!r} stands in line {places[request.request_id]} "
                "already: give each request its own."
            )
        places[request.request_id] = number
        ids[request.request_id] = fields["id"]
        requests.append(request)
    if not requests:
        raise BadInputError(f"{path} has no requests: write one JSON object a line, with id and prompt.")
    return FileRequests(tuple(requests), ids)


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError too
        raise BadInputError(f"this is no JSON ({error}): write one object a line.") from error
    if not isinstance(value, dict):
        raise BadInputError("a request is a JSON object with id and prompt.")
    return value


def _request(fields: dict[str, Any]) -> BatchRequest:
    for name in fields:
        if name not in FIELDS:
            raise BadInputError(f"there is no field {name!r}; the fields are {', '.join(FIELDS)}.")
    for name in ("id", "prompt"):
        if name not in fields:
            raise BadInputError(f"the request has no {name}.")
    request_id, prompt = fields["id"], fields["prompt"]
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        raise BadInputError(f"id must be text or a whole number, not {request_id!r}.")
    if not isinstance(prompt, str):
        raise BadInputError(f"prompt must be text, not {prompt!r}.")
    chat = fields.get("chat", False)
    if not isinstance(chat, bool):
        raise BadInputError(f"chat must be true or false, not {chat!r}.")
    for name in LISTS & set(fields):
        if not isinstance(fields[name], list):
            raise BadInputError(f"{name} must be a list, not {fields[name]!r}.")
    texts = [prompt, str(request_id), *(text for text in fields.get("stop", ()) if isinstance(text, str))]
    if not all(map(_encodable, texts)):
        raise BadInputError("half of a surrogate pair is no text.")
    sampling: dict[str, Any] = {name: value for name, value in fields.items() if name in SAMPLING}
    params = SamplingParams(**sampling)
    return BatchRequest(str(request_id), prompt, params, fields.get("arrival", 0), chat)


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
