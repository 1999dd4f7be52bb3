"""What the performance tools take and refuse, and the settings of the client that follow from it."""

import re
from pathlib import Path

import pytest

from headwater.cli.kafka import consumer_perf_test
from headwater.cli.kafka.options import Options, Stop, Usage
from headwater.cli.kafka.producer_perf_options import Plan, plan_of, read_payloads
from headwater.cli.kafka.producer_perf_test import payload_source

SERVER = ["--bootstrap-server", "h:1"]
NEEDED = [*SERVER, "--topic", "t", "--num-records", "10", "--throughput", "-1"]
SIZED = [*NEEDED, "--record-size", "5"]


def test_the_least_that_is_needed() -> None:
    plan = plan_of(SIZED)
    assert plan == Plan(
        topic="t",
        record_count=10,
        warmup_count=0,
        records_per_second=-1.0,
        interval_ms=5000,
        record_bytes=5,
        payloads=[],
        transaction_ms=None,
        print_metrics=False,
        settings={"bootstrap.servers": "h:1", "client.id": "perf-producer-client"},
    )


def test_settings_of_the_line_come_over_those_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "producer.properties"
    file.write_text("acks=1\nlinger.ms=7\nbootstrap.servers=other:1\nclient.id=me\n")
    more = ["--producer.config", str(file), "--producer-props", "acks=all", "batch.size=1"]
    plan = plan_of([*more, "--record-size", "5", *NEEDED])
    assert plan.settings == {
        "acks": "all",
        "linger.ms": "7",
        "batch.size": "1",
        "bootstrap.servers": "h:1",
        "client.id": "me",
    }
    assert capsys.readouterr().out == (
        "Option --producer-props has been deprecated and will be removed in a future version. "
        "Use --command-property instead.\n"
        "Option --producer.config has been deprecated and will be removed in a future version. "
        "Use --command-config instead.\n"
    )


@pytest.mark.parametrize(
    ("more", "id_", "duration_ms"),
    [
        (["--transactional-id", "a"], "a", 3000),
        (["--command-property", "transactional.id=b"], "b", 3000),
        (["--transactional-id", "a", "--command-property", "transactional.id=b"], "a", 3000),
        (["--transaction-duration-ms", "50"], "performance-producer-.+", 50),
    ],
)
def test_when_there_are_transactions(more: list[str], id_: str, duration_ms: int) -> None:
    plan = plan_of([*SIZED, *more])
    assert plan.transaction_ms == duration_ms
    assert re.fullmatch(id_, plan.settings["transactional.id"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "t", "--record-size", "1"], "argument --throughput is required"),
        ([*SIZED, "--num-records", "x"], "argument --num-records: could not convert 'x' to Long"),
        ([*SIZED, "--throughput", "x"], "argument --throughput: could not convert 'x' to Double"),
        ([*SIZED, "--payload-monotonic"], "argument --payload-monotonic: not allowed with argument --record-size"),
        (NEEDED, "one of the arguments --record-size --payload-file --payload-monotonic is required"),
        ([*SIZED, "--nope"], "unrecognized arguments: '--nope'"),
        ([*NEEDED, "--record-size", "0"], "--record-size should be greater than zero."),
        ([*SIZED, "--num-records", "0"], "--num-records should be greater than zero."),
        ([*SIZED, "--transaction-duration-ms", "0"], "--transaction-duration-ms should be greater than zero."),
        ([*SIZED, "--reporting-interval", "0"], "--reporting-interval should be greater than zero."),
        ([*SIZED, "--throughput", "0"], "--throughput should not be zero"),
        ([*SIZED, "--warmup-records", "10"], "The value for --warmup-records must be strictly fewer than"),
        (
            [*SIZED, "--producer-props", "a=1", "--command-property", "b=2"],
            "--command-property and --producer-props cannot be specified together.",
        ),
        (
            [*SIZED, "--producer.config", "a", "--command-config", "b"],
            "--command-config and --producer.config cannot be specified together.",
        ),
        (SIZED[2:], "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or"),
    ],
)
def test_what_the_producer_refuses(arguments: list[str], message: str) -> None:
    with pytest.raises(Stop) as stopped:
        plan_of(arguments)
    assert stopped.value.code == 1
    assert f"kafka-producer-perf-test: error: {message}" in stopped.value.message


def test_a_property_has_a_name_and_a_value() -> None:
    with pytest.raises(Stop) as stopped:
        plan_of([*SIZED, "--command-property", "acks"])
    assert (stopped.value.code, stopped.value.message) == (1, "Invalid property: one that is not key=value")


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--help"], 1), ([*SIZED, "-h"], 1)])
def test_help_ends_as_kafkas_does(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Stop) as stopped:
        plan_of(arguments)
    assert stopped.value.code == code
    assert "--warmup-records WARMUP-RECORDS" in capsys.readouterr().out


