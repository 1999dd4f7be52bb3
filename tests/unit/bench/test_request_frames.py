"""The prebuilt frames say what they are meant to say: read back by the broker's own decoder, which shares no code."""

import struct

import pytest
from bench import requests

from headwater.records.reader import read_records
from headwater.wire.headers import decode_request_header
from headwater.wire.messages.create_topics import CreateTopicsRequest
from headwater.wire.messages.delete_topics import DeleteTopicsRequest
from headwater.wire.messages.fetch import FetchRequest
from headwater.wire.messages.list_offsets import ListOffsetsRequest
from headwater.wire.messages.produce import ProduceRequest


def decoded(frame, request_class, version):
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    header = decode_request_header(frame[4:])
    assert (header.api_key, header.api_version) == (request_class.KEY, version)
    assert header.client_id == "bench"
    return request_class.decode(memoryview(frame)[4:], header.body_at, version)


@pytest.mark.parametrize(("records", "size"), [(1, 100), (960, 1024)])
def test_batches(records, size):
    data = requests.batch(records, size)
    found = read_records(data, 1 << 21)
    assert [record.offset for record in found] == list(range(records))
    assert {len(record.value) for record in found} == {size}


def test_batches_with_keys():
    found = read_records(requests.batch(3, 10, first_key=7), 1 << 21)
    assert [struct.unpack(">q", record.key)[0] for record in found] == [7, 8, 9]
    assert {len(record.value) for record in found} == {10}


def test_the_large_batch_is_as_large_as_a_batch_may_be_by_default():
    assert 0.9 * (1 << 20) < len(requests.batch(960, 1024)) <= 1_048_588


def test_produce():
    data = requests.batch(2, 10)
    request = decoded(requests.produce("t", 3, data), ProduceRequest, 7)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (request.acks, topic.name, partition.index, bytes(partition.records)) == (1, "t", 3, data)


def test_fetch():
    request = decoded(requests.fetch("t", 3, 960, 1 << 20), FetchRequest, 11)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.max_bytes, request.min_bytes, request.max_wait_ms, request.session_epoch) == (1 << 20, 1, 500, -1)
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("t", 3, 960)
    assert partition.partition_max_bytes == 1 << 20


def test_set_up_and_checks():
    request = decoded(requests.create_topic("t", 8, {"file.delete.delay.ms": "1"}), CreateTopicsRequest, 2)
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 8, 1)
    assert [(config.name, config.value) for config in topic.configs] == [("file.delete.delay.ms", "1")]
    assert decoded(requests.delete_topic("t"), DeleteTopicsRequest, 1).topic_names == ["t"]
    request = decoded(requests.list_offsets("t", 2, -1), ListOffsetsRequest, 1)
    (topic,) = request.topics
    assert [(each.partition_index, each.timestamp) for each in topic.partitions] == [(0, -1), (1, -1)]


class Answering(requests.Calls):
    def __init__(self, answer):
        self.answer = answer
        self.asked = b""

    def call(self, request):
        self.asked = request
        return self.answer


def quorum_answer(error=0, partition_error=0):
    name = b"__cluster_metadata"
    partition = struct.pack(">ihi", 0, partition_error, 3) + bytes(20)
    topics = b"\x01" if error else bytes([2, len(name) + 1]) + name + b"\x02" + partition
    return b"\0" + struct.pack(">h", error) + topics + bytes(2)


def test_who_leads_the_quorum():
    calls = Answering(quorum_answer())
    assert calls.quorum_leader() == 3
    header = decode_request_header(calls.asked[4:])
    assert (header.api_key, header.api_version) == (55, 0)
    assert struct.unpack_from(">i", calls.asked)[0] == len(calls.asked) - 4
    assert b"__cluster_metadata" in calls.asked


@pytest.mark.parametrize("answer", [quorum_answer(error=35), quorum_answer(partition_error=6)])
def test_a_broker_that_does_not_know_the_quorum(answer):
    with pytest.raises(requests.Broken):
        Answering(answer).quorum_leader()
