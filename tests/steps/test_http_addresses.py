"""``core.http``: which addresses are never reached. No connection here goes beyond loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flo.engine.errors import StepFailed
from flo.steps.http_addresses import Guard, guard_of

from .http_server import Client, Reply, Server, recording

NEVER = [
    "169.254.169.254", "169.254.0.1", "fe80::1", "::ffff:169.254.169.254", "::169.254.169.254",
    "::ffff:0:169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b:1::169.254.169.254", "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "0.0.0.0", "0.1.2.3", "::",
    "::ffff:0.0.0.0", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1",
]  # fmt: skip
PRIVATE = [
    "127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "fec0::1", "198.18.0.1",
    "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:a00:1::1",
]  # fmt: skip
PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e"]


@pytest.mark.parametrize("address", NEVER)
def test_link_local_addresses_and_their_like_are_refused_in_every_form(address: str) -> None:
    assert Guard().refusal(address)
    assert Guard(private=True).refusal(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_refused_by_option(address: str) -> None:
    assert Guard().refusal(address) is None
    assert Guard(private=True).refusal(address) in ("private", "loopback")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached(address: str) -> None:
    assert Guard(private=True).refusal(address) is None


@pytest.mark.parametrize("addresses", [["169.254.169.254"], ["::ffff:a9fe:a9fe"], ["93.184.215.14", "fe80::1%eth0"]])
def test_a_name_that_leads_to_a_refused_address_is_blocked_before_any_connection(addresses: list[str]) -> None:
    network, reached = recording({"inner.example": addresses}, Guard())
    failed = Client(network=network).fails("http://inner.example/latest?secret")
    assert (failed.code, failed.retryable) == ("blocked_address", False)
    assert failed.message == (
        f"GET http://inner.example/latest: {addresses[-1]}, the address of 'inner.example', is link-local: blocked"
    )
    assert reached == []


def test_a_name_that_leads_to_a_private_address_is_blocked_by_option() -> None:
    names = {"inner.example": ["10.1.2.3"]}
    network, reached = recording(names, Guard(private=True))
    assert Client(network=network).fails("https://inner.example/").code == "blocked_address"
    assert reached == []
    network, reached = recording(names, Guard())
    assert Client(network=network).fails("https://inner.example/").code == "connection_failed"
    assert reached == ["10.1.2.3"]


@pytest.mark.parametrize(
    "host",
    ["2852039166", "0xa9fea9fe", "0xA9.0xfe.43518", "0251.0376.0251.0376", "169.254.169.254.", "[::ffff:a9fe:a9fe]"],
)
def test_an_address_is_blocked_in_every_spelling(host: str) -> None:
    network, reached = recording({}, Guard())
    assert Client(network=network).fails(f"http://{host}/").code == "blocked_address"
    assert reached == []


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest", "//inner.example/x", "http://0251.0376.0251.0376/"]
)
def test_a_redirect_to_a_refused_address_is_blocked(server: Server, location: str) -> None:
    network, reached = recording({"inner.example": ["10.0.0.1", "::ffff:169.254.1.1"]}, Guard(), "127.0.0.1".__eq__)
    failed = Client(network=network).fails(server.route("/", Reply(302, [("Location", location)])))
    assert failed.code == "blocked_address"
    assert reached == ["127.0.0.1"]


def test_the_address_that_was_checked_is_the_one_connected_to(server: Server) -> None:
    """A name that means something else when it is looked up again is not looked up again."""
    server.route("/", Reply(200, [], b"x"))
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    network, reached = recording({}, Guard(), "127.0.0.1".__eq__)
    rebinding = type(network)(lambda host, port: answers.pop(0), network.connect, network.guard, network.tls)
    client = Client(network=rebinding)
    assert client.ask(f"http://moving.example:{server.port}/")["status"] == 200
    assert server.asked[0].headers["host"] == f"moving.example:{server.port}"
    assert client.fails(f"http://moving.example:{server.port}/").code == "blocked_address"
    assert reached == ["127.0.0.1"]


def test_the_next_address_is_tried_where_the_first_does_not_answer(server: Server) -> None:
    server.route("/", Reply())
    network, reached = recording({"two.example": ["10.0.0.1", "127.0.0.1"]}, Guard(), "127.0.0.1".__eq__)
    assert Client(network=network).ask(f"http://two.example:{server.port}/")["status"] == 200
    assert reached == ["10.0.0.1", "127.0.0.1"]


def test_the_environment_sets_the_guard() -> None:
    assert guard_of({}) == guard_of({"FLO_HTTP_GUARD": "link-local"}) == Guard()
    assert guard_of({"FLO_HTTP_GUARD": "private"}) == Guard(private=True)
    with pytest.raises(StepFailed, match=r"FLO_HTTP_GUARD is 'privat'.*did you mean 'private'"):
        guard_of({"FLO_HTTP_GUARD": "privat"})
