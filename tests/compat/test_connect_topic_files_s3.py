"""TopicFiles onto a server of S3's protocol that others wrote: cuts of several files, tasks that die, wrong logins."""

import gc
import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector, FileType, S3FileSystem

from compat.support.s3 import BUCKET, LOGIN, refusing_server, s3_server
from headwater.base.ids import TopicPartition
from headwater.client import Producer
from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.connectors.topic_files.locations import S3Location, location_of
from headwater.connect.connectors.topic_files.object_store import INTENTS
from headwater.connect.connectors.topic_files.s3 import S3Objects
from headwater.connect.data import schema as s
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError
from headwater.testing.connect import ConnectWorker, SinkKit

HERE = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        yield address


@pytest.fixture
def config(endpoint: str, topic: str) -> dict[str, str]:
    return {"path": f"s3://{BUCKET}/{topic}", "s3.endpoint": endpoint, "format": "json", "flush.size": "4", **LOGIN}


def objects(config: dict[str, str]) -> dict[str, bytes]:
    """Read by Arrow alone."""
    system = S3FileSystem(
        access_key="key", secret_key="secret", region="us-east-1", endpoint_override=config["s3.endpoint"]
    )
    root = config["path"].removeprefix("s3://")
    listed = system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    found = {}
    for each in listed:
        if each.type is FileType.File:
            with system.open_input_stream(each.path) as stream:
                found[each.path.removeprefix(f"{root}/")] = stream.read()
    return found


def numbers(config: dict[str, str]) -> list[int]:
    return sorted(json.loads(line)["n"] for data in objects(config).values() for line in data.splitlines())


def put_until(sink: SinkKit, end: int) -> None:
    while sink.next_offset < end:
        sink.put({"n": sink.next_offset, "kind": "abc"[sink.next_offset % 3]})


def test_a_worker_that_starts_anew_goes_on_where_the_objects_end(
    broker_address: str, topic: str, config: dict[str, str]
) -> None:
    def produce(numbers: range) -> None:
        with Producer({"bootstrap.servers": broker_address}) as producer:
            for number in numbers:
                producer.send(topic, json.dumps({"n": number}).encode(), partition=0)
            producer.flush()

    given = {"connector.class": "TopicFiles", "topics": topic, "value.converter": "JsonConverter", **config}
    given["value.converter.schemas.enable"] = "false"
    produce(range(10))
    with ConnectWorker(broker_address) as worker:
        worker.create(f"one-{topic}", given)
        worker.until(lambda: len(objects(config)) == 2)
    produce(range(10, 17))
    with ConnectWorker(broker_address) as worker:
        worker.create(f"two-{topic}", given)  # its group begins at the beginning: the objects know better
        worker.until(lambda: len(objects(config)) == 4)
        assert worker.status(f"two-{topic}")["tasks"][0]["state"] == "RUNNING"
    assert list(objects(config)) == [f"{topic}/partition=0/{topic}+0+{n:010}+{n + 3:010}.json" for n in (0, 4, 8, 12)]
    assert numbers(config) == list(range(16))


