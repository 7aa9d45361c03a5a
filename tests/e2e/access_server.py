"""A server with `--auth`, its first user, and clients that log in."""

import contextlib

import pymongo
import pytest
from pymongo.errors import OperationFailure

ROOT = ("root", "a root's password")


class AccessServer:
    """A running server with `--auth`."""

    def __init__(self, server):
        self.server = server

    def client(self, user=None, password=None, source="admin", **options):
        if user is not None:
            options = {"username": user, "password": password, "authSource": source, **options}
        return pymongo.MongoClient(
            "127.0.0.1", self.server.port, directConnection=True, serverSelectionTimeoutMS=10_000, **options
        )

    def root(self, **options):
        return self.client(*ROOT, **options)

    def make_root(self):
        with self.client() as client:
            client.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"])
        return self

    @contextlib.contextmanager
    def user(self, name, roles, database="admin", **options):
        """A new user, and a client that is logged in as it."""
        with self.root() as root:
            root[database].command("createUser", name, pwd=f"{name}'s", roles=roles, **options)
        with self.client(name, f"{name}'s", database) as client:
            yield client


def refused(call, code=13, message=None):
    with pytest.raises(OperationFailure) as failure:
        call()
    assert failure.value.code == code, failure.value.details
    if message is not None:
        assert message in failure.value.details["errmsg"], failure.value.details
    return failure.value.details


def log_in(server, user, password, **options):
    """Logs in, and tells who the server thinks it is."""
    with server.client(user, password, **options) as client:
        return client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
