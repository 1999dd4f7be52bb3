"""The HTTP doors with TLS and a login, in front of a broker with rights: who gets in, what each may do, and clients
that others wrote.
"""

import json
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from subprocess import PIPE
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError as ConfluentError

from compat.support.certificates import Authority
from compat.support.local_cluster import until
from compat.support.registry import Registry
from compat.support.secured import (
    CANARY,
    PASSWORDS,
    Caller,
    SecuredCluster,
    basic,
    bearer,
    secured_cluster,
)
from compat.support.sql_server import SqlServer
from headwater.base.errors import UserError
from headwater.client.admin.acls import AclBinding, AclOperation, AclResourceType
from headwater.client.schema_registry import SchemaRegistryClient as OurClient
from headwater.client.schema_registry import SchemaRegistryError

TEXT = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
OTHER = json.dumps({"type": "record", "name": "S", "fields": [{"name": "b", "type": "int"}]})
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER


def rule(user: str, operation: AclOperation, kind: AclResourceType, name: str = "kafka-cluster") -> AclBinding:
    return AclBinding(kind, name, f"User:{user}", operation)


RULES = [
    rule("alice", AclOperation.WRITE, TOPIC, "orders"),
    rule("alice", AclOperation.READ, TOPIC, "orders"),
    rule("bob", AclOperation.READ, TOPIC, "orders"),
    rule("plain", AclOperation.DESCRIBE, TOPIC, "orders"),
    rule("carol", AclOperation.ALTER, CLUSTER),
    rule("bob", AclOperation.DESCRIBE, GROUP, "connect-copy"),
    rule("alice", AclOperation.READ, GROUP, "connect-copy"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster(tmp_path_factory.mktemp("doors"), RULES) as started:
        yield started


@pytest.fixture(scope="module")
def registry(cluster: SecuredCluster) -> Iterator[Registry]:
    settings = {"listeners": "https://127.0.0.1:0", **cluster.door, **cluster.client("admin", "kafkastore.")}
    with Registry(cluster.broker.bootstrap, **settings) as started:
        caller = Caller(started.url, cluster.authority, basic("admin"))
        for subject, text in (("orders-value", TEXT), ("secret-value", OTHER)):
            assert caller.status("POST", f"/subjects/{subject}/versions", {"schema": text}) == 200
        yield started


def at(cluster: SecuredCluster, url: str, user: str) -> Caller:
    return Caller(url, cluster.authority, basic(user))


# The registry


def test_nobody_gets_in_without_a_login(cluster: SecuredCluster, registry: Registry) -> None:
    for headers in (
        {},
        basic("alice", "wrong"),
        basic("alice", PASSWORDS["bob"]),
        {"Authorization": "Basic nonsense"},
        {"Authorization": "Digest x"},
        bearer("aaa.bbb.ccc"),
        bearer(cluster.issuer.token(sub="alice", iss="us", aud="others", exp=4102444800)),
    ):
        status, answer = Caller(registry.url, cluster.authority, headers).ask("GET", "/subjects")
        assert (status, answer["error_code"]) == (401, 401), headers
        assert PASSWORDS["bob"] not in str(answer)


def test_plain_text_and_others_authorities_find_no_registry(registry: Registry) -> None:
    with pytest.raises((URLError, OSError)):
        urlopen(registry.url.replace("https", "http") + "/subjects", timeout=60)
    with pytest.raises(URLError) as told:
        urlopen(registry.url + "/subjects", timeout=60)
    assert isinstance(told.value.reason, ssl.SSLCertVerificationError)


@pytest.mark.parametrize("user", ["alice", "bob", "plain"])
def test_users_of_every_mechanism_log_in(cluster: SecuredCluster, registry: Registry, user: str) -> None:
    assert at(cluster, registry.url, user).status("GET", "/schemas/types") == 200
    by_token = Caller(registry.url, cluster.authority, bearer(cluster.token(user)))
    assert by_token.status("GET", "/schemas/types") == 200


def test_rights_on_topics_decide_about_subjects(cluster: SecuredCluster, registry: Registry) -> None:
    admin, alice, bob, carol = (at(cluster, registry.url, user) for user in ("admin", "alice", "bob", "carol"))
    assert alice.status("POST", "/subjects/orders-value/versions", {"schema": TEXT}) == 200
    status, answer = bob.ask("POST", "/subjects/orders-value/versions", {"schema": TEXT})
    assert (status, answer["error_code"]) == (403, 40301)
    assert "'orders'" in answer["message"]
    assert bob.status("GET", "/subjects/orders-value/versions/latest") == 200
    assert carol.status("GET", "/subjects/orders-value/versions/latest") == 403
    assert carol.status("GET", "/subjects/there-is-none-value/versions/latest") == 403  # as if it were there
    made = admin.ask("GET", "/subjects/secret-value/versions/1")[1]
    assert bob.ask("GET", "/subjects") == (200, ["orders-value"])
    assert {"orders-value", "secret-value"} <= set(admin.ask("GET", "/subjects")[1])
    assert [each["subject"] for each in bob.ask("GET", "/schemas")[1]] == ["orders-value"]
    for path in ("", "/schema", "/subjects", "/versions"):
        assert bob.status("GET", f"/schemas/ids/{made['id']}{path}") == 404
        assert admin.status("GET", f"/schemas/ids/{made['id']}{path}") == 200
    guid = admin.ask("GET", f"/schemas/ids/{made['id']}")[1]["guid"]
    assert (bob.status("GET", f"/schemas/guids/{guid}"), admin.status("GET", f"/schemas/guids/{guid}")) == (404, 200)
    reference = {"name": "S", "subject": "secret-value", "version": 1}
    stolen = {"schema": TEXT, "references": [reference]}
    assert alice.status("POST", "/subjects/orders-key/versions", stolen) == 403
    assert alice.status("DELETE", "/subjects/orders-value") == 403


def test_settings_of_all_subjects_need_the_cluster(cluster: SecuredCluster, registry: Registry) -> None:
    alice, carol = at(cluster, registry.url, "alice"), at(cluster, registry.url, "carol")
    wanted = {"compatibility": "FULL"}
    assert (alice.status("PUT", "/config", wanted), carol.status("PUT", "/config", wanted)) == (403, 200)
    assert (alice.status("GET", "/config"), carol.status("GET", "/config")) == (403, 200)
    assert alice.status("PUT", "/config/orders-value", wanted) == 403
    assert alice.status("PUT", "/mode", {"mode": "READONLY"}) == 403
    assert alice.status("GET", "/contexts") == 403


def test_a_right_that_is_given_counts_soon(cluster: SecuredCluster, registry: Registry) -> None:
    plain = at(cluster, registry.url, "plain")
    assert plain.status("POST", "/subjects/later-value/versions", {"schema": TEXT}) == 403
    with cluster.admin() as admin:
        admin.create_acls([rule("plain", AclOperation.WRITE, TOPIC, "later")])
    deadline = time.monotonic() + 60
    while plain.status("POST", "/subjects/later-value/versions", {"schema": TEXT}) != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert plain.status("GET", "/subjects/later-value/versions/1") == 200


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_confluents_client(cluster: SecuredCluster, registry: Registry, stack: ExitStack) -> None:
    def client(**login: Any) -> SchemaRegistryClient:
        made = SchemaRegistryClient({"url": registry.url, "ssl.ca.location": cluster.authority, **login})
        return stack.enter_context(made)

    alice = client(**{"basic.auth.user.info": f"alice:{PASSWORDS['alice']}"})
    id_ = alice.register_schema("orders-value", Schema(TEXT, "AVRO"))
    assert alice.get_schema(id_).schema_str is not None
    bob = client(**{"basic.auth.user.info": f"bob:{PASSWORDS['bob']}"})
    assert "orders-value" in bob.get_subjects()
    with pytest.raises(ConfluentError) as refused:
        bob.register_schema("orders-value", Schema(OTHER, "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
    token = cluster.token("alice")
    by_token = client(
        **{
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": token,
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
    )
    assert by_token.get_latest_version("orders-value").schema_id == id_
    wrong = client(**{"basic.auth.user.info": "alice:wrong"})
    with pytest.raises(ConfluentError) as unknown:
        wrong.get_subjects()
    assert unknown.value.http_status_code == 401


def test_our_client(cluster: SecuredCluster, registry: Registry) -> None:
    login = f"alice:{PASSWORDS['alice']}"
    settings = {"url": registry.url, "ssl.ca.location": cluster.authority}
    named = registry.url.replace("https://", f"https://{login}@")
    for given in (
        {**settings, "basic.auth.user.info": login},
        {**settings, "basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": login},
        {**settings, "url": named, "basic.auth.credentials.source": "URL"},
        {**settings, "url": named},
        {**settings, "bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": cluster.token("alice")},
    ):
        client = OurClient(given)
        assert client.versions("orders-value")
        client.close()
    with closing(OurClient(settings)) as unknown, pytest.raises(SchemaRegistryError) as refused:
        unknown.versions("orders-value")
    assert "401" in str(refused.value)
    with closing(OurClient({"url": registry.url})) as trusting, pytest.raises(UserError, match="cert"):
        trusting.versions("orders-value")


def test_changed_certificates_are_served_without_a_restart(cluster: SecuredCluster, tmp_path: Path) -> None:
    registry_certificate = tmp_path / "registry.pem"
    shutil.copy(cluster.certificate, registry_certificate)
    own = {
        "ssl.keystore.location": str(registry_certificate),
        "kafkastore.topic": "_other",
        "schema.registry.group.id": "other",
    }
    settings = {"listeners": "https://127.0.0.1:0", **cluster.door, **own, **cluster.client("admin", "kafkastore.")}
    with Registry(cluster.broker.bootstrap, **settings) as registry:
        _see_another_certificate(registry, registry_certificate, tmp_path)


def _see_another_certificate(registry: Registry, registry_certificate: Path, tmp_path: Path) -> None:
    host, port = registry.url.removeprefix("https://").split(":")
    before = ssl.get_server_certificate((host, int(port)))
    copy = tmp_path / "new.pem"
    copy.write_bytes(Path(Authority(tmp_path).pem("broker")).read_bytes())
    copy.replace(registry_certificate)
    assert ssl.get_server_certificate((host, int(port))) != before


# Connect


@pytest.fixture(scope="module")
def worker(cluster: SecuredCluster) -> Iterator[str]:
    """The URL of a distributed worker: its certificate stands under `listeners.https.`, its clients trust the
    authority.
    """
    settings = {
        "bootstrap.servers": cluster.broker.bootstrap,
        "group.id": "workers",
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.keystore.location": cluster.certificate,
        "authentication.method": "BASIC",
        **cluster.client("admin"),
    }
    command = [sys.executable, "-m", "headwater.cli.main", "connect", "worker", "--stop-on-eof"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    complaints = (cluster.directory / "connect.log").open("w")
    with complaints, subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=complaints, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("ready "), (cluster.directory / "connect.log").read_text()
            yield line.split("listeners=")[1].split()[0]
        finally:
            process.terminate()
            process.wait(60)


def test_connectors_are_groups(cluster: SecuredCluster, worker: str) -> None:
    admin, alice, bob, carol = (at(cluster, worker, user) for user in ("admin", "alice", "bob", "carol"))
    assert Caller(worker, cluster.authority, {}).status("GET", "/connectors") == 401
    config = {"connector.class": "FileStreamSource", "topic": "orders", "file": str(cluster.directory / "none")}
    made = {"name": "copy", "config": config}
    assert (bob.status("POST", "/connectors", made), alice.status("POST", "/connectors", made)) == (403, 403)
    until(lambda: carol.status("POST", "/connectors", made) in (201, 409), "the worker")
    until(lambda: admin.ask("GET", "/connectors")[1] == ["copy"], "the worker")
    assert bob.ask("GET", "/connectors") == (200, ["copy"])
    assert carol.ask("GET", "/connectors") == (200, [])
    assert (bob.status("GET", "/connectors/copy"), carol.status("GET", "/connectors/copy")) == (200, 403)
    assert bob.status("PUT", "/connectors/copy/pause") == 403
    until(lambda: alice.status("PUT", "/connectors/copy/pause") == 202, "the worker")
    assert alice.status("PUT", "/connectors/copy/config", config) == 403
    assert alice.status("DELETE", "/connectors/copy/offsets") == 403
    assert (alice.status("GET", "/admin/loggers"), carol.status("GET", "/admin/loggers")) == (403, 200)
    assert (alice.status("GET", "/metrics"), carol.status("GET", "/metrics")) == (403, 200)
    assert alice.status("PUT", "/connectors/copy/fence", []) == 400, "signed by workers alone"
    forged = {"X-Connect-Authorization": "Zm9yZ2Vk", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
    forger = Caller(worker, cluster.authority, forged)
    for method, path in (("PUT", "/connectors/copy/fence"), ("POST", "/connectors/copy/tasks")):
        assert forger.status(method, path, []) == 403
    until(lambda: carol.status("DELETE", "/connectors/copy") == 204, "the worker")


# SQL


@pytest.fixture(scope="module")
def sql(cluster: SecuredCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    settings = {"listeners": "https://127.0.0.1:0", **cluster.door, **cluster.client("admin")}
    server = SqlServer(cluster.broker.bootstrap, tmp_path_factory.mktemp("sql"), "secured_", **settings)
    with server as started:
        yield started


def test_statements_need_what_a_client_would(cluster: SecuredCluster, sql: SqlServer) -> None:
    admin, alice, bob, carol = (at(cluster, sql.url, user) for user in ("admin", "alice", "bob", "carol"))

    def run(caller: Caller, text: str) -> int:
        return caller.status("POST", "/ksql", {"ksql": text})

    assert Caller(sql.url, cluster.authority, {}).status("GET", "/info") == 401
    assert carol.status("GET", "/info") == 200
    create = "CREATE STREAM o (n INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);"
    assert run(alice, create) == 403, "no right to make the topic"
    assert run(admin, create) == 200
    assert run(bob, "INSERT INTO o (n) VALUES (1);") == 403
    assert run(alice, "INSERT INTO o (n) VALUES (7);") == 200
    query = {"sql": "SELECT * FROM o;"}
    status, rows = bob.ask("POST", "/query-stream", query)
    assert status == 200
    assert "[7]" in rows
    assert carol.status("POST", "/query-stream", query) == 403
    joined = {"sql": "SELECT count(*) FROM o a JOIN o b ON a.n = b.n"}
    assert (bob.status("POST", "/query-stream", joined), carol.status("POST", "/query-stream", joined)) == (200, 403)
    raw = {"sql": 'SELECT count(*) AS c FROM (SELECT * FROM "orders") AS x'}
    assert bob.status("POST", "/query-stream", raw) == 200
    hidden, absent = (
        carol.ask("POST", "/query-stream", {"sql": raw["sql"].replace("orders", topic)})
        for topic in ("orders", "absent")
    )
    assert hidden[0] == 400, "a topic that one may not describe reads like one that is not there"
    # DuckDB's suggestion hangs on the letters of what was asked for.
    told = [
        re.sub(r"Did you mean .*?\?", "", json.dumps(each)).replace("orders", "absent") for each in (hidden, absent)
    ]
    assert told[0] == told[1]
    assert 'Did you mean \\\\"orders' not in json.dumps(hidden)
    assert carol.status("POST", "/query", {"ksql": "PRINT 'orders' FROM BEGINNING LIMIT 1;"}) == 403
    rows_in = Caller(sql.url, cluster.authority, basic("bob"))
    assert rows_in.status("POST", "/inserts-stream", {"target": "O"}) == 403
    copy = "CREATE STREAM c WITH (KAFKA_TOPIC='copies') AS SELECT * FROM o;"
    assert run(alice, copy) == 403, "no right to write the sink"
    assert (run(bob, "DROP STREAM o;"), run(alice, "TERMINATE ALL;")) == (403, 403)
    assert [each["name"] for each in bob.ask("POST", "/ksql", {"ksql": "SHOW STREAMS;"})[1][0]["streams"]] == ["O"]
    assert carol.ask("POST", "/ksql", {"ksql": "SHOW STREAMS;"})[1][0]["streams"] == []
    assert [each["name"] for each in bob.ask("POST", "/ksql", {"ksql": "SHOW TOPICS;"})[1][0]["topics"]] == ["orders"]
    assert run(bob, "SHOW PROPERTIES;") == 403
    shown = admin.ask("POST", "/ksql", {"ksql": "SHOW PROPERTIES;"})[1]
    assert CANARY not in json.dumps(shown)
    by_token = Caller(sql.url, cluster.authority, bearer(cluster.token("bob")))
    assert by_token.status("POST", "/query-stream", query) == 200
