"""The guard in front of the app: foreign names, the pass phrase, its cookie, and how slow guessing is."""

import asyncio
from urllib.parse import urlencode

import pytest

from miniinfer.hosting import Hosting, guarded
from miniinfer.passphrase import make_verifier
from miniinfer.ui.hosting.attempts import (
    FIRST_SECONDS,
    FORGOTTEN_SECONDS,
    MOST_ADDRESSES,
    MOST_SECONDS,
    Attempts,
    whose,
)
from miniinfer.ui.hosting.browser_name import COOKIE as BROWSER
from miniinfer.ui.hosting.browser_name import is_browser_name
from miniinfer.ui.hosting.gate import COOKIE, FOREIGN, GOOD_FOR_SECONDS, Gate
from tests.ui import asynchronous

PHRASE = "grün & lang genug"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Visitor:
    """Sends requests through a gate to an app that says what reached it."""

    def __init__(self, hosting, allowed=("class.test", "localhost", "::1")):
        self.gate = Gate(self.app, hosting, allowed)
        self.clock = Clock()
        self.gate._attempts = Attempts(self.clock)
        self.reached = []
        self.cookie = ""

    async def app(self, scope, receive, send):
        self.reached.append(scope["path"])
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"the app"})

    def ask(self, path="/", *, method="GET", host="class.test:8501", body=b"", kind="http", query=b"", scheme="http",
            address="10.0.0.7", origin=""):
        """(status, headers, text); a websocket's status is 101 or 403."""
        sent = []
        scope = {
            "type": kind, "path": path, "method": method, "query_string": query, "scheme": scheme,
            "client": (address, 1234), "server": ("127.0.0.1", 8501),
            "headers": [(b"host", host.encode()), (b"cookie", self.cookie.encode())],
        }  # fmt: skip
        if origin:
            scope["headers"].append((b"origin", origin.encode()))

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        asynchronous.run(self.gate(scope, receive, send))
        if kind == "websocket":
            return (101 if sent[0]["type"] == "websocket.accept" else 403), {}, ""
        headers = {name.decode(): value.decode() for name, value in reversed(sent[0]["headers"])}
        self.cookies = [value.decode() for name, value in sent[0]["headers"] if name == b"set-cookie"]
        return sent[0]["status"], headers, b"".join(m.get("body", b"") for m in sent[1:]).decode()

    def enter(self, phrase, to="/", **options):
        body = urlencode({"phrase": phrase, "next": to}).encode()
        found = self.ask("/enter", method="POST", body=body, **options)
        if "set-cookie" in found[1]:
            self.cookie = found[1]["set-cookie"].partition(";")[0]
        return found


@pytest.fixture(scope="module")
def hosting():
    return guarded(make_verifier(PHRASE))


@pytest.fixture
def visitor(hosting):
    return Visitor(hosting)


@pytest.mark.parametrize("host", ["evil.test", "evil.test:8501", "class.test.evil.test", "", "[::2]:8501", "[", "a b"])
def test_a_foreign_name_gets_nothing_whether_guarded_or_not(hosting, host):
    for each in (hosting, Hosting()):
        visitor = Visitor(each)
        assert visitor.ask(host=host)[::2] == (403, FOREIGN)
        assert visitor.ask("/_stcore/stream", host=host, kind="websocket")[0] == 403
        assert visitor.reached == []


def test_ones_own_machine_is_asked_nothing():
    visitor = Visitor(Hosting(), ("127.0.0.1", "localhost", "::1"))
    for host in ("localhost:8501", "LOCALHOST.", "127.0.0.1", "[::1]:8501"):
        assert visitor.ask(host=host)[2] == "the app"
    assert visitor.ask("/_stcore/stream", kind="websocket", host="localhost")[0] == 101


PATHS = ["/", "/runs", "/_stcore/stream", "/_stcore/upload_file/1/2", "/media/x.csv", "/static/a"]