def test_payloads_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "payloads"
    file.write_text("one\ntwo\n\nthrée\n")
    assert read_payloads(str(file), "\\n") == [b"one", b"two", b"", "thrée".encode()]
    assert capsys.readouterr().out == f"Reading payloads from: {file}\nNumber of records read: 4\n"
    assert read_payloads(str(file), "t[wh]") == [b"one\n", b"o\n\n", "rée\n".encode()]
    file.write_text("")
    for path in (file, tmp_path / "missing"):
        with pytest.raises(Stop) as stopped:
            read_payloads(str(path), "\\n")
        assert stopped.value.message == "File does not exist or empty file provided."


def test_the_three_kinds_of_payload() -> None:
    plan = plan_of(SIZED)
    letters = payload_source(plan)
    made = {letters(number) for number in range(100)}
    assert len(made) > 1
    assert all(re.fullmatch(rb"[A-Z]{5}", each) for each in made)
    chosen = payload_source(plan._replace(payloads=[b"a", b"b"]))
    assert {chosen(number) for number in range(100)} == {b"a", b"b"}
    numbers = payload_source(plan._replace(record_bytes=None))
    assert [numbers(number) for number in range(3)] == [b"0", b"1", b"2"]


# The consumer


def _typed(**values: str | None) -> Options:
    given = {"bootstrap-server": "h:1", "topic": "t", "num-records": "10"}
    given |= {name.replace("_", "-"): value for name, value in values.items()}  # type: ignore[misc]
    return Options({name: [value] for name, value in given.items() if value != ""})


def test_the_plan_of_a_consumer(capsys: pytest.CaptureFixture[str]) -> None:
    plan = consumer_perf_test.make_plan(_typed())
    assert plan[:4] == (10, 10_000, 5_000, False)
    plan = consumer_perf_test.make_plan(
        _typed(num_records="", messages="7", timeout="1", reporting_interval="2", show_detailed_stats=None)
    )
    assert plan[:4] == (7, 1, 2, True)
    assert capsys.readouterr().out == "Warning: --messages is deprecated. Use --num-records instead.\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (_typed(messages="1"), "Exactly one of the following arguments is required: [messages], [num-records]"),
        (_typed(num_records=""), "Exactly one of the following arguments is required: [messages], [num-records]"),
        (_typed(include="x"), "Exactly one of the following arguments is required: [topic], [include]"),
        (_typed(num_records="x"), "Cannot parse argument 'x' of option num-records"),
        (_typed(bootstrap_server=""), 'Missing required argument "[bootstrap-server]"'),
    ],
)
def test_what_the_consumer_refuses(options: Options, message: str) -> None:
    with pytest.raises(Usage, match=re.escape(message)):
        consumer_perf_test.make_plan(options)


def test_a_pattern_is_of_whole_names() -> None:
    assert consumer_perf_test.wanted_topics(_typed()) == ["t"]
    pattern = consumer_perf_test.wanted_topics(_typed(topic="", include="t.?|other"))
    assert isinstance(pattern, re.Pattern)
    names = ["t", "ta", "tab", "at", "other", "other2", "another"]
    assert [name for name in names if pattern.search(name)] == ["t", "ta", "other"]
    with pytest.raises(Usage, match="is an invalid regex"):
        consumer_perf_test.wanted_topics(_typed(topic="", include="("))


def test_the_consumers_interval_is_not_zero() -> None:
    with pytest.raises(Stop) as stopped:
        consumer_perf_test.make_plan(_typed(reporting_interval="0"))
    assert (stopped.value.code, stopped.value.message) == (1, "Reporting interval must be greater than 0.")


def test_the_settings_of_a_consumer(tmp_path: Path) -> None:
    settings = consumer_perf_test.settings_of(_typed())
    assert re.fullmatch(r"perf-consumer-\d+", settings.pop("group.id"))
    assert settings == {
        "client.id": "perf-consumer-client",
        "bootstrap.servers": "h:1",
        "receive.buffer.bytes": "2097152",
        "max.partition.fetch.bytes": "1048576",
        "auto.offset.reset": "earliest",
    }
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=of-the-file\nclient.id=me\nbootstrap.servers=other:1\nisolation.level=read_committed\n")
    of_file = consumer_perf_test.settings_of(_typed(command_config=str(file), command_property="client.id=you"))
    assert of_file["group.id"] == "of-the-file"
    assert of_file["client.id"] == "you"
    assert of_file["bootstrap.servers"] == "h:1"
    assert of_file["isolation.level"] == "read_committed"
    typed = consumer_perf_test.settings_of(
        _typed(command_config=str(file), group="g", from_latest=None, fetch_size="5", socket_buffer_size="6")
    )
    assert [typed[name] for name in ("group.id", "auto.offset.reset")] == ["g", "latest"]
    assert [typed[name] for name in ("max.partition.fetch.bytes", "receive.buffer.bytes")] == ["5", "6"]
