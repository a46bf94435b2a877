"""Filters that encode, decode and digest, and ``default``."""

from __future__ import annotations

import pytest

from flo.engine.language.filters import FILTERS
from flo.engine.values import Json


def use(name: str, value: Json, *arguments: Json, **named: Json) -> Json:
    return FILTERS[name].function(value, *arguments, **named)


@pytest.mark.parametrize(
    ("value", "is_replaced"),
    [
        (None, True),
        (False, True),
        ("", True),
        ([], True),
        ({}, True),
        (0, False),
        (0.0, False),
        (" ", False),
        ([None], False),
    ],
)
def test_default_stands_in_for_what_is_empty(value: Json, is_replaced: bool) -> None:
    assert use("default", value, "other") == ("other" if is_replaced else value)


def test_default_can_keep_false() -> None:
    assert use("default", False, "other", allow_false=True) is False
    assert use("default", None, "other", allow_false=True) == "other"
    assert use("default", False, "other", allow_false=False) == "other"
    assert use("default", None) == ""


def test_json_is_compact_and_unescaped_and_reads_back() -> None:
    value: Json = {"é": [1.0, None, 10**30, 'a"b\\</script>\u2028']}
    text = use("json", value)

    assert text == '{"é":[1.0,null,1000000000000000000000000000000,"a\\"b\\\\</script>\u2028"]}'
    assert repr(use("parse_json", text)) == repr(value)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "NaN", '{"a":1,"a":2}', "1e999", "[" * 500 + "]" * 500])
def test_parse_json_is_strict(text: str) -> None:
    with pytest.raises(ValueError, match="the text"):
        use("parse_json", text)


@pytest.mark.parametrize(
    ("encode", "decode"),
    [
        ("base64_encode", "base64_decode"),
        ("base64_url_safe_encode", "base64_url_safe_decode"),
        ("url_encode", "url_decode"),
    ],
)
@pytest.mark.parametrize("text", ["", "hello world", "a+b/c=d&e?", "añ🙂", "~-_.*"])
def test_what_is_encoded_decodes_to_itself(encode: str, decode: str, text: str) -> None:
    assert use(decode, use(encode, text)) == text


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("base64_encode", "_#/.", "XyMvLg=="),
        ("base64_decode", "aGVs\nbG8=\n", "hello"),
        ("base64_url_safe_encode", "<<???>>", "PDw_Pz8-Pg=="),
        ("base64_url_safe_decode", "aGk", "hi"),
        ("url_encode", "ü a/b~", "%C3%BC+a%2Fb~"),
        ("url_decode", "email+is+bob%40example.com", "email is bob@example.com"),
        ("md5", "", "d41d8cd98f00b204e9800998ecf8427e"),
        ("sha256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ],
)
def test_encodings_and_digests_are_the_standard_ones(name: str, value: Json, expected: str) -> None:
    assert use(name, value) == expected


def test_hmac_sha256_gives_the_published_value() -> None:
    expected = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"

    assert use("hmac_sha256", "The quick brown fox jumps over the lazy dog", "key") == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("base64_decode", "a", "no Base64"),
        ("base64_decode", "aGk*", "no Base64"),
        ("base64_decode", "////", "no UTF-8"),
        ("base64_url_safe_decode", 5, "no Base64"),
        ("url_decode", "%ff", "no UTF-8"),
    ],
)
def test_what_cannot_be_decoded_is_refused(name: str, value: Json, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use(name, value)
