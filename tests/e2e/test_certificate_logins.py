"""MONGODB-X509: clients that log in by the certificate that TLS shows."""

import subprocess
import urllib.parse

import pymongo
import pytest
from pymongo.errors import OperationFailure

from access_server import ROOT, refused
from server_process import BINARY
from test_tls import Authority, openssl, trusting

NAME = "CN=client,O=Heddle"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificates(authority):
    return {name: authority.issue(name) for name in ("server", "client", "stranger")}


@pytest.fixture
def server(start_server, authority, certificates):
    """A server with root, who logs in by password, and with the user of a certificate."""
    options = trusting(authority, tlsCertificateKeyFile=str(certificates["stranger"]))
    started = start_server("--auth", "--tlsMode", "preferTLS", "--tlsCertificateKeyFile", str(certificates["server"]),
                           "--tlsCAFile", str(authority.certificate), "--tlsAllowConnectionsWithoutCertificates",
                           client_options=options)
    with started.client() as first:
        first.admin.command("createUser", ROOT[0], pwd=ROOT[1], roles=["root"])
    started.client_options |= {"username": ROOT[0], "password": ROOT[1], "authSource": "admin"}
    with started.client() as root:
        root["$external"].command("createUser", NAME, roles=[{"role": "readWrite", "db": "shop"}])
    return started


def client(server, authority, certificate=None, **options):
    """By a certificate, if one is given."""
    shown = {"tlsCertificateKeyFile": str(certificate)} if certificate else {}
    return pymongo.MongoClient("127.0.0.1", server.port, directConnection=True, **trusting(authority, **shown, **options))


def by_certificate(server, authority, certificate, **options):
    return client(server, authority, certificate, authMechanism="MONGODB-X509", **options)


def attempts(server):
    with server.client() as root:
        return root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]["MONGODB-X509"]


@pytest.mark.parametrize("named", [{}, {"username": NAME}], ids=["by the certificate alone", "with the name"])
def test_the_certificate_logs_in_and_has_the_users_rights(server, authority, certificates, named):
    before = attempts(server)
    with by_certificate(server, authority, certificates["client"], **named) as me:
        assert me.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == [{"user": NAME, "db": "$external"}]
        me.shop.things.insert_one({"_id": 1})
        refused(lambda: me.other.things.find_one(), message="not authorized on other")
        after = attempts(server)
        for kind in ("speculativeAuthenticate", "authenticate"):
            assert after[kind]["successful"] > before[kind]["successful"], "drivers begin in the handshake"
        with server.client() as root:
            root["$external"].command("dropUser", NAME)
        refused(lambda: me.shop.things.find_one(), message="requires authentication")


def test_other_certificates_and_other_names_are_refused(server, authority, certificates):
    for options in ({}, {"username": "CN=stranger,O=Heddle"}):
        with by_certificate(server, authority, certificates["stranger"], **options) as stranger:
            failed = refused(lambda: stranger.shop.things.find_one(), 18)
            assert failed["errmsg"] == "Authentication failed.", "who exists is not told"
    with by_certificate(server, authority, certificates["stranger"], username=NAME) as stranger:
        refused(lambda: stranger.shop.things.find_one(), 18, "There is no x.509 client certificate matching the user.")
    assert "MONGODB-X509" in server.log.read_text() and "Failed to authenticate" in server.log.read_text()


def test_without_a_certificate_it_is_said_what_is_missing(server, authority, certificates):
    login = {"authenticate": 1, "mechanism": "MONGODB-X509", "user": NAME}
    with client(server, authority) as nobody:
        refused(lambda: nobody["$external"].command(login), 18, "No verified subject name available from client")
    with pymongo.MongoClient("127.0.0.1", server.port, directConnection=True) as clear:
        refused(lambda: clear["$external"].command(login), 18, "SSL support is required for the MONGODB-X509 mechanism.")
    with client(server, authority, certificates["client"]) as known:
        refused(lambda: known.admin.command(login), 18, "must always use the $external database")
        refused(lambda: known["$external"].command({**login, "mechanism": "MONGODB-CR"}), 334)
        assert known["$external"].command({**login, "user": NAME})["user"] == NAME


def test_names_are_those_that_openssl_shows(server, authority, tmp_path):
    directory, subject = authority.directory, r"/DC=org/DC=example/O=Smith, Sons \+ \"Co\"/OU=#1/emailAddress=a@b.c/CN= x; y "
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject,
            "-keyout", "odd.key", "-out", "odd.csr", directory=directory)
    openssl("x509", "-req", "-in", "odd.csr", "-CA", f"{authority.name}.pem", "-CAkey", f"{authority.name}.key",
            "-set_serial", "77", "-days", "2", "-extfile", "client.ext", "-out", "odd.crt", directory=directory)
    shown = subprocess.run(["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253", "-in", "odd.crt"], cwd=directory,
                           capture_output=True, text=True, check=True).stdout
    name = shown.removeprefix("subject=").removesuffix("\n")
    both = tmp_path / "odd.pem"
    both.write_text((directory / "odd.crt").read_text() + (directory / "odd.key").read_text())
    with server.client() as root:
        root["$external"].command("createUser", name, roles=[{"role": "read", "db": "shop"}])
    with by_certificate(server, authority, both) as odd:
        told = odd.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
    assert told == [{"user": name, "db": "$external"}]


def test_tools_log_in_by_certificate(server, authority, certificates):
    def calendar(certificate):
        options = {"tls": "true", "tlsCAFile": authority.certificate, "tlsCertificateKeyFile": certificate, "authMechanism": "MONGODB-X509"}
        uri = f"mongodb://127.0.0.1:{server.port}/?{urllib.parse.urlencode(options)}"
        return subprocess.run([BINARY, "calendar", "--uri", uri], capture_output=True, text=True, timeout=60), uri

    done, _ = calendar(certificates["client"])
    assert done.returncode == 1 and "not authorized on admin" in done.stderr, done
    with server.client() as root:
        root["$external"].command("grantRolesToUser", NAME, roles=[{"role": "clusterMonitor", "db": "admin"}])
    done, uri = calendar(certificates["client"])
    assert done.returncode == 0 and "48 hours" in done.stdout, done
    done, _ = calendar(certificates["stranger"])
    assert done.returncode == 1 and "Authentication failed." in done.stderr, done
    with server.client() as root:
        root["$external"].command("grantRolesToUser", NAME, roles=[{"role": "root", "db": "admin"}])
    load = [BINARY, "bench", "run", uri, "--workload", "c", "--records", "50", "--connections", "4", "--operations", "40"]
    done = subprocess.run(load, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done


def test_passwords_of_external_users_are_refused(server):
    with server.client() as root:
        with pytest.raises(OperationFailure):
            root["$external"].command("createUser", "CN=other", pwd="p", roles=[])
