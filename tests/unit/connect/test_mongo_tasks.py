"""Tasks of MongoSink and MongoSource on a client that answers by a script."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pymongo.errors import BulkWriteError, OperationFailure

from headwater.connect.connectors.mongo.client import told
from headwater.connect.connectors.mongo.refusals import is_there_already, trouble_in
from headwater.connect.connectors.mongo.sink import MongoSinkConnector
from headwater.connect.connectors.mongo.source import MongoSourceConnector
from headwater.connect.errors import ConnectError, RetriableError
from headwater.testing.connect import SinkKit, SourceKit


def refusal(index: int, code: int, **more: Any) -> dict[str, Any]:
    return {"index": index, "code": code, "errmsg": "no", **more}


SAME_ID = {"keyPattern": {"_id": 1}}


class FakeCollections:
    """Any database and collection. Each request has the next answer: writeErrors, or a whole error's details."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.sizes: list[int] = []

    def __getitem__(self, _name: str) -> "FakeCollections":
        return self

    def bulk_write(self, requests: Sequence[Any], *, ordered: bool) -> None:
        self.sizes.append(len(requests))
        answer = self._answers.pop(0) if self._answers else []
        details = answer if isinstance(answer, dict) else {"writeErrors": answer}
        if any(details.values()):
            raise BulkWriteError(details)

    def close(self) -> None: ...


def sink(monkeypatch: pytest.MonkeyPatch, *answers: Any, **config: str) -> tuple[SinkKit, FakeCollections]:
    fake = FakeCollections(*answers)
    monkeypatch.setattr("headwater.connect.connectors.mongo.sink.client_of", lambda _config: fake)
    named = {name.replace("_", "."): value for name, value in config.items()}
    return SinkKit(MongoSinkConnector, {"database": "d", **named}), fake


def put(kit: SinkKit) -> None:
    kit.put(*(kit.record({"_id": number}) for number in range(3)))


def test_an_insert_that_comes_again_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [refusal(0, 11000, **SAME_ID)], [refusal(0, 11000, keyPattern={"n": 1})]
    kit, fake = sink(monkeypatch, *answers, writemodel_strategy="InsertOneDefaultStrategy")
    put(kit)
    assert [record.offset for record, _ in kit.reported] == [1]
    assert fake.sizes == [3, 2, 1]
    kit.close()


@pytest.mark.parametrize(
    ("kind", "error", "expected"),
    [
        ("insert", refusal(0, 11000, **SAME_ID), True),
        ("replace", refusal(0, 11000, **SAME_ID), False),
        ("insert", refusal(0, 11000), False),
        ("insert", refusal(0, 11000, keyPattern={"_id": 1, "n": 1}), False),
        ("insert", refusal(0, 121, **SAME_ID), False),
    ],
)
def test_a_document_is_there_already(kind: str, error: dict[str, Any], expected: bool) -> None:
    assert is_there_already(kind, error) is expected


@pytest.mark.parametrize("code", [2, 9, 14, 66, 121, 10334, 11000, 17280])
def test_a_refusal_for_what_is_in_the_document_is_reported(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    kit, _ = sink(monkeypatch, [refusal(1, code)])
    put(kit)
    assert [(record.offset, str(error)) for record, error in kit.reported] == [
        (1, f"MongoDB refused the document: no ({code})")
    ]
    kit.close()


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ({"writeErrors": [refusal(0, 121), refusal(1, 13)]}, ConnectError),  # Unauthorized
        ({"writeErrors": [refusal(0, 121), refusal(1, 14031)]}, RetriableError),  # OutOfDiskSpace
        ({"writeErrors": [refusal(0, 112)]}, RetriableError),  # WriteConflict
        ({"writeErrors": [refusal(0, 121)], "writeConcernErrors": [{"code": 64, "errmsg": "late"}]}, RetriableError),
        ({"writeErrors": [], "writeConcernErrors": [{"code": 91, "errmsg": "away"}]}, RetriableError),
        ({"writeErrors": [], "writeConcernErrors": [{"code": 100, "errmsg": "too many"}]}, ConnectError),
    ],
)
def test_trouble_of_the_database_is_no_bad_record(
    monkeypatch: pytest.MonkeyPatch, details: dict[str, Any], error: type[Exception]
) -> None:
    kit, _ = sink(monkeypatch, details, bulk_write_ordered="false")
    with pytest.raises(ConnectError, match="MongoDB") as caught:
        put(kit)
    assert type(caught.value) is error
    assert kit.reported == []
    kit.close()


def test_only_documents_are_refused_without_trouble() -> None:
    assert trouble_in({"writeErrors": [refusal(0, 121)], "writeConcernErrors": []}) is None


def test_a_request_that_failed_is_tried_again_if_it_may_succeed() -> None:
    assert type(told(OperationFailure("late", 50))) is RetriableError
    assert type(told(OperationFailure("no right", 13))) is ConnectError


class FakeStream:
    """Gives its changes; after an invalidate it is dead."""

    def __init__(self, *changes: dict[str, Any]) -> None:
        self._changes = list(changes)
        self.alive, self.closed = True, False
        self.resume_token: Any = {"_data": "start"}

    def try_next(self) -> dict[str, Any] | None:
        assert not self.closed
        if not self._changes:
            return None
        change = self._changes.pop(0)
        self.resume_token = change["_id"]
        self.alive = change["operationType"] != "invalidate"
        return change

    def close(self) -> None:
        self.closed = True