@pytest.mark.parametrize("path", PATHS)
def test_without_the_phrase_nothing_of_the_app_is_served(visitor, path):
    status, headers, text = visitor.ask(path)
    assert (status, "Pass phrase" in text, headers["cache-control"]) == (401, True, "no-store")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert visitor.ask(path, kind="websocket")[0] == 403
    assert visitor.reached == []


ORIGINS = {
    "http://class.test:8501": True, "https://class.test:8501": True, "http://class.test": False,
    "http://class.test:9000": False, "http://localhost:8501": False, "http://evil.test:8501": False, "null": False,
    "http://class.test:x": False, "//class.test:8501": True,
}  # fmt: skip


@pytest.mark.parametrize("origin", ORIGINS)
def test_only_pages_of_this_address_may_open_a_websocket_or_change_something(visitor, origin):
    """The cookie does not keep others out: browsers send it to all ports of a machine."""
    visitor.enter(PHRASE)
    for each in (visitor, Visitor(Hosting())):
        assert (each.ask("/_stcore/stream", kind="websocket", origin=origin)[0] == 101) is ORIGINS[origin]
        assert (each.ask("/_stcore/upload_file/1/2", method="PUT", origin=origin)[0] == 200) is ORIGINS[origin]
        assert each.ask("/", origin=origin)[0] == 200, "a link from elsewhere can be followed"
    through_a_proxy = visitor.ask("/_stcore/stream", kind="websocket", host="class.test", origin="https://class.test:8443")
    assert through_a_proxy[0] == 101, "one that passes the name on without the port"


def test_health_is_open(visitor):
    for path in ("/health", "/_stcore/health"):
        assert visitor.ask(path)[2] == "the app"
    assert visitor.ask("/health/more")[0] == 401


def test_the_right_phrase_opens_the_page_that_was_asked_for(visitor):
    _, _, page = visitor.ask("/sampling", query=b's=a&run="><script>')
    assert 'value="/sampling?s=a&amp;run=&quot;&gt;&lt;script&gt;"' in page
    status, headers, _ = visitor.enter(PHRASE, "/sampling?s=a&run=r1")
    assert (status, headers["location"]) == (303, "/sampling?s=a&run=r1")
    assert all(word in headers["set-cookie"] for word in ("HttpOnly", "SameSite=lax", "Path=/"))
    assert "Secure" not in headers["set-cookie"]
    assert visitor.ask("/sampling")[2] == "the app"
    assert visitor.ask("/_stcore/stream", kind="websocket")[0] == 101
    assert "Secure" in visitor.enter(PHRASE, scheme="https")[1]["set-cookie"], "behind a proxy that speaks TLS"


@pytest.mark.parametrize("to", ["//evil.test", "/\\evil.test", "https://evil.test", "javascript:1", "/a\r\nX: 1", ""])
def test_the_way_on_stays_in_this_app(visitor, to):
    assert visitor.enter(PHRASE, to)[1]["location"] == "/"


def test_a_cookie_cannot_be_made_up_or_kept_for_ever(visitor, monkeypatch):
    visitor.enter(PHRASE)
    good = visitor.cookie
    expires, _, sign = good.partition("=")[2].partition(".")
    for bad in ("", "x", ".", f"{expires}.", f"{int(expires) + 1}.{sign}", f"{expires}.{sign[:-1]}", f"{expires}.ä",
                "9" * 400 + "." + sign, f"-{expires}.{sign}"):
        visitor.cookie = f"{COOKIE}={bad}"
        assert visitor.ask()[0] == 401, bad
    visitor.cookie = good
    assert visitor.ask()[0] == 200
    assert Visitor(visitor.gate and guarded(make_verifier(PHRASE))).ask()[0] == 401
    monkeypatch.setattr("miniinfer.ui.hosting.gate.time.time", lambda: int(expires) + 1)
    assert visitor.ask()[0] == 401, f"after {GOOD_FOR_SECONDS} s"


