"""``core.http``: what of a step's input reaches the server, and in which form."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from email import message_from_bytes
from typing import Any

import pytest

from flo.engine.secrecy import Secret

from .http_server import NOBODY, Client, Reply, Server, echo


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        made.routes["/"] = lambda asked: Reply()
        made.on("/echo", echo)
        yield made


def test_headers_and_parameters_are_text_whatever_they_look_like(server: Server) -> None:
    headers = {"OTP": "123345", "X-Count": 1.0, "X-Big": 2**64, "X-On": True, "X-Umlaut": "ü", "X-Gone": None}
    params = {"v": "1.0", "n": 1.0, "b": False, "tag": ["a b", 2, None, "ü&="], "none": None, "empty": ""}
    Client().ask(server.url + "/?given=1", headers=headers, params=params)
    [asked] = server.asked
    assert asked.query == [
        ("given", "1"), ("v", "1.0"), ("n", "1.0"), ("b", "false"), ("tag", "a b"), ("tag", "2"), ("tag", "ü&="),
        ("empty", ""),
    ]  # fmt: skip
    assert {name: asked.headers[name] for name in ("otp", "x-count", "x-big", "x-on")} == {
        "otp": "123345", "x-count": "1.0", "x-big": str(2**64), "x-on": "true",
    }  # fmt: skip
    assert asked.headers["x-umlaut"].encode("latin-1").decode() == "ü"
    assert "x-gone" not in asked.headers
    assert asked.headers["accept"] == "*/*"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"id": 7615917337495251231, "big": 2**64}, '{"id":7615917337495251231,"big":18446744073709551616}'),
        ({"one": 1.0, "small": 1e-7}, '{"one":1.0,"small":1e-07}'),
        (["ü", "</script>", "\u2028", None], '["ü","</script>","\u2028",null]'),
        (12, "12"),
        (False, "false"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_written_as_exact_json(server: Server, value: Any, text: str) -> None:
    output = Client().ask(server.url + "/echo", method="post", body=value)
    assert server.asked[0].body.decode() == text
    assert server.asked[0].headers["content-type"] == "application/json"
    assert (output["body"], output["bodyEncoding"]) == (value, "json")


@pytest.mark.parametrize(
    ("given", "sent", "media"),
    [
        ({"body": "ü"}, "ü".encode(), "text/plain; charset=utf-8"),
        ({"body": "ü", "bodyType": "json"}, '"ü"'.encode(), "application/json"),
        ({"body": None, "bodyType": "json"}, b"null", "application/json"),
        ({"body": [1], "bodyType": "text"}, b"[1]", "text/plain; charset=utf-8"),
        ({"body": {"a": ["x y", 1.0], "b": None, "c": True}, "bodyType": "form"}, b"a=x+y&a=1.0&c=true",
         "application/x-www-form-urlencoded"),
        ({"body": "AP8=", "bodyType": "base64"}, b"\x00\xff", "application/octet-stream"),
        ({"body": "AP8=", "bodyEncoding": "base64", "headers": {"content-type": "a/b"}}, b"\x00\xff", "a/b"),
        ({"body": None}, b"", None),
        ({"body": None, "bodyEncoding": None, "headers": {"content-type": "a/b"}}, b"", "a/b"),
        ({"body": ["ü😀"], "headers": {"content-type": "application/json; charset=latin-1"}},
         rb'["\u00fc\ud83d\ude00"]', "application/json; charset=latin-1"),
    ],
)  # fmt: skip
def test_a_body_is_sent_as_its_type_says(server: Server, given: Any, sent: bytes, media: str | None) -> None:
    Client().ask(server.url, method="PUT", **given)
    [asked] = server.asked
    assert (asked.method, asked.body, asked.headers.get("content-type")) == ("PUT", sent, media)
    assert asked.headers["content-length"] == str(len(sent))


@pytest.mark.parametrize(
    ("body", "media"),
    [
        ("Käse;1,50 €".encode("cp1252"), "text/csv; charset=windows-1252"),
        ("Käse".encode("latin-1"), 'text/plain; charset="ISO-8859-1"'),
        ("Käse".encode("utf-16"), "text/plain; charset=utf-16"),
        ("Käse".encode("utf-16-be"), "application/xml; charset=UTF-16BE"),
        ("Käse".encode(), "text/html"),
        (b"\xff\x00", "text/plain; charset=klingon"),
        (b"", "application/json"),
        (b"", "text/plain; charset=utf-16"),
        (b"", "image/png"),
        (b"null", "application/json"),
    ],
)
def test_an_answer_that_is_passed_on_has_the_bytes_that_came(server: Server, body: bytes, media: str) -> None:
    came = Client().ask(server.route("/", Reply(200, [("Content-Type", media)], body)))
    given = {"body": came["body"], "bodyEncoding": came["bodyEncoding"]}
    Client().ask(
        server.url + "/echo", method="POST", headers={"Content-Type": came["headers"]["content-type"]}, **given
    )
    asked = server.asked[1]
    assert (asked.body, asked.headers["content-type"]) == (body, media)


def test_a_form_of_several_parts_holds_fields_and_files(server: Server) -> None:
    body = {
        "note": "ü",
        "tag": [1, 2],
        'pic"ture': {"body": "AP8=", "bodyEncoding": "base64", "fileName": "a\r\n.png", "contentType": "image/png"},
        "data": {"body": {"n": 1.0}},
        "csv": {"body": "ü", "bodyEncoding": "text", "contentType": "text/csv; charset=latin-1"},
        "none": {"body": None, "bodyEncoding": None, "contentType": "a/b"},
    }
    outcome = Client().outcome(
        server.url, method="POST", body=body, bodyType="multipart", headers={"Content-Type": "multipart/form-data"}
    )
    [asked] = server.asked
    message = message_from_bytes(f"Content-Type: {asked.headers['content-type']}\n\n".encode() + asked.body)
    parts = [(part["content-disposition"], part["content-type"], part.get_payload(decode=True)) for part in
             message.get_payload()]  # type: ignore[union-attr, misc]  # fmt: skip
    assert parts == [
        ('form-data; name="note"', None, "ü".encode()),
        ('form-data; name="tag"', None, b"1"),
        ('form-data; name="tag"', None, b"2"),
        ('form-data; name="pic%22ture"; filename="a%0D%0A.png"', "image/png", b"\x00\xff"),
        ('form-data; name="data"; filename="data"', "application/json", b'{"n":1.0}'),
        ('form-data; name="csv"; filename="csv"', "text/csv; charset=latin-1", "ü".encode("latin-1")),
        ('form-data; name="none"; filename="none"', "a/b", b""),
    ]
    assert outcome.warnings == ("the header 'Content-Type' follows from what is sent: the given one was left out",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"headers": {"X": "a\r\nEvil: 1"}}, "the header 'X' holds a line break"),
        ({"headers": {"X\r\nEvil": "1"}}, "is no name of a header"),
        ({"body": "AP8", "bodyType": "base64"}, "body is no base64: incorrect padding"),
        ({"body": [1], "bodyType": "base64"}, "body is a list; expected text in base64"),
        ({"body": [1], "bodyType": "form"}, "body is a list; expected an object for a form"),
        ({"body": {"a": {"b": 1}}, "bodyType": "form"}, "body.a holds an object"),
        ({"body": {"a": {"boddy": 1}}, "bodyType": "multipart"}, "no field 'boddy'; did you mean 'body'?"),
        ({"body": "x", "bodyType": "text", "bodyEncoding": "json"}, "bodyType is 'text' and bodyEncoding 'json'"),
        ({"method": "CONNECT"}, "the method 'CONNECT' is for proxies"),
        ({"method": "GET\n"}, '"GET\\n" is no method; expected letters and hyphens'),
        (
            {"body": "a😀", "headers": {"Content-Type": "text/csv; charset=latin-1"}},
            'body holds U+1F600, which its Content-Type "text/csv; charset=latin-1" has no bytes for',
        ),
        ({"body": "a", "headers": {"Content-Type": "text/csv; charset=rot13"}}, 'the charset "rot13" of the'),
        ({"body": {"a": [1, float("nan")]}}, "body.a[1]: nan cannot be stored as JSON"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(server: Server, given: Any, words: str) -> None:
    failed = Client().fails(server.url, **{"method": "POST", **given})
    assert words in failed.message
    assert not failed.retryable
    assert server.asked == []


def test_headers_about_the_connection_follow_from_it(server: Server) -> None:
    headers = {"Content-Length": 99, "transfer-encoding": "chunked", "Host": "other.example", "Authorization": " a\n"}
    outcome = Client().outcome(server.url, method="POST", body="x", headers=headers)
    [asked] = server.asked
    assert (asked.headers["content-length"], asked.headers["host"], asked.headers["authorization"]) == (
        "1", "other.example", "a",
    )  # fmt: skip
    assert "transfer-encoding" not in asked.headers
    assert [warning.split("'")[1] for warning in outcome.warnings] == ["Content-Length", "transfer-encoding"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("/orders", 'the url "/orders" is not absolute; expected http://… or https://…'),
        ("localhost:8080/x", "is not absolute"),
        ("ftp://h/x", 'the scheme "ftp" is not spoken; expected http or https'),
        ("https://me:pass@h/x?q=1", "the url holds credentials"),
        ("http://me:pass@h:x/", "cannot be read"),
        ("http://h:99999/?key=pass", "there is no port 99999"),
        ("http://a b/", "is no host"),
        ("http://a\\b/", "is no host"),
        ("http://%31.1/", "is no host"),
        ("http://1.2.3.4.5/", "is no host"),
        ("http://0400.1.1.1/", "cannot be read"),
        ("http://[fe80::1%25eth0]/", "is no host"),
        ("http://h/\ud800?pass", "cannot be read"),
        ("http:///x", "is no host"),
    ],
)
def test_a_url_that_cannot_be_asked_is_an_error_without_what_it_hides(url: str, words: str) -> None:
    failed = Client().fails(url)
    assert (failed.code, failed.retryable) == ("invalid_url", False)
    assert words in failed.message
    assert "pass" not in failed.message


@pytest.mark.parametrize("address", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1."])
def test_an_address_is_understood_in_every_spelling(server: Server, address: str) -> None:
    Client().ask(f"http://{address}:{server.port}/")
    assert server.asked[0].headers["host"] == f"127.0.0.1:{server.port}"


CONNECTION: dict[str, Any] = {
    "headers": {"X-Api-Key": Secret("key-1"), "X-Tenant": "t1"},
    "params": {"api": Secret("p-1"), "v": 2},
    "auth": {"type": "bearer", "token": Secret("token-1")},
}


def test_a_connection_brings_base_headers_parameters_and_authorization(server: Server) -> None:
    server.on("/v2/orders/5", lambda asked: Reply())
    client = Client(connections={"crm": {"baseUrl": Secret(server.url + "/v2/"), **CONNECTION}})
    client.ask("/orders/5?own=1", connection="crm", params={"v": 3}, headers={"x-tenant": "mine"})
    [asked] = server.asked
    assert asked.query == [("own", "1"), ("api", "p-1"), ("v", "3")]
    assert (asked.headers["authorization"], asked.headers["x-api-key"], asked.headers["x-tenant"]) == (
        "Bearer token-1", "key-1", "mine",
    )  # fmt: skip
    client.ask(server.url + "/v2/orders/5", connection="crm", headers={"Authorization": "Own 1"})
    assert server.asked[1].headers["authorization"] == "Own 1"


@pytest.mark.parametrize(
    ("base", "url", "target"),
    [
        ("", "orders", "/orders"),
        ("/v2", "orders", "/v2/orders"),
        ("/v2/", "/orders", "/v2/orders"),
        ("/v2", "", "/v2"),
        ("/v2/", "?a=1", "/v2/?a=1"),
        ("/v2?key=k", "users:list?a=1", "/v2/users:list?a=1&key=k"),
        ("/v2", "@evil.example/", "/v2/@evil.example/"),
    ],
)
def test_a_url_lies_under_the_base_of_its_connection(server: Server, base: str, url: str, target: str) -> None:
    client = Client(connections={"crm": {"baseUrl": server.url + base}})
    client.outcome(url, connection="crm")
    assert server.asked[0].target == target


def test_a_connection_with_basic_authentication(server: Server) -> None:
    auth = {"type": "basic", "username": "müller", "password": "a:b"}
    Client(connections={"crm": {"auth": auth}}).ask(server.url, connection="crm")
    given = server.asked[0].headers["authorization"].removeprefix("Basic ")
    assert base64.b64decode(given).decode() == "müller:a:b"


@pytest.mark.parametrize("url", [NOBODY, "https://127.0.0.1:{port}/", "//127.0.0.1:1/x"])
def test_credentials_of_a_connection_go_to_its_own_origin_alone(server: Server, url: str) -> None:
    client = Client(connections={"crm": {"baseUrl": server.url, **CONNECTION}})
    failed = client.fails(url.format(port=server.port), connection="crm")
    assert failed.code == "invalid_url"
    assert "the connection 'crm' is for http://" in failed.message or "two slashes" in failed.message
    assert server.asked == []


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"baseURL": "http://h"}, "no field 'baseURL'; did you mean 'baseUrl'?"),
        ({"baseUrl": "h.example"}, "its 'baseUrl': the url"),
        ({"baseUrl": Secret("https://u:secret@h")}, "its 'baseUrl': the url *** cannot be read"),
        ({"headers": ["a"]}, "its 'headers' is a list; expected an object"),
        ({"auth": {"type": "baerer", "token": "x"}}, "expected 'bearer' or 'basic'; did you mean 'bearer'?"),
        ({"auth": {"type": "bearer", "tokn": "x"}}, "no field 'auth.tokn'; did you mean 'token'?"),
        ({"auth": {"type": "bearer"}}, "its 'auth.token' is missing; expected text"),
        ({"auth": {"type": "basic", "username": "u", "password": 5}}, "its 'auth.password' is a number"),
        ({"auth": {"type": "bearer", "token": "x"}, "headers": {"authorization": "y"}}, "it has both 'auth' and"),
        ({"params": {"a": {"b": 1}}}, "its params.a holds an object; expected text, numbers or booleans"),
        ({"headers": {"X-A": [1]}}, "its headers: the header 'X-A' is a list; expected text, a number or a boolean"),
        ({"auth": {"type": "bearer", "token": "se\ncret"}}, "the header 'Authorization' holds a line break"),
    ],
)
def test_a_connection_that_is_wrong_is_named_with_the_nearest_field(held: Any, words: str) -> None:
    failed = Client(connections={"crm": held}).fails("/x", connection="crm")
    assert (failed.code, failed.retryable) == ("invalid_connection", False)
    assert "the connection 'crm'" in failed.message
    assert words in failed.message
    assert "secret" not in failed.message


@pytest.mark.parametrize(
    ("base", "url", "shown"),
    [
        (Secret(NOBODY + "/bot-123/"), "send?text=secret", "/…/send"),
        (Secret(NOBODY), "send?text=secret", "/send"),
        (NOBODY + "/v2", Secret("a/secret", "a/***"), "/v2/a/***"),
        (None, Secret(NOBODY + "/hooks/secret"), "/…"),
        (None, Secret(NOBODY + "/hooks/secret/x", NOBODY + "/hooks/***/x"), "/hooks/***/x"),
    ],
)
def test_a_failure_names_method_and_url_without_query_and_secrets(base: Any, url: str, shown: str) -> None:
    client = Client(connections={"crm": {} if base is None else {"baseUrl": base}})
    failed = client.fails(url, connection="crm", params={"key": "secret"})
    assert failed.message == f"GET {NOBODY}{shown}: Connection refused"
