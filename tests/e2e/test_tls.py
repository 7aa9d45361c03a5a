"""TLS: modes, certificates, versions, every thread model, and what a connection costs."""

import socket
import ssl
import struct
import subprocess
import time
import urllib.parse

import bson
import pymongo
import pytest
from raw_wire import message
from replica_set import FAST, ReplicaSet

EXECUTORS = ["synchronous", "adaptive", "reactor", "coroutine"]


def read_reply(stream):
    """The body of one reply."""
    def exactly(length):
        data = b""
        while len(data) < length:
            part = stream.recv(length - len(data))
            if not part:
                raise EOFError("the server closed the connection")
            data += part
        return data

    length, = struct.unpack("<i", exactly(4))
    return bson.decode(exactly(length - 4)[17:])


def openssl(*arguments, directory):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


class Authority:
    """Certificates for tests, made by `openssl`."""

    def __init__(self, directory, name="authority"):
        self.directory, self.name = directory, name
        self.certificate = directory / f"{name}.pem"
        self.issued = 0
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                directory=directory)

    def issue(self, name, *, key=("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"), organisation="Heddle"):
        """A file with a certificate of this name and its key."""
        self.issued += 1
        (self.directory / f"{name}.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("req", "-newkey", *key, "-nodes", "-subj", f"/O={organisation}/CN={name}", "-keyout", f"{name}.key",
                "-out", f"{name}.csr", directory=self.directory)
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key",
                "-set_serial", str(self.issued), "-days", "2", "-extfile", f"{name}.ext",
                "-out", f"{name}.crt", directory=self.directory)
        both = self.directory / f"{name}.both.pem"
        both.write_text((self.directory / f"{name}.crt").read_text() + (self.directory / f"{name}.key").read_text())
        both.chmod(0o600)
        return both


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.issue("server")


def trusting(authority, **options):
    return dict(tls=True, tlsCAFile=str(authority.certificate), serverSelectionTimeoutMS=5000, **options)


def secured(start_server, mode, certificate, *arguments, **client_options):
    return start_server("--tlsMode", mode, "--tlsCertificateKeyFile", str(certificate), *arguments,
                        client_options=client_options)


def connect(server, **options):
    client = pymongo.MongoClient("127.0.0.1", server.port, **options)
    client.admin.command("ping")
    return client


@pytest.mark.parametrize("executor", EXECUTORS)
def test_documents_of_all_sizes_pass_under_every_thread_model(start_server, authority, certificate, executor):
    server = secured(start_server, "requireTLS", certificate, "--serviceExecutor", executor,
                     **trusting(authority))
    with connect(server, **trusting(authority)) as client:
        things = client.test.things
        sizes = [0, 1, 100, 16_383, 16_384, 16_385, 100_000, 2_000_000, 15_000_000]
        things.insert_many([{"_id": size, "text": "x" * size} for size in sizes])
        for size in sizes:
            assert things.find_one({"_id": size})["text"] == "x" * size, f"{size} bytes under {executor}"
        found = list(things.find({"_id": {"$lt": 3_000_000}}, batch_size=2))
        assert sum(len(thing["text"]) for thing in found) == sum(sizes[:-1])
        security = client.admin.command("serverStatus")["transportSecurity"]
        assert security["1.3"] >= 2 and security["1.2"] == 0, security


def test_who_may_speak_in_clear(start_server, authority, certificate, tmp_path):
    for mode in ["allowTLS", "preferTLS"]:
        server = secured(start_server, mode, certificate)
        with connect(server) as clear, connect(server, **trusting(authority)) as sealed:
            clear.test.things.insert_one({"_id": mode})
            assert sealed.test.things.find_one({"_id": mode}), mode
    path = tmp_path / "local.sock"
    server = secured(start_server, "requireTLS", certificate, "--bind_ip", f"127.0.0.1,{path}",
                     **trusting(authority))
    with connect(server, **trusting(authority)) as sealed:
        with pymongo.MongoClient("127.0.0.1", server.port, serverSelectionTimeoutMS=1000) as clear:
            with pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
                clear.admin.command("ping")
        with pymongo.MongoClient(f"mongodb://{urllib.parse.quote_plus(str(path))}/", serverSelectionTimeoutMS=5000) as local:
            assert local.admin.command("ping")["ok"] == 1, "TLS is not for Unix sockets"
        assert sealed.admin.command("serverStatus")["transportSecurity"]["refusedInClear"] >= 1
    assert "configured to only allow SSL connections" in server.log.read_text()