@pytest.mark.parametrize("step", [2, 4])
def test_a_task_that_dies_within_a_cut_gives_each_record_once(
    config: dict[str, str], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    config |= {"partitioner": "field", "partition.field.name": "kind", "flush.size": "2"}
    calls, put, delete = 0, S3Objects.put, S3Objects.delete

    def counted() -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            raise KeyboardInterrupt

    def dying_put(self: S3Objects, key: str, data: bytes) -> None:
        counted()
        put(self, key, data)

    def dying_delete(self: S3Objects, key: str) -> None:
        counted()
        delete(self, key)

    with monkeypatch.context() as patched:
        patched.setattr(S3Objects, "put", dying_put)
        patched.setattr(S3Objects, "delete", dying_delete)
        with pytest.raises(KeyboardInterrupt):
            put_until(SinkKit(TopicFilesConnector, config), 8)
    put_until(SinkKit(TopicFilesConnector, config), 8)
    assert numbers(config) == list(range(8))
    assert not [key for key in objects(config) if INTENTS in key]


def test_parquet_in_a_bucket_is_read_by_arrow(config: dict[str, str]) -> None:
    sink = SinkKit(TopicFilesConnector, {**config, "format": "parquet"})
    schema = s.struct([("n", s.INT64), ("name", s.OPTIONAL_STRING)])
    sink.put(*(sink.record(Struct(schema, {"n": n, "name": "ä"}), schema=schema) for n in range(4)))
    system = S3FileSystem(
        access_key="key", secret_key="secret", region="us-east-1", endpoint_override=config["s3.endpoint"]
    )
    root = config["path"].removeprefix("s3://")
    table: Any = pq.read_table(
        f"{root}/t/partition=0/t+0+0000000000+0000000003.parquet", filesystem=system, partitioning=None
    )
    assert table.to_pylist() == [{"n": n, "name": "ä"} for n in range(4)]


def test_offsets_are_set_back_and_on_and_forgotten(config: dict[str, str]) -> None:
    put_until(SinkKit(TopicFilesConnector, config), 4)
    connector = TopicFilesConnector()
    assert connector.alter_offsets(config, {HERE: 4, TopicPartition("t", 1): 9})
    with pytest.raises(ConnectError, match="choose"):
        connector.alter_offsets(config, {HERE: 1})
    for offset in (9, 0):
        assert connector.alter_offsets(config, {HERE: offset})
        assert SinkKit(TopicFilesConnector, config).next_offset == offset
    put_until(SinkKit(TopicFilesConnector, config), 4)
    assert SinkKit(TopicFilesConnector, config).next_offset == 4
    assert connector.reset_offsets({**config, "topics": "t"}, [])
    assert SinkKit(TopicFilesConnector, config).next_offset == 0


@pytest.mark.parametrize("change", [{"path": "s3://no-such-bucket/x"}, {"s3.endpoint": "http://127.0.0.1:1"}])
def test_a_bucket_that_cannot_be_written_is_told(config: dict[str, str], change: dict[str, str]) -> None:
    with pytest.raises(ConnectError, match=r"Cannot write s3://.*: When "):
        put_until(SinkKit(TopicFilesConnector, {**config, **change}), 4)


def test_many_megabytes_are_one_object(config: dict[str, str]) -> None:
    """Arrow sends what is large in parts."""
    sink = SinkKit(TopicFilesConnector, {**config, "flush.size": "3"})
    sink.put(*("x" * 5_000_000 for _ in range(3)))
    (data,) = objects(config).values()
    assert len(data) == 3 * 5_000_003


@pytest.mark.parametrize("part", [1, 2, 3])
def test_an_upload_of_which_a_part_is_refused_is_never_completed(part: int) -> None:
    """Not by Arrow's `close`, nor by its destructor: the object would lack that part."""
    with refusing_server(f"partNumber={part}&") as (address, requests):
        given = {"path": f"s3://{BUCKET}/x", "s3.endpoint": address, "format": "json", **LOGIN}
        place = location_of(TopicFilesConnector.config_def.parse(given))
        assert isinstance(place, S3Location)
        client = S3Objects(place)
        with pytest.raises(OSError, match="refused"):
            client.put("k", b"x" * 25_000_000)
        del client
        gc.collect()
        assert f"POST /{BUCKET}/x/k?uploads" in requests
        assert f"PUT /{BUCKET}/x/k?partNumber={part}&uploadId=u" in requests
        assert [each for each in requests if each.startswith("POST")] == [f"POST /{BUCKET}/x/k?uploads"]


def test_an_upload_that_is_interrupted_is_never_completed(config: dict[str, str]) -> None:
    place = location_of(TopicFilesConnector.config_def.parse(config))
    assert isinstance(place, S3Location)
    not_bytes: Any = 5
    with pytest.raises(TypeError):
        S3Objects(place).put("k", not_bytes)
    gc.collect()
    assert S3Objects(place).keys("") == []
