"""The real `headwater` command against a broker: produce, consume, tail."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.partitioner.default import murmur2

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Command:
    """The command, with the broker in its environment."""

    def __init__(self, bootstrap: str) -> None:
        self.environment = {**os.environ, "HEADWATER_BOOTSTRAP_SERVER": bootstrap}

    def __call__(self, *arguments: str, input: bytes = b"", code: int = 0) -> bytes:  # noqa: A002
        result = subprocess.run(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            env=self.environment,
            input=input,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == code, result.stderr.decode()
        return result.stdout if code == 0 else result.stderr

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def headwater(broker_address: str) -> Command:
    return Command(broker_address)


@pytest.fixture
def made(create_topic: Callable[..., None], topic: str) -> str:
    create_topic(topic)
    return topic


def test_lines_go_in_and_come_out(headwater: Command, made: str) -> None:
    headwater("produce", made, input=b"one\ntwo\n\nfour")
    assert headwater("consume", made, "-e") == b"one\ntwo\n\nfour\n"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_another_client_reads_what_we_wrote(
    headwater: Command, create_topic: Callable[..., None], topic: str, broker_address: str, codec: str, acks: str
) -> None:
    create_topic(topic)
    lines = b"".join(b"k%d:v%d\n" % (at, at) for at in range(50))
    headwater("produce", topic, "-k", ":", "-H", "h=x", "-z", codec, "--acks", acks, "-t", "1234567890123", input=lines)
    consumer = Consumer({"bootstrap.servers": broker_address, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(50, 60)
    finally:
        consumer.close()
    assert [(each.key(), each.value()) for each in messages] == [(b"k%d" % at, b"v%d" % at) for at in range(50)]
    assert {each.timestamp()[1] for each in messages} == {1234567890123}
    assert messages[0].headers() == [("h", b"x")]


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_another_client_wrote(headwater: Command, made: str, broker_address: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": broker_address, "compression.type": codec, "linger.ms": 50})
    for at in range(100):
        producer.produce(made, b"v%d" % at * 10, b"k\xff", headers=[("a", b"1"), ("a", None)], timestamp=1000 + at)
    assert producer.flush(60) == 0
    documents = [json.loads(line) for line in headwater("consume", made, "-e", "-o", "json").splitlines()]
    assert [each["offset"] for each in documents] == list(range(100))
    assert documents[7] == {
        "topic": made,
        "partition": 0,
        "offset": 7,
        "timestamp": 1007,
        "key_base64": "a/8=",
        "value": "v7" * 10,
        "headers": [{"key": "a", "value": "1"}, {"key": "a", "value": None}],
    }


def test_json_lines_pipe_one_topic_into_another(
    headwater: Command, made: str, create_topic: Callable[..., None]
) -> None:
    create_topic(made + ".copy")
    headwater("produce", made, "-k", "=", "-H", "x=y", "-t", "5", input=b"a=1\nb=\nplain\n")
    headwater("produce", made, "-K", "gone", "-Z", input=b"\n")
    lines = headwater("consume", made, "-e", "-f", "json")
    headwater("produce", made + ".copy", "-f", "json", input=lines)
    shape = r"%k|%v|%V|%h|%d\n"
    copied = headwater("consume", made + ".copy", "-e", "-f", shape)
    assert copied == headwater("consume", made, "-e", "-f", shape)
    assert copied.startswith(b"a|1|1|x=y |5\nb||0|x=y |5\n|plain|5|x=y |5\n")
    assert json.loads(lines.splitlines()[3])["value"] is None


def test_binary_records_survive_a_format_with_lengths(headwater: Command, made: str) -> None:
    data = b"\0\0\0\x02\0\0\0\x03k\n\0\xff\n\0\0\0\0\0\0\0\x01x"
    shape = "%K{big32}%V{big32}%k%v"
    headwater("produce", made, "-f", shape, input=data)
    assert headwater("consume", made, "-e", "-f", shape) == data


def test_keys_go_where_javas_client_puts_them(
    headwater: Command, create_topic: Callable[..., None], topic: str
) -> None:
    create_topic(topic, partitions=5)
    keys = [f"key-{at}".encode() for at in range(30)]
    headwater("produce", topic, "-k", ":", input=b"".join(key + b":v\n" for key in keys))
    found = dict(line.split(b" ") for line in headwater("consume", topic, "-e", "-f", r"%k %p\n").splitlines())
    assert found == {key: b"%d" % ((murmur2(key) & 0x7FFFFFFF) % 5) for key in keys}


def test_round_robin_and_a_named_partition(headwater: Command, create_topic: Callable[..., None], topic: str) -> None:
    create_topic(topic, partitions=3)
    headwater("produce", topic, "--round-robin", input=b"x\n" * 9)
    headwater("produce", topic, "-p", "2", input=b"y\n")
    partitions = headwater("consume", topic, "-e", "-f", "%p").decode()
    assert {each: partitions.count(each) for each in "012"} == {"0": 3, "1": 3, "2": 4}
    assert headwater("consume", topic, "-e", "-p", "2", "-o", "-1") == b"y\n"
    assert b"no partition 9" in headwater("produce", topic, "-p", "9", input=b"x\n", code=1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-o", "start", "-e"], "0123456789"),
        (["-o", "7", "-e"], "789"),
        (["-o", "@7", "-e"], "789"),
        (["-o", "-2", "-e"], "89"),
        (["-o", "-200", "-e"], "0123456789"),
        (["-o", "3:5"], "34"),
        (["-o", "end", "-e"], ""),
        (["-n", "3"], "012"),
        (["-o", "5", "-n", "2"], "56"),
        (["-o", "s@1700000005000", "-e"], "56789"),
        (["-o", "s@1700000005000:e@1700000007000"], "56"),
        (["-o", "e@1700000002000"], "01"),
        (["-o", "s@2030-01-01", "-e"], ""),
    ],
)
def test_windows(headwater: Command, ten: str, arguments: list[str], expected: str) -> None:
    assert headwater("consume", ten, "-f", "%v", *arguments).decode() == expected


@pytest.fixture(scope="session")
def ten(broker_address: str) -> str:
    """A topic with the values 0 to 9, one second apart."""
    name = "ten.records.for.windows"
    headwater = Command(broker_address)
    headwater("topic", "create", name, "-c", "retention.ms=-1")  # they are old, and the broker runs for minutes
    lines = [json.dumps({"value": str(at), "timestamp": 1_700_000_000_000 + at * 1000}) for at in range(10)]
    headwater("produce", name, "-f", "json", input="\n".join(lines).encode())
    return name


def test_an_offset_past_the_end_is_an_error(headwater: Command, ten: str) -> None:
    assert b"has no offset 5000" in headwater("consume", ten, "-o", "5000", code=1)


def test_many_and_large_records(headwater: Command, create_topic: Callable[..., None], topic: str) -> None:
    create_topic(topic, partitions=2)
    lines = b"".join(b"%d:%s\n" % (at, b"x" * (at % 200)) for at in range(20_000))
    headwater("produce", topic, "-z", "lz4", input=lines + b"big:" + bytes(b"y" * 900_000) + b"\n")
    read = headwater("consume", topic, "-e")
    assert sorted(read.splitlines()) == sorted([*lines.splitlines(), b"big:" + b"y" * 900000])


def test_a_record_that_is_too_large_is_refused_with_a_hint(headwater: Command, made: str) -> None:
    said = headwater("produce", made, input=b"z" * 3_000_000, code=1)
    assert b"MESSAGE_TOO_LARGE" in said
    assert b"max.message.bytes" in said


def test_tail_shows_the_last_and_each_new_one_until_interrupted(headwater: Command, made: str) -> None:
    headwater("produce", made, input=b"1\n2\n3\n")
    with headwater.running("tail", made, "-n", "2") as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert [tail.stdout.readline(), tail.stdout.readline()] == [b"2\n", b"3\n"]
        headwater("produce", made, input=b"4\n")
        assert tail.stdout.readline() == b"4\n"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(90) == 0
        assert tail.stderr.read() == b""


def test_a_line_is_sent_before_the_input_ends(headwater: Command, made: str) -> None:
    with headwater.running("produce", made, "-o", "json") as produce:
        assert produce.stdin is not None
        assert produce.stdout is not None
        for at in range(3):
            produce.stdin.write(b"line\n")
            produce.stdin.flush()
            assert json.loads(produce.stdout.readline())["offset"] == at
        produce.stdin.close()
        assert produce.wait(90) == 0


def test_consume_ends_when_its_reader_is_gone(headwater: Command, made: str) -> None:
    headwater("produce", made, input=b"1\n2\n")
    with headwater.running("consume", made) as consume:
        assert consume.stdout is not None
        assert consume.stderr is not None
        consume.stdout.readline()
        consume.stdout.close()
        assert consume.wait(90) == 0
        assert consume.stderr.read() == b""


def test_a_topic_is_made_on_demand_only_if_asked_for(headwater: Command, topic: str) -> None:
    assert b"There is no topic" in headwater("produce", topic, input=b"x\n", code=1)
    headwater("produce", topic, "--auto-create", input=b"x\n")
    assert headwater("consume", topic, "-e") == b"x\n"


def test_command_config_and_profile_name_the_broker(broker_address: str, tmp_path: Path) -> None:
    headwater = Command("localhost:1")  # the environment alone leads nowhere
    headwater("topic", "list", code=1)
    config = tmp_path / "client.properties"
    config.write_text(f"bootstrap.servers={broker_address}\n")
    headwater("topic", "list", "--command-config", str(config))
    headwater.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    (tmp_path / "headwater").mkdir()
    (tmp_path / "headwater" / "profiles.toml").write_text(f'[profiles.here]\nbootstrap_server = "{broker_address}"\n')
    headwater("topic", "list", "--profile", "here")
    headwater("topic", "list", "--bootstrap-server", f"localhost:1,{broker_address}")
