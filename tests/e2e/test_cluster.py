"""`heddle cluster`: a replica set with one command."""

import base64
import os
import re
import signal
import subprocess
import time

import pymongo
import pytest

from replica_set import eventually
from server_process import BINARY, free_port
from test_tls import Authority


class Cluster:
    def __init__(self, output, *arguments):
        self.output = output
        with open(output, "ab") as file:
            self.process = subprocess.Popen([BINARY, "cluster", *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def lines(self):
        return self.output.read_text().splitlines()

    def wait_for(self, pattern, count=1):
        def found():
            assert self.process.poll() is None, f"it ended:\n{self.output.read_text()}"
            return len([line for line in self.lines() if re.search(pattern, line)]) >= count

        eventually(f"{pattern!r}", found)

    def uri(self):
        return next(line.split()[-1] for line in self.lines() if "mongodb://" in line)


@pytest.fixture
def start_cluster(tmp_path):
    started = []

    def start(*arguments):
        started.append(Cluster(tmp_path / f"cluster{len(started)}.txt", *arguments))
        return started[-1]

    yield start
    for cluster in started:
        if cluster.process.poll() is None:
            cluster.process.send_signal(signal.SIGTERM)
            cluster.process.wait(60)


def is_over(port):
    try:
        with pymongo.MongoClient(f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=200) as client:
            client.admin.command("ping")
        return False
    except pymongo.errors.ServerSelectionTimeoutError:
        return True


def test_three_members_with_one_command(start_cluster, tmp_path):
    port = free_port(3)
    arguments = ["--members", "3", "--port", str(port), "--dbpath", str(tmp_path / "kept")]
    cluster = start_cluster(*arguments)
    cluster.wait_for("PRIMARY")
    cluster.wait_for("SECONDARY", 2)
    with pymongo.MongoClient(cluster.uri(), serverSelectionTimeoutMS=20_000) as client:
        client.tried.things.insert_one({"_id": 1})
        killed = client.primary[1]
        eventually("three members", lambda: len(client.nodes) == 3)
        pid = pymongo.MongoClient(f"mongodb://127.0.0.1:{killed}/?directConnection=true").admin.command("serverStatus")["pid"]
        os.kill(pid, signal.SIGKILL)
        cluster.wait_for(f"{killed}.*ended")
        client.tried.things.insert_one({"_id": 2})
        cluster.wait_for(f"{killed}.*SECONDARY")
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(60) == 0
    assert all(is_over(port + place) for place in range(3))
    again = start_cluster(*arguments)
    again.wait_for("PRIMARY")
    with pymongo.MongoClient(again.uri(), serverSelectionTimeoutMS=20_000) as client:
        assert [one["_id"] for one in client.tried.things.find().sort("_id")] == [1, 2]


def test_members_speak_tls_with_the_certificates_that_are_given(start_cluster, tmp_path):
    authority = Authority(tmp_path)
    both = ["--tlsCertificateKeyFile", str(authority.issue("server")), "--tlsCAFile", str(authority.certificate)]
    own = authority.issue("client")
    port = free_port(3)
    cluster = start_cluster("--port", str(port), "--auth", "--tlsMode", "requireTLS", *both, "--tlsClusterFile", str(authority.issue("member")))
    cluster.wait_for("PRIMARY")
    cluster.wait_for("SECONDARY", 2)
    assert f"&tls=true&tlsCAFile={authority.certificate}" in cluster.uri()
    with pymongo.MongoClient(f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=500) as clear:
        with pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
            clear.admin.command("ping")
    with pymongo.MongoClient(cluster.uri(), tlsCertificateKeyFile=str(own), serverSelectionTimeoutMS=20_000) as client:
        client.admin.command("createUser", "root", pwd="p", roles=["root"])
    with pymongo.MongoClient(cluster.uri(), tlsCertificateKeyFile=str(own), username="root", password="p", w=3) as client:
        client.tried.things.insert_one({"_id": 1})
        assert client.admin.command("serverStatus")["transportSecurity"]["1.3"] > 0


def test_members_know_each_other_by_their_certificates(start_cluster, tmp_path):
    authority = Authority(tmp_path)
    member = authority.issue("member", organisation="Set")
    port = free_port(3)
    cluster = start_cluster("--port", str(port), "--auth", "--clusterAuthMode", "x509", "--tlsMode", "requireTLS",
                            "--tlsCertificateKeyFile", str(member), "--tlsCAFile", str(authority.certificate))
    cluster.wait_for("PRIMARY")
    cluster.wait_for("SECONDARY", 2)
    assert not re.search("The members' key", cluster.output.read_text()), "there is none"
    with pymongo.MongoClient(cluster.uri(), tlsCertificateKeyFile=str(authority.issue("client")), serverSelectionTimeoutMS=20_000) as client:
        client.admin.command("createUser", "root", pwd="p", roles=["root"])
        with pytest.raises(pymongo.errors.OperationFailure, match="requires authentication"):
            client.tried.things.find_one()
    with pymongo.MongoClient(cluster.uri(), tlsCertificateKeyFile=str(member), authMechanism="MONGODB-X509") as one_of_them:
        assert one_of_them.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == [{"user": "__system", "db": "local"}]


def test_certificates_that_cannot_be_used_are_told_and_nothing_starts(start_cluster, tmp_path):
    for arguments, message in [
        (["--tlsMode", "requireTLS"], "need tlsCertificateKeyFile"),
        (["--clusterAuthMode", "x509"], "need to enable TLS via the tlsMode flag"),
        (["--clusterAuthMode", "sendX509"], "security.clusterAuthMode sendX509 needs security.keyFile"),
        (["--clusterAuthMode", "by name"], "by name"),
        (["--tlsClusterFile", "/nowhere"], "net.tls.clusterFile is given, but net.tls.mode is disabled"),
        (["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", str(Authority(tmp_path).issue("server"))], "net.tls.CAFile is needed"),
    ]:
        cluster = start_cluster("--port", str(free_port(3)), "--dbpath", str(tmp_path / "none"), *arguments)
        assert cluster.process.wait(60) == 1
        assert message in cluster.output.read_text()
        assert not (tmp_path / "none").exists()


def test_members_encrypt_their_data_with_the_key_that_is_given(start_cluster, tmp_path):
    key = tmp_path / "key"
    key.write_text(base64.b64encode(os.urandom(32)).decode())
    key.chmod(0o600)
    arguments = ["--port", str(free_port(3)), "--dbpath", str(tmp_path / "kept"), "--enableEncryption"]
    cluster = start_cluster(*arguments, "--encryptionKeyFile", str(key))
    cluster.wait_for("PRIMARY")
    cluster.wait_for("SECONDARY", 2)
    with pymongo.MongoClient(cluster.uri(), w=3, serverSelectionTimeoutMS=20_000) as client:
        client.tried.things.insert_one({"_id": 1, "secret": "nobody reads this in a file"})
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(60) == 0
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert sum(path.name == "encryption" for path in files) == 3
    assert not any(b"nobody reads this" in path.read_bytes() for path in files)
    again = start_cluster(*arguments, "--encryptionKeyCommand", f"cat {key}")
    again.wait_for("PRIMARY")
    with pymongo.MongoClient(again.uri(), serverSelectionTimeoutMS=20_000) as client:
        assert client.tried.things.count_documents({}) == 1
    refused = start_cluster("--port", str(free_port(3)), "--enableEncryption")
    assert refused.process.wait(60) == 2
    assert "--encryptionKeyFile" in refused.output.read_text()


def test_members_end_with_a_cluster_that_is_killed(start_cluster):
    port = free_port()
    cluster = start_cluster("--members", "1", "--port", str(port))
    cluster.wait_for("PRIMARY")
    cluster.process.kill()
    cluster.process.wait()
    eventually("the member's end", lambda: is_over(port))


def test_what_cannot_start_is_told_and_nothing_starts(start_cluster, start_server, tmp_path):
    port = free_port(2)
    start_server(port=port + 1)
    cluster = start_cluster("--members", "2", "--port", str(port), "--dbpath", str(tmp_path / "none"))
    assert cluster.process.wait(60) == 1
    assert f"port {port + 1} cannot be had" in cluster.output.read_text()
    assert not (tmp_path / "none").exists()