@pytest.mark.parametrize("disabled, version", [("TLS1_3", "1.2"), ("TLS1_2", "1.3"), ("none", "1.3")])
def test_versions(start_server, authority, certificate, disabled, version):
    server = secured(start_server, "requireTLS", certificate, "--tlsDisabledProtocols", disabled,
                     **trusting(authority))
    with connect(server, **trusting(authority)) as client:
        security = client.admin.command("serverStatus")["transportSecurity"]
        other = {"1.2": "1.3", "1.3": "1.2"}[version]
        assert security[version] > 0 and security[other] == 0, security
    old = ssl.create_default_context(cafile=str(authority.certificate))
    old.minimum_version = old.maximum_version = (
        ssl.TLSVersion.TLSv1_3 if version == "1.2" else ssl.TLSVersion.TLSv1_2)
    if disabled != "none":
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain:
            with pytest.raises(ssl.SSLError):
                old.wrap_socket(plain, server_hostname="localhost")


def test_certificates_of_clients(start_server, authority, certificate, tmp_path):
    mine = authority.issue("client")
    stranger = Authority(tmp_path, "strangers").issue("stranger")
    known = trusting(authority, tlsCertificateKeyFile=str(mine))
    server = secured(start_server, "requireTLS", certificate, "--tlsCAFile", str(authority.certificate), **known)
    connect(server, **known).close()
    for wrong in [{}, {"tlsCertificateKeyFile": str(stranger)}]:
        options = trusting(authority, **wrong) | {"serverSelectionTimeoutMS": 1500}
        with pymongo.MongoClient("127.0.0.1", server.port, **options) as client:
            with pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
                client.admin.command("ping")
    lenient = secured(start_server, "requireTLS", certificate, "--tlsCAFile", str(authority.certificate),
                      "--tlsAllowConnectionsWithoutCertificates", **known)
    connect(lenient, **trusting(authority)).close()
    connect(lenient, **known).close()


def test_revoked_certificates_and_rotation(start_server, tmp_path):
    authority = Authority(tmp_path)
    (tmp_path / "index.txt").touch()
    (tmp_path / "ca.cnf").write_text(
        "[ca]\ndefault_ca=a\n[a]\ndatabase=index.txt\ndefault_md=sha256\ndefault_crl_days=2\ncrlnumber=crlnumber\n"
        "crl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid:always\n")
    (tmp_path / "crlnumber").write_text("01\n")

    def revocations():
        openssl("ca", "-config", "ca.cnf", "-gencrl", "-keyfile", "authority.key", "-cert", "authority.pem",
                "-out", "revoked.pem", directory=tmp_path)

    revocations()
    first, good, bad = authority.issue("server"), authority.issue("good"), authority.issue("bad")
    options = {name: trusting(authority, tlsCertificateKeyFile=str(file))
               for name, file in [("good", good), ("bad", bad)]}
    in_use = tmp_path / "in-use.pem"
    in_use.write_bytes(first.read_bytes())
    server = secured(start_server, "requireTLS", in_use, "--tlsCAFile", str(authority.certificate),
                     "--tlsCRLFile", str(tmp_path / "revoked.pem"), **options["good"])
    connect(server, **options["bad"]).close()
    with connect(server, **options["good"]) as client:
        openssl("ca", "-config", "ca.cnf", "-revoke", "bad.crt", "-keyfile", "authority.key", "-cert",
                "authority.pem", directory=tmp_path)
        revocations()
        second = authority.issue("second")
        in_use.write_bytes(second.read_bytes())
        assert client.admin.command("rotateCertificates", message="in the test")["ok"] == 1
        assert client.admin.command("ping")["ok"] == 1, "an open connection goes on"
        refused = options["bad"] | {"serverSelectionTimeoutMS": 1500}
        with pymongo.MongoClient("127.0.0.1", server.port, **refused) as revoked:
            with pytest.raises(pymongo.errors.ServerSelectionTimeoutError):
                revoked.admin.command("ping")
        connect(server, **options["good"]).close()
        assert shown(server, authority, good)["subject"][1][0][1] == "second", "the new certificate is shown"
        in_use.write_text("nonsense")
        with pytest.raises(pymongo.errors.OperationFailure) as failure:
            client.admin.command("rotateCertificates")
        assert failure.value.code == 140, failure.value.details
        connect(server, **options["good"]).close()


def context(authority, own=None):
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if own:
        context.load_cert_chain(str(own))
    return context


