"""MongoSink and MongoSource on a server that speaks MongoDB's protocol: collected only under `make soak`, for its build
(see conftest.py).
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from bson import json_util

from compat.support.ferretdb import FerretDb, running_ferretdb
from headwater.connect.connectors.mongo.sink import MongoSinkConnector
from headwater.connect.connectors.mongo.source import MongoSourceConnector
from headwater.connect.errors import ConnectError, RetriableError
from headwater.testing.connect import ConnectWorker, SinkKit, SourceKit

pytestmark = [pytest.mark.soak(only=True), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server() -> Iterator[FerretDb]:
    with running_ferretdb() as made:
        yield made


def sink(server: FerretDb, collection: str, **config: str) -> SinkKit:
    named = {name.replace("_", "."): value for name, value in config.items()}
    return SinkKit(
        MongoSinkConnector, {"connection.uri": server.url, "database": "shop", "collection": collection, **named}
    )


def put(kit: SinkKit, *pairs: tuple[Any, Any]) -> None:
    kit.put(*(kit.record(value, key=key) for key, value in pairs))


def test_documents_are_replaced_and_deleted_by_key_though_records_come_twice(server: FerretDb) -> None:
    kit = sink(
        server, "goods", document_id_strategy="FullKeyStrategy", delete_on_null_values="true", max_batch_size="3"
    )
    pairs = [("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3, "in": {"x": [1]}}), ("c", {"n": 4}), ("b", None)]
    for _ in range(2):
        put(kit, *pairs)
    kit.close()
    assert server.documents("goods") == [{"_id": "a", "n": 3, "in": {"x": [1]}}, {"_id": "c", "n": 4}]


def test_updates_leave_other_fields_and_note_their_time(server: FerretDb) -> None:
    server.insert("updates", {"_id": 1, "kept": True, "n": 0})
    kit = sink(server, "updates", writemodel_strategy="UpdateOneTimestampsStrategy")
    put(kit, (None, {"_id": 1, "n": 5}), (None, {"_id": 2, "n": 6}))
    kit.close()
    first, second = server.documents("updates")
    assert (first["kept"], first["n"], "_insertedTS" in first) == (True, 5, False)
    assert second["_insertedTS"] == second["_modifiedTS"]


@pytest.mark.parametrize("ordered", ["true", "false"])
def test_documents_that_the_server_refuses_are_reported_and_the_others_written(server: FerretDb, ordered: str) -> None:
    name = f"refused_{ordered}"
    with server.client() as client:
        client["shop"][name].create_index("n", unique=True)
    kit = sink(server, name, writemodel_strategy="InsertOneDefaultStrategy", bulk_write_ordered=ordered)
    put(kit, (None, {"_id": 1, "n": 1}), (None, {"_id": 2, "n": 1}), (None, "no document"), (None, {"_id": 3, "n": 3}))
    kit.close()
    assert [document["_id"] for document in server.documents(name)] == [1, 3]
    told = {record.offset: str(error) for record, error in kit.reported}
    assert sorted(told) == [1, 2]
    assert "MongoDB refused the document" in told[1]
    assert "no document" in told[2]


def test_a_server_that_is_away_is_asked_again(server: FerretDb) -> None:
    kit = SinkKit(
        MongoSinkConnector,
        {"connection.uri": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200", "database": "shop"},
    )
    with pytest.raises(RetriableError, match="MongoDB said"):
        put(kit, (None, {"n": 1}))
    kit.close()


def test_a_poll_gives_each_document_once_in_order_and_goes_on_after_a_restart(server: FerretDb) -> None:
    server.insert("polled", *({"_id": number, "n": number // 2, "s": "é"} for number in (3, 1, 2, 5, 4)), {"_id": 9})
    config = {
        "connection.uri": server.url, "database": "shop", "collection": "polled", "poll.field": "n", "poll.interval.ms": "1",
        "poll.max.batch.size": "2", "topic.prefix": "p",
    }  # fmt: skip
    kit = SourceKit(MongoSourceConnector, config)
    first = kit.poll()
    kit.commit()
    kit.poll()
    kit.close()
    assert [json.loads(each.key)["_id"] for each in first] == [1, 2]
    assert (first[0].topic, json_util.loads(first[0].value)) == ("p.shop.polled", {"_id": 1, "n": 0, "s": "é"})
    kit.crash()
    server.insert("polled", {"_id": 0, "n": 2}, {"_id": 6, "n": 2})
    again = [json.loads(each.key)["_id"] for _ in range(4) for each in kit.poll()]
    assert again == [3, 0, 4, 5, 6]
    kit.close()


def test_change_streams_need_a_server_that_has_them(server: FerretDb) -> None:
    kit = SourceKit(MongoSourceConnector, {"connection.uri": server.url, "database": "shop"})
    with pytest.raises(ConnectError, match="MongoDB said"):
        kit.poll()
    kit.close()


def test_documents_go_through_a_topic_into_another_collection_though_the_server_goes_away(
    server: FerretDb, broker_address: str, topic: str
) -> None:
    server.insert("here", *({"_id": number, "n": number} for number in range(100)))
    reading = {
        "connector.class": "com.mongodb.kafka.connect.MongoSourceConnector",
        "connection.uri": f"{server.url}?serverSelectionTimeoutMS=1000",
        "database": "shop",
        "collection": "here",
        "poll.field": "n",
        "poll.interval.ms": "50",
        "topic.namespace.map": json.dumps({"*": topic}),
    }
    writing = {
        "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
        "connection.uri": f"{server.url}?serverSelectionTimeoutMS=1000",
        "topics": topic,
        "database": "shop",
        "collection": "there",
        "document.id.strategy": "ProvidedInValueStrategy",
    }

    def same() -> bool:
        return bool(server.documents("there")) and server.documents("here") == server.documents("there")

    with ConnectWorker(broker_address) as worker:
        worker.create(f"{topic}-source", reading)
        worker.create(f"{topic}-sink", writing)
        worker.until(same, 200)
        server.stop()
        server.start()
        server.insert("here", *({"_id": number, "n": number} for number in range(100, 150)))
        worker.until(same, 200)
        assert worker.status(f"{topic}-sink")["tasks"][0]["state"] == "RUNNING"
