"""Handshakes of TLS that do not come to an end, and records that come in whatever pieces."""

import socket
import ssl
import time

import pymongo
import pytest
from test_tls import EXECUTORS, Authority, context, read_reply, secured, trusting
from raw_wire import message

PING = message({"ping": 1, "$db": "admin"})


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.issue("server")


def greeting(authority):
    """The first bytes of a client, in one record."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    sealed = context(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        sealed.do_handshake()
    return outgoing.read()


def connected(server):
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain


def is_open(plain):
    """Whether the server has not closed it."""
    plain.settimeout(0)
    try:
        while plain.recv(10_000):
            pass
        return False
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except ConnectionError:
        return False


LIMIT_SECONDS = 1.5
LIMIT = ("--setParameter", f"tlsHandshakeTimeoutMillis={int(LIMIT_SECONDS * 1000)}")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_who_does_not_complete_the_handshake_holds_no_connection(start_server, authority, certificate, executor):
    connections = 40
    server = secured(start_server, "requireTLS", certificate, "--maxConns", str(connections + 4),
                     "--serviceExecutor", executor, *LIMIT, **trusting(authority))
    first = greeting(authority)
    # Most of those that looked whether the server answers are gone by then; a monitor may be held for a while.
    time.sleep(0.5)
    with connected(server) as plain, context(authority).wrap_socket(plain, server_hostname="localhost") as idle:
        idle.sendall(PING)
        assert read_reply(idle)["ok"] == 1
        # Silent ones, such that stop within the greeting, behind it, and one that trickles.
        beginnings = [b"", first[:1], first[:10], first[:11], first[:100], first]
        held, begun = [], time.monotonic()
        for number in range(connections - 1):
            held.append(connected(server))
            held[-1].sendall(beginnings[number % len(beginnings)])
        for byte in first[:-1]:
            if not is_open(held[0]):
                break
            try:
                held[0].sendall(bytes([byte]))
            except ConnectionError:
                break
            time.sleep(0.1)
        assert LIMIT_SECONDS <= time.monotonic() - begun < 10, "bytes that trickle in gain no time"
        deadline = time.monotonic() + 10
        while any(is_open(plain) for plain in held):
            assert time.monotonic() < deadline, "connections are held by handshakes that do not end"
            time.sleep(0.05)
        for plain in held:
            plain.close()
        with pymongo.MongoClient("127.0.0.1", server.port, **trusting(authority)) as client:
            security = client.admin.command("serverStatus")["transportSecurity"]
            assert security["handshakesTimedOut"] == connections - 1, security
        idle.settimeout(20)
        idle.sendall(PING)
        assert read_reply(idle)["ok"] == 1, "whose handshake is over stays, however silent"
    assert "clients did not complete the handshake of TLS in time" in server.log.read_text()


def test_where_clear_is_allowed_the_time_begins_with_the_greeting(start_server, authority, certificate):
    server = secured(start_server, "allowTLS", certificate, *LIMIT)
    first = greeting(authority)
    with connected(server) as silent, connected(server) as one, connected(server) as half, connected(server) as clear:
        one.sendall(first[:1])
        half.sendall(first[: len(first) // 2])
        clear.sendall(PING)
        assert read_reply(clear)["ok"] == 1
        deadline = time.monotonic() + 10
        while is_open(one) or is_open(half):
            assert time.monotonic() < deadline, "a greeting that does not come to its end holds a connection"
            time.sleep(0.05)
        assert is_open(silent) and is_open(clear)
        for late in (silent, clear):
            late.settimeout(20)
            late.sendall(PING)
            assert read_reply(late)["ok"] == 1
