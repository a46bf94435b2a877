"""What ``core.http`` takes and gives, as JSON Schemas, with its defaults."""

from __future__ import annotations

from typing import Final

from flo.engine.values import JsonObject

TIMEOUT: Final = 30_000
"""Milliseconds that one try may take."""

MAX_REDIRECTS: Final = 10

MAX_RESPONSE: Final = 16 * 1024 * 1024
"""Bytes of a body, decoded."""

_SCALAR: Final = ["string", "number", "boolean", "null"]

INPUT: Final[JsonObject] = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["url"]}, {"required": ["connection"]}],
    "properties": {
        "url": {
            "type": "string",
            "description": "Where to send it: `http://…` or `https://…`. With a connection that has a `baseUrl`, what "
            "comes after that.",
        },
        "method": {
            "type": "string",
            "pattern": r"^[A-Za-z][A-Za-z-]*$(?!\n)",  # Python's "$" matches before a last line break, too
            "default": "GET",
            "examples": ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"],
            "description": "The method, in any case.",
        },
        "connection": {
            "type": "string",
            "minLength": 1,
            "description": "The name of a connection, which brings `baseUrl`, `headers`, `params` and `auth`.",
        },
        "params": {
            "type": "object",
            "additionalProperties": {"type": [*_SCALAR, "array"], "items": {"type": _SCALAR}},
            "description": "Added to the query. A list repeats its key, null leaves it out.",
        },
        "headers": {
            "type": "object",
            "additionalProperties": {"type": _SCALAR},
            "description": "Headers of the request. Null leaves one out.",
        },
        "body": {"description": "What to send, as `bodyType` says."},
        "bodyType": {
            "type": "string",
            "enum": ["json", "text", "form", "multipart", "base64"],
            "description": "How the body is written. Without it: text as text, anything else as JSON.",
        },
        "bodyEncoding": {
            "type": ["string", "null"],
            "enum": ["json", "text", "base64", None],
            "description": "The same as `bodyType`, in the words of an earlier answer.",
        },
        "timeoutMilliseconds": {
            "type": "integer",
            "minimum": 1,
            "default": TIMEOUT,
            "description": "One try may take so long, from looking up the name to the last byte of the body, redirects "
            "included.",
        },
        "followRedirects": {"type": "boolean", "default": True, "description": "Whether redirects are followed."},
        "maxRedirects": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100,
            "default": MAX_REDIRECTS,
            "description": "So many redirects are followed; one more is a failure.",
        },
        "retryAttempts": {
            "type": "integer",
            "minimum": 0,
            "maximum": 20,
            "default": 0,
            "description": "So many more tries after network errors and the statuses 408, 429, 502, 503, 504.",
        },
        "maxResponseBytes": {
            "type": "integer",
            "minimum": 1,
            "maximum": 64 * 1024 * 1024,
            "default": MAX_RESPONSE,
            "description": "A body may have so many bytes, decompressed.",
        },
    },
}

OUTPUT: Final[JsonObject] = {
    "type": "object",
    "required": ["status", "headers", "body", "bodyEncoding"],
    "additionalProperties": False,
    "properties": {
        "status": {"type": "integer", "minimum": 100, "maximum": 999, "description": "The status code."},
        "headers": {
            "type": "object",
            "additionalProperties": {"type": ["string", "array"], "items": {"type": "string"}},
            "description": "By name in lower case. One that came several times is joined with `, `; `set-cookie` is a "
            "list.",
        },
        "body": {"description": "The body; null if there is none."},
        "bodyEncoding": {
            "enum": ["json", "text", "base64", None],
            "description": "What `body` is: a JSON value, text, or bytes as base64; null if there is none.",
        },
        "json_error": {"type": "string", "description": "Why a body that calls itself JSON was not read as JSON."},
    },
}
