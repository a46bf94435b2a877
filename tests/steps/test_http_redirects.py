"""``core.http``: where redirects lead, and what goes along (the Fetch Standard, "HTTP-redirect fetch")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flo.engine.errors import StepFailed
from flo.engine.secrecy import Secret
from flo.steps.http_exchange import Header, Hop
from flo.steps.http_redirects import next_hop
from flo.steps.http_urls import read_url

from .http_server import NOBODY, Client, Reply, Server

SECRETS = ("authorization", "cookie", "proxy-authorization", "x-api-key", "x-own-secret")
HEADERS = {
    "Authorization": "Bearer 1", "Cookie": "a=1", "Proxy-Authorization": "Basic 1", "X-Own-Secret": Secret("s"),
    "X-Plain": "p",
}  # fmt: skip
CONNECTIONS = {"crm": {"headers": {"X-Api-Key": "key"}, "params": {"api": "p"}}}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        made.routes["/end"] = lambda asked: Reply()
        yield made


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    """On the same host, and another port."""
    with Server() as made:
        made.routes["/end"] = lambda asked: Reply()
        yield made


def to(location: str, status: int = 302) -> Reply:
    return Reply(status, [("Location", location)], b"ignored")


def ask(url: str, **input: Any) -> Any:
    return Client(connections=CONNECTIONS).ask(url, connection="crm", headers=HEADERS, **input)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_stay_on_the_same_origin(server: Server, status: int) -> None:
    ask(server.route("/", to("/end", status)))
    for asked in server.asked:
        assert {name for name in SECRETS if name in asked.headers} == set(SECRETS)
    assert [asked.target for asked in server.asked] == ["/?api=p", "/end"]


def test_credentials_stay_behind_when_the_port_changes_and_never_come_back(server: Server, elsewhere: Server) -> None:
    back = elsewhere.route("/back", to(server.url + "/end"))
    ask(server.route("/", to(back)))
    for asked in (elsewhere.asked[0], server.asked[1]):
        assert [name for name in SECRETS if name in asked.headers] == []
        assert asked.headers["x-plain"] == "p"
        assert asked.query == []
    assert elsewhere.asked[0].headers["host"] == f"127.0.0.1:{elsewhere.port}"


def test_a_host_that_the_step_set_is_for_the_first_origin(server: Server, elsewhere: Server) -> None:
    Client().ask(server.route("/", to("/there"), to("x")), headers={"Host": "a.example"}, followRedirects=False)
    server.route("/there", to(elsewhere.url + "/end"))
    Client().ask(server.route("/", to("/there")), headers={"Host": "a.example"})
    assert [asked.headers["host"] for asked in server.asked] == ["a.example"] * 3
    assert elsewhere.asked[0].headers["host"] == f"127.0.0.1:{elsewhere.port}"


@pytest.mark.parametrize(
    ("status", "method", "after"),
    [
        (301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (303, "PUT", "GET"), (303, "HEAD", "HEAD"),
        (301, "PUT", "PUT"), (302, "PATCH", "PATCH"), (307, "POST", "POST"), (308, "DELETE", "DELETE"),
    ],
)  # fmt: skip
def test_the_method_and_the_body_follow_the_standard(server: Server, status: int, method: str, after: str) -> None:
    url = server.route("/", to("/end", status))
    given = {} if method == "HEAD" else {"body": {"a": 1}, "headers": {"Content-Language": "de", "X-Plain": "p"}}
    Client().ask(url, method=method, **given)
    last = server.asked[1]
    assert last.method == after
    kept = bool(given) and after == method
    assert last.body == (b'{"a":1}' if kept else b"")
    assert ("content-type" in last.headers, "content-language" in last.headers) == (kept, kept)
    assert ("content-length" in last.headers) == kept
    assert ("x-plain" in last.headers) == bool(given)


def test_as_many_redirects_as_the_limit_are_followed_and_one_more_is_a_failure(server: Server) -> None:
    for number in range(11):
        server.route(f"/{number}", to(f"/{number + 1}" if number < 10 else "/end"))
    assert Client().ask(server.url + "/1")["status"] == 200
    server.asked.clear()
    failed = Client().fails(server.url + "/0")
    assert (failed.code, failed.retryable) == ("too_many_redirects", False)
    assert failed.message == f"GET {server.url}/10: redirected once more after 10 redirects (maxRedirects)"
    assert len(server.asked) == 11
    assert Client().fails(server.url + "/9", maxRedirects=0).code == "too_many_redirects"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("end?x=1#part", "/a/end?x=1"),
        ("/end", "/end"),
        ("../end", "/end"),
        ("?y=ü", "/a/b?y=%C3%BC"),
        ("#part", "/a/b"),
    ],
)
def test_a_location_is_relative_to_where_it_came_from(server: Server, location: str, target: str) -> None:
    server.routes["/a/end"] = server.routes["/end"]
    Client().ask(server.route("/a/b", to(location), Reply()))
    assert server.asked[1].target == target


@pytest.mark.parametrize(
    "reply", [Reply(302, [], b"here"), Reply(300, [("Location", "/end")], b"here"), Reply(304, [("Location", "/end")])]
)
def test_what_is_no_redirect_is_an_answer(server: Server, reply: Reply) -> None:
    assert Client().ask(server.route("/", reply))["status"] == reply.status
    assert len(server.asked) == 1


def test_a_redirect_that_is_not_followed_is_an_answer(server: Server) -> None:
    url = server.route("/", Reply(302, [("Location", "/end"), ("Content-Type", "text/plain")], b"there"))
    output = Client().ask(url, followRedirects=False)
    assert (output["status"], output["headers"]["location"], output["body"]) == (302, "/end", "there")


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("ftp://127.0.0.1/x?pass", '"ftp://127.0.0.1/x": the scheme "ftp" is not spoken; expected http or https'),
        ("file:///etc/passwd#pass", '"file:///etc/passwd": the scheme "file" is not spoken; expected http or https'),
        ("http://me:pass@127.0.0.1:1/", '"http://127.0.0.1:1/": it holds credentials'),
        ("http://127.0.0.1:99999/", '"http://127.0.0.1:99999/": there is no port 99999; expected 1 to 65535'),
        ("http://a b/", '"http://a b/": "a%20b" is no host; expected a name or an address'),
        ("http://h:x/?pass", '"http://h:x/": it cannot be read'),
    ],
)
def test_a_location_that_cannot_be_asked_is_a_failure(server: Server, location: str, words: str) -> None:
    failed = Client().fails(server.route("/", to(location)))
    assert (failed.code, failed.retryable) == ("invalid_url", False)
    assert failed.message == f"GET {server.url}/: redirected to {words}"


def test_where_a_path_is_secret_no_message_repeats_it_after_a_redirect(server: Server) -> None:
    url = Secret(server.route("/bot-1234", to(NOBODY + "/bot-1234"), to("ftp://h/bot-1234")))
    assert Client().fails(url).message == f"GET {NOBODY}/…: Connection refused"
    assert Client().fails(url).message.startswith(f"GET {server.url}/…: redirected to elsewhere: the scheme")


def test_the_way_from_https_to_http_is_refused_and_the_other_one_drops_credentials() -> None:
    headers = (Header("Authorization", "x", credential=True), Header("Accept", "*/*"))
    secure = Hop("GET", read_url("https://api.example/x"), headers)
    with pytest.raises(StepFailed, match=r"redirected from https to http://api.example/y: refused") as raised:
        next_hop(secure, 302, "http://api.example/y")
    assert raised.value.code == "insecure_redirect"
    plain = Hop("GET", read_url("http://api.example/x"), headers)
    assert next_hop(plain, 302, "https://api.example/x").headers == headers[1:]
    assert next_hop(secure, 302, "https://api.example:443/z").headers == headers
    assert next_hop(secure, 302, "//other.example/z").headers == headers[1:]
