"""Replica sets whose members have a key in common, and users who log in."""

import pymongo

from access_server import ROOT
from replica_set import FAST, ReplicaSet, eventually
from server_process import Server

KEY = "bWVtYmVycyBvZiBhIHNldCBrbm93IGVhY2ggb3RoZXI=\n"
LOGIN = {"username": ROOT[0], "password": ROOT[1], "authSource": "admin"}


class KeyedSet(ReplicaSet):
    """Members with `--keyFile`, which is `memberN.key` beside their data; clients are root. What else a member is started with may
    change: `own` has it by the member's directory."""

    def __init__(self, directory, size=3, *arguments, key=KEY, members=None, make_root=True, client_options=None):
        self.key, self.own = key, {}
        super().__init__(directory, size, *arguments, settings=FAST, initiate=False, client_options=client_options)
        self.begin(members or [{}] * size)
        if make_root:
            self.make_root(size)

    def _start(self, directory, port):
        key = self.key_of(directory)
        if not key.exists():
            self.write_key(directory, self.key)
        arguments = ["--keyFile", str(key)] if key.read_text() else []
        arguments += self.own.get(directory, [])
        return Server(directory, "--replSet", self.name, *arguments, *self.arguments, port=port, client_options=self.client_options)

    def key_of(self, directory):
        return directory.parent / f"{directory.name}.key"

    def write_key(self, directory, text, mode=0o600):
        """What the member has from its next start on; nothing: it is started without."""
        self.key_of(directory).write_text(text)
        self.key_of(directory).chmod(mode)

    def begin(self, fields):
        """By the localhost exception."""
        hosts = [{"_id": number, "host": host, **given} for number, (host, given) in enumerate(zip(self.hosts, fields))]
        with self.direct(self.members[0]) as client:
            client.admin.command("replSetInitiate", {"_id": self.name, "members": hosts, "settings": self.settings})
        self.primary()

    def make_root(self, copies):
        with self.direct(self.primary()) as client:
            client.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"], writeConcern={"w": copies, "wtimeout": 60_000})
        self.client_options = {**self.client_options, **LOGIN}
        for member in self.members:
            member.client_options = self.client_options

    def as_user(self, member, user=None, password=None, **options):
        """A client of one member; of nobody unless a user is named."""
        login = {"username": user, "password": password, "authSource": "admin"} if user else {}
        return pymongo.MongoClient(member.uri, **{"serverSelectionTimeoutMS": 10_000, **login, **options})

    def told(self, member, text):
        eventually(f"{text!r} in the log", lambda: text in member.log.read_text())