def test_guessing_is_slow_for_that_address_and_for_no_other(visitor):
    assert "not the pass phrase" in visitor.enter("wrong wrong")[2]
    status, _, text = visitor.enter(PHRASE)
    assert (status, "wait 1 s" in text) == (429, True), "even the right one has to wait"
    assert visitor.enter(PHRASE, address="10.0.0.8")[0] == 303
    visitor.cookie = ""
    visitor.clock.now += FIRST_SECONDS
    assert visitor.enter("wrong again")[0] == 401
    visitor.clock.now += FIRST_SECONDS
    assert visitor.enter(PHRASE)[0] == 429, "twice as long now"
    visitor.clock.now += FIRST_SECONDS
    assert visitor.enter(PHRASE)[0] == 303
    assert visitor.enter("wrong wrong")[0] == 401
    visitor.clock.now += FIRST_SECONDS
    assert visitor.enter(PHRASE)[0] == 303, "the right one was given in between: as good as new"


def test_a_class_that_enters_at_once_from_one_address_is_let_in(visitor):
    async def everybody():
        body = urlencode({"phrase": PHRASE}).encode()
        answers = []

        async def one():
            async def receive():
                return {"type": "http.request", "body": body, "more_body": False}

            async def send(message):
                if message["type"] == "http.response.start":
                    answers.append(message["status"])

            await visitor.gate({
                "type": "http", "path": "/enter", "method": "POST", "query_string": b"", "scheme": "http",
                "client": ("10.0.0.7", 1), "server": ("127.0.0.1", 1), "headers": [(b"host", b"class.test")],
            }, receive, send)  # fmt: skip

        await asyncio.gather(*(one() for _ in range(8)))
        return answers

    assert asynchronous.run(everybody()) == [303] * 8


def test_hostile_forms_are_wrong_phrases(visitor):
    for body in (b"", b"phrase", b"\xff\xfe=1", b"phrase=" + b"a" * 9000, b"&" * 3000, b"phrase=%00%ff"):
        visitor.clock.now += 2 * MOST_SECONDS
        assert visitor.ask("/enter", method="POST", body=body)[0] in (401, 413), body[:20]
    assert visitor.reached == []


def test_addresses_are_forgotten_in_time_and_in_number():
    clock = Clock()
    attempts = Attempts(clock)
    waits = [attempts.failed("a") for _ in range(8)]
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    clock.now += FORGOTTEN_SECONDS + 1
    assert attempts.wait("a") == 0
    assert attempts.failed("a") == FIRST_SECONDS
    for number in range(MOST_ADDRESSES):
        attempts.failed(str(number))
    assert attempts.wait("a") == 0


def test_all_addresses_of_one_household_wait_together(visitor):
    assert visitor.enter("wrong wrong", address="2001:db8:1:2::1")[0] == 401
    assert visitor.enter(PHRASE, address="2001:db8:1:2:aaaa::7")[0] == 429, "any of 2**64 addresses"
    assert visitor.enter(PHRASE, address="2001:db8:1:3::1")[0] == 303
    assert visitor.enter("wrong wrong", address="::ffff:10.0.0.9")[0] == 401
    assert visitor.enter(PHRASE, address="10.0.0.9")[0] == 429
    assert (whose("::1"), whose("fe80::1%eth0")) == ("::1", "fe80::/64")


def test_what_a_proxy_passes_on_is_no_line_of_the_log(visitor, caplog):
    for address in ("1.2.3.4\nminiinfer.gate forged", "\x1b[31mred", "", "x" * 5000):
        visitor.clock.now += 2 * MOST_SECONDS
        visitor.enter("wrong wrong", address=address)
    assert {record.getMessage() for record in caplog.records} == {"pass phrase refused address=unknown"}


def test_a_browser_gets_its_name_with_the_phrase_and_keeps_it(visitor):
    visitor.enter(PHRASE)
    (made,) = (cookie for cookie in visitor.cookies if cookie.startswith(BROWSER))
    name = made.partition("=")[2].partition(";")[0]
    assert is_browser_name(name)
    assert all(word in made for word in ("SameSite=strict", "Path=/"))
    visitor.cookie = f"{BROWSER}={name}"
    visitor.enter(PHRASE)
    assert not any(cookie.startswith(BROWSER) for cookie in visitor.cookies)
