"""Chat templates that do harm: each is refused or stopped with a sentence, the next one runs, and nothing was done."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from miniinfer.errors import BadInputError
from miniinfer.models.chat import ChatTemplate
from miniinfer.models.template_sandbox import SANDBOX, TemplateSandbox, TemplateStoppedError

HI = [{"role": "user", "content": "Hi"}]
TEN = "0123456789"
ENDLESS = {
    "loops in loops that write nothing": "{% for a in range(99999) %}" * 2 + "{% endfor %}" * 2,
    "loops over text": f"{{% for a in '{TEN}' %}}" * 12 + "{% endfor %}" * 12,
    "a macro that calls itself twice": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "a power": "{{ messages[0].content and (7 ** (messages | length * 9 ** 9)) % 3 }}",
    "a power while it is read": "{{ 9 ** (9 ** 9) }}",
    "one call that never returns": "{{ 'a' * 99999 ~ ('a' * 9999).replace('a', 'b' * 9999).count('ab' * 999) }}"
    + "{% for a in range(99999) %}{{ ('a' * 99999).count('aab') * 0 }}{% endfor %}",
}
LARGE = {
    "a product": "{{ messages[0].content * 10 ** 10 }}",
    "a product while it is read": "{{ 'x' * 10 ** 10 }}",
    "a width": "{{ '%9999999999d' % 1 }}",
    "a format": "{{ '{:>9999999999}'.format(1) }}",
    "a filter": "{{ 'x' | center(9999999999) }}",
    "doubling": "{% set ns = namespace(t='x') %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
    "lists of lists": "{% set a = [1, 1] %}" + "{% set a = [a, a] %}" * 60 + "{{ a }}",
    "a long answer": "{% for a in range(99999) %}" + "x" * 400 + "{% endfor %}",
}
FORBIDDEN = {
    "attributes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "an include": "{% include '/etc/passwd' %}",
    "an import": "{% import 'os' as os %}{{ os.system('id') }}",
    "changing what it is given": "{{ messages.clear() }}",
    "a codec": "{{ 'a'.encode('punycode') }}",
    "deep": "{{ " + "(" * 5000 + ")" * 5000 + " }}",
    "deep blocks": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "deep lists": "{{ " + "[" * 90 + "]" * 90 + " }}{{ x.y.z }}",
    "half a character": "{{ '\\ud800' }}{{ nothing.at.all }}",
}


@pytest.fixture(autouse=True)
def short_patience() -> Iterator[None]:
    SANDBOX.seconds = 0.1
    yield
    SANDBOX.seconds = 2.0


def refusal(source: str) -> str:
    with pytest.raises(BadInputError) as caught:
        ChatTemplate(source).render(HI)
    assert ChatTemplate("{{ messages[0].content }}").text(HI) == "Hi", "the next one runs"
    return str(caught.value)


@pytest.mark.parametrize("name", ENDLESS)
def test_without_end(name: str) -> None:
    said = refusal(ENDLESS[name])
    assert "so it was stopped: use a raw prompt" in said


@pytest.mark.parametrize("name", LARGE)
def test_without_measure(name: str) -> None:
    said = refusal(LARGE[name])
    assert any(words in said for words in ("MemoryError", "stopped", "writes more than", "too"))
    assert "\n" not in said


@pytest.mark.parametrize("name", FORBIDDEN)
def test_beyond_its_place(name: str) -> None:
    said = refusal(FORBIDDEN[name])
    assert "chat template" in said
    assert len(said) < 2500


def test_what_is_private_is_nothing() -> None:
    source = "<{{ raise_exception.__globals__ }}{{ '{0.__class__}'.format(messages) }}{{ ''.__class__ }}>"
    assert ChatTemplate(source).text(HI) == "<>"


def test_what_got_out_of_the_sandbox_could_still_do_nothing(tmp_path: Path) -> None:
    """In the process itself, past Jinja: nothing is opened, started or connected to."""
    from miniinfer.models import template_process

    for event in ("open", "os.system", "os.exec", "subprocess.Popen", "socket.connect", "ctypes.dlopen", "import"):
        with pytest.raises(RuntimeError, match="no template may"):
            template_process._audit(event, (tmp_path,))
    for event in ("compile", "exec", "object.__getattr__"):
        template_process._audit(event, (tmp_path,))


def test_a_process_that_was_killed_is_started_again() -> None:
    sandbox = TemplateSandbox()
    assert sandbox.ask({"source": "a", "variables": {}}) == {"text": "a"}
    assert sandbox._process is not None
    first = sandbox._process
    os.kill(first.pid, 9)
    first.wait()
    assert sandbox.ask({"source": "b", "variables": {}}) == {"text": "b"}
    assert sandbox._process is not first
    sandbox.close()
    sandbox.close()
    assert sandbox.ask({"source": "c", "variables": {}}) == {"text": "c"}
    sandbox.close()


def test_many_at_once_get_each_their_own() -> None:
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        found[number] = ChatTemplate("{{ messages[0].content }}").text([{"role": "user", "content": str(number)}])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: str(number) for number in range(8)}


def test_a_machine_that_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = TemplateSandbox()
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(BadInputError, match="cannot be started"):
        sandbox.ask({"source": "a"})
    monkeypatch.setattr("sys.executable", "/bin/true")
    with pytest.raises(BadInputError, match="ended at once"):
        sandbox.ask({"source": "a"})


def test_half_characters_go_there_and_back() -> None:
    text = "\ud800 \u202e \x00 \u2028 é東🙂"
    assert ChatTemplate("{{ messages[0].content }}").text([{"role": "user", "content": text}]) == text
    assert issubclass(TemplateStoppedError, BadInputError)
