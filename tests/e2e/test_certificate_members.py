"""`--clusterAuthMode`: members of a set that know each other by their certificates."""

import subprocess

import pymongo
import pytest

from access_server import refused
from keyed_set import KEY, KeyedSet
from replica_set import Load
from server_process import BINARY
from test_tls import Authority, shown, trusting


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificates(authority):
    """Of a member of the set, of one of another set, and of a client."""
    return {name: authority.issue(name, organisation=of) for name, of in (("member", "Set"), ("other", "Other set"), ("client", "Heddle"))}


def secured(authority, certificate, mode):
    return ["--tlsMode", mode, "--tlsCertificateKeyFile", str(certificate), "--tlsCAFile", str(authority.certificate),
            "--tlsAllowConnectionsWithoutCertificates"]


@pytest.fixture
def by_certificate(tmp_path, authority, certificates):
    running = KeyedSet(tmp_path, 3, "--clusterAuthMode", "x509", *secured(authority, certificates["member"], "requireTLS"), key="",
                       client_options=trusting(authority))
    yield running
    running.kill_all()


def test_members_with_the_sets_certificates_and_nobody_else(by_certificate, authority, certificates):
    running = by_certificate
    primary, stranger, third = running.primary(), *running.secondaries()
    show = lambda name: {**trusting(authority), "tlsCertificateKeyFile": str(certificates[name]), "authMechanism": "MONGODB-X509"}
    with pymongo.MongoClient(primary.uri, **show("member")) as member:
        assert member.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == [{"user": "__system", "db": "local"}]
        assert member.admin.command("replSetHeartbeat", "rs")["ok"] == 1
    for name in ("other", "client"):
        with pymongo.MongoClient(primary.uri, **show(name)) as nobody:
            refused(lambda: nobody.admin.command("replSetGetStatus"), 18)
    load = Load(running.client(w="majority", serverSelectionTimeoutMS=60_000))
    try:
        load.wait_for_each()
        running.kill(stranger)
        # The same authority vouches for it, and its names are right.
        running.arguments = ("--clusterAuthMode", "x509", *secured(authority, certificates["other"], "requireTLS"))
        started = running._start(stranger.directory, stranger.port)
        running.members[running.members.index(stranger)] = started
        for member in (primary, third):
            running.told(member, "Another member of the set is refused")
        running.told(started, "Another member of the set is refused")
        load.wait_for_each()
        assert running.primary() is primary
        assert sum("is refused" in line for line in primary.log.read_text().splitlines()) <= 2, "once a minute"
        running.kill(started)
        running.arguments = ("--clusterAuthMode", "x509", *secured(authority, certificates["member"], "requireTLS"))
        running.restart(started)
        running.wait_until_healthy()
    finally:
        load.stop()
    load.check()
    running.assert_members_are_equal()


def test_members_may_have_other_certificates_for_each_other(tmp_path, authority, certificates):
    tls = [*secured(authority, certificates["client"], "requireTLS"), "--tlsClusterFile", str(certificates["member"])]
    running = KeyedSet(tmp_path, 3, "--clusterAuthMode", "x509", *tls, key="", client_options=trusting(authority))
    try:
        running.wait_until_healthy()
        primary = running.primary()
        assert shown(primary, authority, None)["subject"][1][0][1] == "client", "clients see the server's"
        show = lambda name: {**trusting(authority), "tlsCertificateKeyFile": str(certificates[name]), "authMechanism": "MONGODB-X509"}
        with pymongo.MongoClient(primary.uri, **show("member")) as member:
            assert member.admin.command("replSetHeartbeat", "rs")["ok"] == 1
        with pymongo.MongoClient(primary.uri, **show("client")) as nobody:
            refused(lambda: nobody.admin.command("replSetGetStatus"), 18)
        assert primary.client(**running.client_options).admin.command("rotateCertificates")["ok"] == 1
        running.wait_until_healthy()
    finally:
        running.kill_all()


def test_a_set_goes_over_from_a_key_to_certificates(tmp_path, authority, certificates):
    tls = secured(authority, certificates["member"], "preferTLS")
    running = KeyedSet(tmp_path, 3, *tls, client_options=trusting(authority))
    load = None
    try:
        load = Load(running.client(w="majority", serverSelectionTimeoutMS=60_000))
        for mode in ("sendKeyFile", "sendX509", "x509"):
            running.arguments = (*tls, "--clusterAuthMode", mode)
            for member in list(running.members):
                assert member.stop() == 0
                running.restart(member)
                running.wait_until_healthy()
            load.wait_for_each()
        with running.as_user(running.primary(), "__system", KEY.strip(), authSource="local", **trusting(authority)) as client:
            refused(lambda: client.admin.command("ping"), 18)
        load.stop()
        load.check()
    finally:
        if load:
            load.stop()
        running.kill_all()


def test_a_certificate_without_a_domain_is_no_members(tmp_path, authority):
    openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-subj", "/CN=alone", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "certificate.pem"]
    subprocess.run(openssl, check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_text((tmp_path / "certificate.pem").read_text() + (tmp_path / "key.pem").read_text())
    command = [BINARY, "serve", "--replSet", "rs", "--clusterAuthMode", "x509", *secured(authority, both, "requireTLS"),
               "--dbpath", tmp_path / "data", "--port", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "has no organisation, unit or domain component" in done.stdout + done.stderr