class FakeWatched:
    def __init__(self, *streams: FakeStream) -> None:
        self._streams = list(streams)
        self.options: list[dict[str, Any]] = []
        self.stages: list[list[dict[str, Any]]] = []

    def __getitem__(self, _name: str) -> "FakeWatched":
        return self

    def find(self) -> list[dict[str, Any]]:
        return [{"_id": number} for number in range(3)]

    def aggregate(self, stages: list[dict[str, Any]], **_options: Any) -> list[dict[str, Any]]:
        self.stages.append(stages)
        return [{"_id": {"_id": 7, "copyingData": True}, "operationType": "insert", "documentKey": {"_id": 7}, "fullDocument": {"_id": 7}}]  # fmt: skip

    def watch(self, _pipeline: Any, **options: Any) -> FakeStream:
        self.options.append(options)
        return self._streams.pop(0)

    def close(self) -> None: ...


def change(number: int, kind: str) -> dict[str, Any]:
    made: dict[str, Any] = {"_id": {"_data": str(number)}, "operationType": kind}
    if kind != "invalidate":
        made["ns"] = {"db": "d", "coll": "c"}
    if kind == "insert":
        made |= {"documentKey": {"_id": number}, "fullDocument": {"_id": number}}
    return made


@pytest.mark.parametrize(("only_documents", "given"), [("false", [2, 1]), ("true", [1, 1])])
def test_a_stream_goes_on_after_its_collection_was_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, only_documents: str, given: list[int]
) -> None:
    first = FakeStream(change(1, "insert"), change(2, "drop"), change(3, "invalidate"))
    second = FakeStream(change(4, "insert"))
    watched = FakeWatched(first, second)
    monkeypatch.setattr("headwater.connect.connectors.mongo.source.client_of", lambda _config: watched)
    config = {"publish.full.document.only": only_documents, "publish.full.document.only.tombstone.on.delete": "true"}
    kit = SourceKit(MongoSourceConnector, {"database": "d", "collection": "c", **config})
    polls = [kit.poll(), kit.poll()]
    kit.close()
    assert [len(records) for records in polls] == given
    assert {record.topic for records in polls for record in records} == {"d.c"}
    assert (first.closed, second.closed) == (True, True)
    assert [options["start_after"] for options in watched.options] == [None, {"_data": "3"}]
    assert not any("resume_after" in options for options in watched.options)
    assert "event=change-stream-ended" in caplog.text


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({}, [{"_id": 1}, {"_id": {"_data": "2"}}]),
        ({"change.stream.document.key.as.key": "false"}, [{"_id": {"_data": "1"}}, {"_id": {"_data": "2"}}]),
        ({"publish.full.document.only": "true"}, [{"_id": 1}]),
    ],
)
def test_the_key_is_that_of_the_document(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, str], keys: list[Any]
) -> None:
    """It was the change's own: records of one document were in any partition, and compaction took none away."""
    watched = FakeWatched(FakeStream(change(1, "insert"), change(2, "drop")))
    monkeypatch.setattr("headwater.connect.connectors.mongo.source.client_of", lambda _config: watched)
    kit = SourceKit(MongoSourceConnector, {"database": "d", "collection": "c", **config})
    assert [json.loads(record.key) for record in kit.poll()] == keys
    kit.close()


def test_stages_are_for_documents_that_are_copied_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """All documents were copied, whatever `pipeline` left out of the changes."""
    watched = FakeWatched(FakeStream())
    monkeypatch.setattr("headwater.connect.connectors.mongo.source.client_of", lambda _config: watched)
    stage = {"$match": {"fullDocument.n": 1}}
    config = {"startup.mode": "copy_existing", "pipeline": json.dumps([stage])}
    kit = SourceKit(MongoSourceConnector, {"database": "d", "collection": "c", **config})
    (record,) = kit.poll()
    kit.close()
    assert json.loads(record.key) == {"_id": 7}
    assert json.loads(record.value)["_id"] == {"_id": 7, "copyingData": True}
    ((first, *rest),) = watched.stages
    assert rest == [stage]
    assert first["$replaceRoot"]["newRoot"]["ns"] == {"db": "d", "coll": "c"}


def test_documents_that_are_all_copied_are_not_copied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing had changed before the restart, and so no record said that the copy was through."""
    watched = FakeWatched(*(FakeStream() for _ in range(3)))
    monkeypatch.setattr("headwater.connect.connectors.mongo.source.client_of", lambda _config: watched)
    more = {"startup.mode": "copy_existing", "poll.max.batch.size": "2"}
    kit = SourceKit(MongoSourceConnector, {"database": "d", "collection": "c", **more})
    assert len(kit.poll()) == 2
    kit.commit()
    kit.restart()
    assert [len(kit.poll()) for _ in range(2)] == [2, 1], "the copy was not through"
    kit.commit()
    kit.restart()
    assert [len(kit.poll()) for _ in range(2)] == [0, 0]
    assert [options["start_after"] for options in watched.options] == [None, None, {"_data": "start"}]
    kit.close()


class FakeCursor(list[dict[str, Any]]):
    def sort(self, _order: Any) -> "FakeCursor":
        return self

    def limit(self, _most: int) -> "FakeCursor":
        return self

    def close(self) -> None: ...


def test_documents_by_a_field_have_their_id_as_key(monkeypatch: pytest.MonkeyPatch) -> None:
    class Database:
        def __getitem__(self, _name: str) -> "Database":
            return self

        def find(self, _filter: Any, **_options: Any) -> FakeCursor:
            return FakeCursor([{"_id": 5, "n": 1}])

        def close(self) -> None: ...

    monkeypatch.setattr("headwater.connect.connectors.mongo.source.client_of", lambda _config: Database())
    kit = SourceKit(MongoSourceConnector, {"database": "d", "collection": "c", "poll.field": "n"})
    (record,) = kit.poll()
    kit.close()
    assert (json.loads(record.key), json.loads(record.value)) == ({"_id": 5}, {"_id": 5, "n": 1})
