"""The page of a recording: nothing is fetched, nothing in its data can end a script, its size is what it says."""

import base64
import gzip
import hashlib
import json
import re
import struct

import pytest

from miniinfer.errors import BadInputError
from miniinfer.figures.offline_page import offline_page
from miniinfer.figures.payload import unpack
from miniinfer.trace.files.recording import recorded_copy
from tests.trace.files.recorded import make_run

HOSTILE = "</script><script>alert(1)</script><!--" + "@" * 40


def parts(page):
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', page)[1])
    packed = gzip.decompress(base64.b64decode(re.search(r'id="messages">(.*?)</script>', page)[1]))
    messages = []
    while packed:
        (size,) = struct.unpack_from("<I", packed)
        messages.append(unpack(packed[4 : 4 + size]))
        packed = packed[4 + size :]
    return facts, messages


def test_the_page_holds_every_step_row_and_distribution_and_says_its_size():
    run = make_run(prompt=4, decoded=3)
    page = offline_page(run, 2)
    facts, messages = parts(page)
    assert facts["bytes"] == len(page.encode())
    header, blobs = messages[0]
    assert sorted(map(int, header["details"])) == [1, 2, 3, 4]
    assert {f"rows:{step}" for step in (1, 2, 3, 4)} <= set(blobs)
    assert [m[0]["row"]["pos"] for m in messages[1:]] == [0, 1, 2], "the prompt's other positions"


def test_what_the_policy_names_is_what_is_there_and_nothing_else_may_run_or_be_fetched():
    page = offline_page(make_run(), 1)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    for kind, pattern in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        found = re.findall(pattern, page, re.DOTALL)
        assert len(found) == 1
        digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["data:,"]


def test_hostile_names_and_prompts_end_no_script_and_hold_no_place():
    run = make_run(texts=[HOSTILE, "b", "c"])
    object.__setattr__(run.info, "name", HOSTILE)
    object.__setattr__(run.info, "prompt", HOSTILE)
    page = offline_page(run, 1)
    assert page.count("<script") == 3
    assert page.count("</script") == 3
    facts, messages = parts(page)
    assert facts["name"] == facts["prompt"] == HOSTILE
    assert facts["bytes"] == len(page.encode())
    assert messages[0][0]["run"]["name"] == HOSTILE


def test_a_long_run_has_what_its_recording_has():
    run = make_run(prompt=40, decoded=4)
    small = recorded_copy(run, row_bytes=2000)
    facts, messages = parts(offline_page(small, 1))
    assert not facts["complete"]
    assert messages[0][0]["head"]["to"] == 44
    assert messages[0][0]["details"]["1"]["no_rows"]


def test_a_run_without_steps_is_refused():
    run = make_run()
    run.steps.clear()
    with pytest.raises(BadInputError, match="no step yet"):
        offline_page(run, 0)
