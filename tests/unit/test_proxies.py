import pytest

from skipmq.config.settings import Settings
from skipmq.server.proxies import Forwarded, Proxies

PROXY = "10.0.0.5"


def forwarded(
    peer: str = PROXY, networks: str = "10.0.0.0/24 2001:db8::/32", **sent: str
) -> Forwarded:
    headers = {f"x-forwarded-{name}": value for name, value in sent.items()}
    return Proxies(Settings(trusted_proxies=networks).proxies).forwarded(
        peer, "http", "node:9324", lambda name: headers.get(name, "")
    )


def test_believed_proxy_says_whence_a_request_came() -> None:
    found = forwarded(**{"for": "192.0.2.7", "proto": "https", "host": "sqs.example.com"})

    assert found == Forwarded("192.0.2.7", "https", "sqs.example.com")
    assert forwarded() == Forwarded(PROXY, "http", "node:9324")


def test_addresses_of_ipv4_on_a_socket_of_ipv6_are_plain() -> None:
    assert forwarded("::ffff:192.0.2.7").client == "192.0.2.7"
    assert forwarded(f"::ffff:{PROXY}", **{"for": "192.0.2.7"}).client == "192.0.2.7"


@pytest.mark.parametrize(
    ("written", "client"),
    [
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::FFFF:c000:207", "192.0.2.7"),
        ("[::ffff:192.0.2.7]:4711", "192.0.2.7"),
        ("0:0:0:0:0:ffff:192.0.2.7", "192.0.2.7"),
        ("2001:0DB9:0::1", "2001:db9::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_has_one_form(written: str, client: str) -> None:
    assert forwarded(**{"for": written}).client == client
    assert forwarded(**{"for": f"198.51.100.1, {written}, ::ffff:10.0.0.6"}).client == client
    if "[" not in written:
        assert forwarded(written).client == client
        assert forwarded(PROXY, "::ffff:10.0.0.0/120", **{"for": written}).client == client


@pytest.mark.parametrize("peer", ["192.0.2.7", "11.0.0.5", "", "unix"])
def test_others_are_not_believed(peer: str) -> None:
    found = forwarded(peer, **{"for": "10.0.0.1", "proto": "https", "host": "sqs.example.com"})

    assert found == Forwarded(peer, "http", "node:9324")
    assert forwarded(networks="", **{"for": "192.0.2.7"}).client == PROXY


@pytest.mark.parametrize(
    ("addresses", "client"),
    [
        # What the client has sent itself stands on the left.
        ("10.0.0.1, 192.0.2.7", "192.0.2.7"),
        ("198.51.100.1,192.0.2.7 , 10.0.0.6", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("[2001:db9::1]:4711", "2001:db9::1"),
        ("2001:db9::1", "2001:db9::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("10.0.0.6", "10.0.0.6"),
        ("unknown", PROXY),
        # What stands before junk may be forged.
        ("192.0.2.7, unknown", PROXY),
        ("192.0.2.7,junk, 10.0.0.6", "10.0.0.6"),
        ("192.0.2.7,,", PROXY),
        ("unknown, 192.0.2.7", "192.0.2.7"),
        ("", PROXY),
        (",", PROXY),
    ],
)
def test_client_is_the_last_that_no_believed_proxy_is(addresses: str, client: str) -> None:
    assert forwarded(**{"for": addresses}).client == client


@pytest.mark.parametrize(
    ("proto", "scheme"), [("https", "https"), ("HTTP, https", "https"), ("gopher", "http")]
)
def test_scheme_is_one_of_two(proto: str, scheme: str) -> None:
    assert forwarded(proto=proto).scheme == scheme