def shown(server, authority, own):
    """The certificate that the server shows."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain:
        with context(authority, own).wrap_socket(plain, server_hostname="localhost") as sealed:
            return sealed.getpeercert()


def test_a_session_is_resumed(start_server, authority, certificate):
    for protocol in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
        server = secured(start_server, "requireTLS", certificate, **trusting(authority))
        ours, session = context(authority), None
        ours.minimum_version = ours.maximum_version = protocol
        for attempt in range(2):
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain:
                with ours.wrap_socket(plain, server_hostname="localhost", session=session) as sealed:
                    sealed.sendall(message({"ping": 1, "$db": "admin"}))
                    assert read_reply(sealed)["ok"] == 1
                    assert sealed.session_reused == (attempt == 1), f"{protocol} at attempt {attempt}"
                    session = sealed.session


def test_records_in_pieces_and_nonsense(start_server, authority, certificate):
    """Greeting and requests come byte by byte; what is no TLS ends its own connection only."""
    server = secured(start_server, "allowTLS", certificate, **trusting(authority))
    with server.client() as client:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        sealed = context(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def flush():
                for byte in outgoing.read():
                    plain.sendall(bytes([byte]))

            def complete(act):
                while True:
                    try:
                        return act()
                    except ssl.SSLWantReadError:
                        flush()
                        incoming.write(plain.recv(7))

            complete(sealed.do_handshake)
            for number in range(3):
                sealed.write(message({"ping": number, "$db": "admin"}))
                flush()
                header = b""
                while len(header) < 16:
                    header += complete(lambda: sealed.read(16 - len(header)))
                length = int.from_bytes(header[:4], "little")
                body = b""
                while len(body) < length - 16:
                    body += complete(lambda: sealed.read(length - 16 - len(body)))
        for nonsense in [b"\x16\x03\x01\xff\xff\x01\x00\x00\xff\x03\x03" + b"x" * 100,
                         b"\x16\x03\x01\x00\x10\x01\x00\x00\x0c\x03\x03" + b"\x00" * 20,
                         b"\x16\x03\x01\x00"]:
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain:
                plain.sendall(nonsense)
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(1000):
                    pass
        assert client.admin.command("serverStatus")["transportSecurity"]["failed"] >= 1
        assert client.admin.command("ping")["ok"] == 1


def test_a_waiting_connection_takes_little_memory(start_server, authority, certificate):
    """What `docs/security.md` says: at most 12 KiB for each, beside what one in clear takes."""
    server = secured(start_server, "allowTLS", certificate)
    ours = context(authority)

    def resident():
        for line in open(f"/proc/{server.process.pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024

    def open_all(count):
        sockets = []
        for _ in range(count):
            plain = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            one = ours.wrap_socket(plain, server_hostname="localhost")
            one.sendall(message({"ping": 1, "$db": "admin"}))
            assert read_reply(one)["ok"] == 1
            sockets.append(one)
        return sockets

    sealed = open_all(200)
    before = resident()
    sealed += open_all(500)
    time.sleep(0.5)
    each = (resident() - before) / 500
    for one in sealed:
        one.close()
    print(f"{each:.0f} bytes for each connection that waits")
    assert each <= 12 * 1024, f"{each:.0f} bytes for each connection that waits"


@pytest.mark.parametrize("arguments, message", [
    (["--tlsMode", "requireTLS"], "need tlsCertificateKeyFile"),
    (["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", "/nowhere"], "cannot read a certificate"),
    (["--tlsCertificateKeyFile", "SERVER"], "net.tls.mode is disabled"),
    (["--tlsMode", "allowTLS", "--tlsCertificateKeyFile", "SERVER", "--tlsCRLFile", "SERVER"], "needs net.tls.CAFile"),
    (["--tlsMode", "allowTLS", "--tlsCertificateKeyFile", "AUTHORITY"], "holds no a private key"),
    (["--tlsMode", "allowTLS", "--tlsCertificateKeyFile", "SERVER", "--tlsDisabledProtocols", "TLS1_2,TLS1_3"],
     "leaves no version"),
    (["--tlsMode", "allowTLS", "--tlsCertificateKeyFile", "SERVER", "--tlsDisabledProtocols", "SSL3"],
     "Unrecognized disabledProtocols 'SSL3'"),
])
def test_options_that_cannot_be(start_server, authority, certificate, arguments, message):
    files = {"SERVER": str(certificate), "AUTHORITY": str(authority.certificate)}
    server = start_server(*[files.get(argument, argument) for argument in arguments], wait=False)
    assert server.process.wait(timeout=30) != 0
    assert message in server.log.read_text(), server.log.read_text()[-1000:]


@pytest.mark.parametrize("mode", ["preferTLS", "requireTLS"])
def test_members_of_a_set_speak_tls_to_each_other(tmp_path, authority, certificate, mode):
    known = trusting(authority, tlsCertificateKeyFile=str(authority.issue(f"member-of-{mode}")))
    members = ReplicaSet(tmp_path, 3, "--tlsMode", mode, "--tlsCertificateKeyFile", str(certificate),
                         "--tlsCAFile", str(authority.certificate), settings=FAST, client_options=known)
    try:
        with members.client(w="majority") as client:
            client.test.things.insert_many([{"_id": number, "text": "x" * 10_000} for number in range(300)])
            for member in members.members:
                with members.direct(member) as one:
                    security = one.admin.command("serverStatus")["transportSecurity"]
                    assert security["1.3"] >= 3, f"the others come by TLS: {security}"
        members.kill_all()
    finally:
        members.kill_all()


def test_a_member_needs_authorities(start_server, certificate):
    server = start_server("--replSet", "rs", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile",
                          str(certificate), wait=False)
    assert server.process.wait(timeout=30) != 0
    assert "net.tls.CAFile is needed" in server.log.read_text()
