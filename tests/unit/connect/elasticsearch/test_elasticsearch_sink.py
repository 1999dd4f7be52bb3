"""ElasticsearchSink against a small server that speaks `_bulk`: what is written, tried again, reported, and told."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.support.certificates import Authority
from headwater.base.security.tls import TlsSettings, server_context
from headwater.connect.connectors.elasticsearch.sink import ElasticsearchSinkConnector
from headwater.connect.data import schema as s
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, RetriableError
from headwater.testing.connect import SinkKit
from unit.connect.elasticsearch.bulk_server import BulkServer, bulk_server, error

BUSY = error(429, "es_rejected_execution_exception", "queue is full")
BAD = error(400, "mapper_parsing_exception", "failed to parse field [n]. Preview of field's value: 'geheim'")


@pytest.fixture
def server() -> Iterator[BulkServer]:
    with bulk_server() as made:
        yield made


def sink(server: BulkServer, **given: str) -> SinkKit:
    settings = {name.replace("_", "."): value for name, value in given.items()}
    return SinkKit(ElasticsearchSinkConnector, {"connection.url": server.url, "schema.ignore": "true", **settings})


def keyed(kit: SinkKit, *values: Any, key: str = "k") -> list[Any]:
    return [kit.record(each, key=f"{key}{at}") for at, each in enumerate(values)]


def test_records_are_documents_and_tombstones_delete(server: BulkServer) -> None:
    kit = sink(server, behavior_on_null_values="delete")
    kit.put(kit.record({"n": 1}, key="a"), kit.record({"n": 2}, key="b"), kit.record(None, key="a"))
    kit.put(kit.record({"n": 3}, key="b"))
    assert server.documents("t") == {"b": {"n": 3}}
    assert [method for method, _ in server.requests] == ["HEAD", "PUT", "POST", "POST"]
    assert kit.commit() == 4
    kit.close()


def test_records_that_come_again_change_nothing(server: BulkServer, caplog: pytest.LogCaptureFixture) -> None:
    kit = sink(server, behavior_on_null_values="delete", behavior_on_version_conflict="warn")
    records = [kit.record(each, key="a") for each in ({"n": 1}, {"n": 2}, None, {"n": 3})]
    kit.put(*records)
    before = server.indices["t"]["a"]
    with caplog.at_level(logging.WARNING, "headwater.connect"):
        kit.put(*records[:3])  # as after a crash
    assert server.indices["t"]["a"] == before == (3, {"n": 3})
    assert kit.reported == []
    assert caplog.text.count("event=version-conflict") == 3
    kit.close()


def test_what_was_refused_for_now_goes_again_alone(server: BulkServer) -> None:
    kit = sink(server, retry_backoff_ms="50")
    records = keyed(kit, {"n": 0}, {"n": 1}, {"n": 2})
    server.faults = {"k1": [BUSY, BUSY]}
    for delay in (50, 100):
        with pytest.raises(RetriableError, match="queue is full"):
            kit.put(*records)
        assert kit.context.timeout_ms == delay
    kit.put(*records)
    assert server.bulks == [[("index", "k0"), ("index", "k1"), ("index", "k2")], [("index", "k1")], [("index", "k1")]]
    assert server.documents("t") == {"k0": {"n": 0}, "k1": {"n": 1}, "k2": {"n": 2}}
    kit.put(*records[:1])  # what is behind is forgotten: a record that comes again is sent again
    assert server.bulks[-1] == [("index", "k0")]
    kit.close()


def test_a_pause_doubles_and_the_task_fails_after_its_tries(server: BulkServer) -> None:
    kit = sink(server, max_retries="3", retry_backoff_ms="100")
    server.replies = [(503, b""), None, None, (200, b"<html>"), (429, b"{}")]  # None twice: a new connection, too
    delays = []
    for _ in range(3):
        with pytest.raises(RetriableError):
            kit.put(kit.record({}, key="a"))
        delays.append(kit.context.timeout_ms)
    assert delays == [100, 200, 400]
    with pytest.raises(ConnectError, match=r"answered with 429.*after 4 tries") as caught:
        kit.put(kit.record({}, key="a"))
    assert type(caught.value) is ConnectError
    kit.close()


def test_a_success_ends_the_count_of_failures(server: BulkServer) -> None:
    kit = sink(server, max_retries="1")
    for _ in range(3):
        server.replies = [(503, b"")]
        with pytest.raises(RetriableError):
            kit.put(kit.record({}, key="a"))
        kit.put(kit.record({}, key="a"))
    kit.close()


def test_tries_end_after_the_time_for_them(server: BulkServer) -> None:
    kit = sink(server, max_retries="100", flush_timeout_ms="1000")
    now = [0.0]
    kit.task.clock = lambda: now[0]  # type: ignore[attr-defined]
    server.replies = [(503, b"")] * 3
    for now[0] in (5.0, 5.9):
        with pytest.raises(RetriableError):
            kit.put(kit.record({}, key="a"))
    now[0] = 6.0
    with pytest.raises(ConnectError, match="after 3 tries"):
        kit.put(kit.record({}, key="a"))
    kit.close()


def test_a_refused_document_is_reported_once_and_the_others_are_written(server: BulkServer) -> None:
    kit = sink(server)
    records = keyed(kit, {"n": 0}, {"n": "geheim"}, {"n": 2}, {"n": 3})
    server.faults = {"k1": [BAD], "k3": [BUSY]}
    with pytest.raises(RetriableError):
        kit.put(*records)
    kit.put(*records)
    assert [(record.offset, str(error)) for record, error in kit.reported] == [
        (1, "Elasticsearch refused the document: mapper_parsing_exception: failed to parse field [n].")
    ]
    assert sorted(server.documents("t")) == ["k0", "k2", "k3"]
    kit.close()


@pytest.mark.parametrize(
    ("behavior", "tolerance", "reported", "logged"),
    [("ignore", "none", 0, 0), ("warn", "none", 0, 1), ("warn", "all", 1, 1), ("ignore", "all", 1, 0), ("fail", "none", 1, 0)],
)  # fmt: skip
def test_malformed_documents(
    server: BulkServer, caplog: pytest.LogCaptureFixture, behavior: str, tolerance: str, reported: int, logged: int
) -> None:
    kit = sink(server, behavior_on_malformed_documents=behavior, errors_tolerance=tolerance)
    server.faults = {"k0": [BAD]}
    with caplog.at_level(logging.WARNING, "headwater.connect"):
        kit.put(*keyed(kit, {"n": 0}, {"n": 1}))
    assert (len(kit.reported), caplog.text.count("event=record-ignored")) == (reported, logged)
    assert "geheim" not in caplog.text
    assert sorted(server.documents("t")) == ["k1"]
    kit.close()


def test_records_that_cannot_be_documents(server: BulkServer) -> None:
    kit = sink(server)
    kit.put(kit.record("text", key="a"), kit.record({}, key=None), kit.record(None, key="c"), kit.record({}, key="d"))
    assert [record.offset for record, _ in kit.reported] == [0, 1, 2]
    assert sorted(server.documents("t")) == ["d"]
    kit.close()
    dropping = sink(server, drop_invalid_message="true")
    dropping.put(dropping.record("text", key="a"))
    assert dropping.reported == []
    dropping.close()


def test_trouble_of_the_cluster_reports_no_record(server: BulkServer) -> None:
    kit = sink(server)
    server.faults = {"k0": [BAD], "k1": [error(403, "security_exception", "no permissions")]}
    with pytest.raises(ConnectError, match="no permissions") as caught:
        kit.put(*keyed(kit, {"n": 0}, {"n": 1}))
    assert type(caught.value) is ConnectError
    assert kit.reported == []
    kit.close()


def test_updates_keep_their_order_though_one_has_to_wait(server: BulkServer) -> None:
    kit = sink(server, write_method="upsert", batch_size="2")
    records = [kit.record({"n": n, f"f{n}": n}, key="a" if n % 2 else "b") for n in range(5)]
    server.faults = {"a": [BUSY]}
    with pytest.raises(RetriableError):
        kit.put(*records)
    assert server.documents("t")["b"] == {"n": 0, "f0": 0}  # nothing behind it was sent
    kit.put(*records)
    assert server.bulks == [
        [("update", "b"), ("update", "a")],
        [("update", "a"), ("update", "b")],
        [("update", "a"), ("update", "b")],
    ]
    assert server.documents("t") == {"a": {"n": 3, "f1": 1, "f3": 3}, "b": {"n": 4, "f0": 0, "f2": 2, "f4": 4}}
    kit.close()


def test_bulks_on_their_way_at_once_write_the_last_of_each_key(server: BulkServer) -> None:
    kit = sink(server, batch_size="3", max_in_flight_requests="4")
    kit.put(*(kit.record({"n": n}, key=f"k{n % 5}") for n in range(50)))
    assert server.documents("t") == {f"k{n}": {"n": 45 + n} for n in range(5)}
    assert len(server.bulks) == 17
    kit.close()


def test_one_of_several_bulks_goes_again(server: BulkServer) -> None:
    kit = sink(server, batch_size="2", max_in_flight_requests="2")
    records = keyed(kit, *({"n": n} for n in range(6)))
    server.replies = [(503, b"")]
    with pytest.raises(RetriableError):
        kit.put(*records)
    kit.put(*records)
    assert sorted(len(each) for each in server.bulks) == [2, 2, 2, 2]
    assert len(server.documents("t")) == 6
    kit.close()


def test_what_is_too_large_is_divided(server: BulkServer) -> None:
    kit = sink(server)
    server.size_max = 400
    kit.put(*keyed(kit, {"n": 0}, {"n": 1}, {"n": 2}, {"n": "x" * 400}, {"n": 4}))
    assert sorted(server.documents("t")) == ["k0", "k1", "k2", "k4"]
    assert [(record.offset, str(error)) for record, error in kit.reported] == [
        (3, "Elasticsearch refused the document: The document is too large for the server")
    ]
    kit.close()


def test_a_request_has_as_many_bytes_as_it_may(server: BulkServer) -> None:
    kit = sink(server, bulk_size_bytes="200", max_in_flight_requests="1")
    kit.put(*keyed(kit, *({"n": n} for n in range(4))))
    assert [len(each) for each in server.bulks] == [2, 2]
    kit.close()


SCHEMA = s.struct([("n", s.INT64)])


def test_an_index_gets_the_mapping_of_the_first_schema(server: BulkServer) -> None:
    kit = sink(server, schema_ignore="false")
    kit.put(kit.record(Struct(SCHEMA, {"n": 1}), schema=SCHEMA, key="a"))
    assert server.mappings["t"] == {"properties": {"n": {"type": "long"}}}
    kit.close()
    server.mappings["t"] = {}  # an index that somebody has made without one
    again = sink(server, schema_ignore="false")
    again.put(again.record(Struct(SCHEMA, {"n": 1}), schema=SCHEMA, key="a"))
    assert server.mappings["t"] == {"properties": {"n": {"type": "long"}}}
    again.close()


def test_an_index_with_a_mapping_keeps_it(server: BulkServer) -> None:
    server.indices["t"], server.mappings["t"] = {}, {"properties": {"n": {"type": "keyword"}}}
    kit = sink(server, schema_ignore="false")
    kit.put(kit.record({"n": 1}, key="a"))
    assert server.mappings["t"] == {"properties": {"n": {"type": "keyword"}}}
    kit.close()


def test_a_mapping_needs_a_schema(server: BulkServer) -> None:
    kit = sink(server, schema_ignore="false")
    kit.put(kit.record({"n": 1}, key="a"))
    assert [str(error) for _, error in kit.reported] == [
        "Cannot infer mapping without schema: schema.ignore=true leaves that to the server"
    ]
    assert server.indices == {}
    kit.close()


def test_records_without_a_schema_ask_the_server_once_a_put_for_an_index_that_has_no_mapping(
    server: BulkServer,
) -> None:
    """Each of them asked; the first that has a schema makes the index."""
    kit = sink(server, schema_ignore="false")
    kit.put(*(kit.record({"n": at}, key="a") for at in range(3)))
    assert [method for method, _ in server.requests] == ["HEAD"]
    typed = kit.record(Struct(SCHEMA, {"n": 3}), schema=SCHEMA, key="b")
    kit.put(kit.record({"n": 4}, key="a"), typed, kit.record({"n": 5}, key="c"))
    assert [method for method, _ in server.requests] == ["HEAD", "HEAD", "PUT", "POST"]
    assert [record.offset for record, _ in kit.reported] == [0, 1, 2, 4]
    assert sorted(server.indices["t"]) == ["b", "c"]
    kit.close()


def test_an_index_that_is_deleted_meanwhile_is_made_again(server: BulkServer) -> None:
    kit = sink(server)
    kit.put(kit.record({"n": 0}, key="a"))
    del server.indices["t"]
    server.faults = {"a": [error(404, "index_not_found_exception", "no such index [t]")]}
    with pytest.raises(RetriableError, match="no such index"):
        kit.put(kit.record({"n": 1}, key="a"))
    del server.indices["t"]
    kit.put(kit.record({"n": 1}, key="a"))
    assert [method for method, _ in server.requests] == ["HEAD", "PUT", "POST", "POST", "HEAD", "PUT", "POST"]
    kit.close()


def test_an_index_that_another_task_makes_is_there(server: BulkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.indices["t"] = {}
    other = server.other
    monkeypatch.setattr(server, "other", lambda method, *more: (404, b"") if method == "HEAD" else other(method, *more))
    kit = sink(server)
    kit.put(kit.record({"n": 1}, key="a"))
    assert server.documents("t") == {"a": {"n": 1}}
    kit.close()


def test_an_alias_that_must_be_there_is_not_made(server: BulkServer) -> None:
    kit = sink(server, topic_to_external_resource_mapping="t:Alias", external_resource_usage="alias_index")
    kit.put(kit.record({"n": 1}, key="a"))
    assert [method for method, _ in server.requests] == ["POST"]
    assert server.documents("Alias") == {"a": {"n": 1}}
    kit.close()


# Connections


def test_a_server_that_is_away_is_passed_over(server: BulkServer) -> None:
    kit = sink(server, connection_url=f"http://127.0.0.1:1,{server.url}")
    for n in range(3):
        kit.put(kit.record({"n": n}, key="a"))
    assert server.documents("t") == {"a": {"n": 2}}
    kit.close()


def test_servers_that_are_all_away_are_told(server: BulkServer) -> None:
    kit = sink(server, connection_url="http://127.0.0.1:1,http://localhost:1")
    with pytest.raises(RetriableError, match=r"cannot be reached at .*:1: .*refused"):
        kit.put(kit.record({}, key="a"))
    kit.close()


def test_a_connection_that_the_server_gave_up_meanwhile_is_made_anew(server: BulkServer) -> None:
    kit = sink(server)
    kit.put(kit.record({"n": 0}, key="a"))
    server.replies = [None]  # instead of an answer on the connection that was kept
    kit.put(kit.record({"n": 1}, key="a"))
    assert server.documents("t") == {"a": {"n": 1}}
    kit.close()


def test_a_login_and_a_path_are_sent_and_a_refused_login_is_told_without_its_password(server: BulkServer) -> None:
    kit = sink(
        server, connection_url=f"{server.url}/search/", connection_username="u", connection_password="geh:eim",
        topic_to_external_resource_mapping="t:i", external_resource_usage="index",
    )  # fmt: skip
    kit.put(kit.record({}, key="a"))
    assert server.requests[0][1].startswith("/search/_bulk?filter_path=")
    assert server.headers[0]["Authorization"] == "Basic dTpnZWg6ZWlt"
    server.replies = [(401, json.dumps({"error": {"type": "security_exception", "reason": "wrong"}}).encode())]
    with pytest.raises(ConnectError, match="answered with 401: security_exception: wrong") as caught:
        kit.put(kit.record({}, key="a"))
    assert "geh:eim" not in str(caught.value)
    assert "dTpnZWg6ZWlt" not in str(caught.value)
    kit.close()


def test_a_redirection_is_not_followed(server: BulkServer) -> None:
    kit = sink(server)
    server.replies = [(302, b"")]
    with pytest.raises(ConnectError, match="answered with 302"):
        kit.put(kit.record({}, key="a"))
    kit.close()


def test_requests_and_answers_are_compressed(server: BulkServer) -> None:
    kit = sink(server, connection_compression="true")
    kit.put(kit.record({"n": 1}, key="a"))
    assert server.headers[-1]["Content-Encoding"] == server.headers[-1]["Accept-Encoding"] == "gzip"
    assert server.documents("t") == {"a": {"n": 1}}
    kit.close()


def test_tls_with_a_certificate_that_is_trusted_and_one_that_is_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with bulk_server(server_context(TlsSettings(keystore_location=authority.pem("search")))) as server:
        trusting = {"elastic.https.ssl.truststore.location": authority.path, "elastic.security.protocol": "SSL"}
        kit = sink(server, **trusting)
        kit.put(kit.record({"n": 1}, key="a"))
        assert server.documents("t") == {"a": {"n": 1}}
        kit.close()
        wary = sink(server)
        with pytest.raises(RetriableError, match="certificate verify failed"):
            wary.put(wary.record({"n": 2}, key="a"))
        wary.close()
    assert server.documents("t") == {"a": {"n": 1}}
