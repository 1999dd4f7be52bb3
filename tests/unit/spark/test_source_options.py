"""The options of the source: what they come to, and what is said about wrong ones."""

import pickle
import re

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark.offset_options import EARLIEST, LATEST, Everywhere, LogFacts, Offsets, Times, resolve
from headwater.spark.options import SourceOptions, parse_source_options

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def parsed(streaming: bool = True, **options: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", **options}
    return parse_source_options({name: text for name, text in given.items() if text != "-"}, streaming=streaming)


def test_defaults_of_a_stream() -> None:
    options = parsed()
    assert options.starting == Everywhere(LATEST)
    assert options.read_committed
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.group_id == "headwater-spark-a"
    assert options.max_trigger_delay_ms == 900_000


def test_defaults_of_a_batch() -> None:
    options = parsed(streaming=False)
    assert options.starting == Everywhere(EARLIEST)
    assert options.ending == Everywhere(LATEST)


def test_names_come_in_any_case() -> None:
    options = parsed(MAXOFFSETSPERTRIGGER="5", includeheaders="True", FailOnDataLoss="FALSE")
    assert (options.max_offsets_per_trigger, options.include_headers, options.fail_on_data_loss) == (5, True, False)


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [("250", 250), ("1500us", 1), ("30s", 30_000), ("2min", 120_000), ("1 h", 3_600_000), ("1d", 86_400_000)],
)
def test_durations_are_written_as_spark_takes_them(text: str, delay_ms: int) -> None:
    assert parsed(maxTriggerDelay=text).max_trigger_delay_ms == delay_ms


def test_what_to_read() -> None:
    assert parsed(subscribe=" a, b ,a").subscription.topics == ("a", "b")
    assert parsed(subscribe="-", subscribePattern="log.*").subscription.pattern == "log.*"
    assert parsed(subscribe="-", assign='{"a": [1, 0, 1]}').subscription.partitions == (A0, A1)


@pytest.mark.parametrize(
    ("options", "name", "expected"),
    [
        ({"startingOffsets": "earliest"}, "startingOffsets", Everywhere(EARLIEST)),
        ({"startingOffsets": " Latest "}, "startingOffsets", Everywhere(LATEST)),
        ({"startingOffsets": '{"a": {"0": 23, "1": -2}}'}, "startingOffsets", Offsets({A0: 23, A1: -2})),
        ({"startingOffsetsByTimestamp": '{"a": {"0": 7}}'}, "startingOffsetsByTimestamp", Times({A0: 7})),
        ({"startingTimestamp": "99"}, "startingTimestamp", Times({}, 99)),
        # the time for all goes first, then times by partition, then offsets
        (
            {"startingTimestamp": "9", "startingOffsetsByTimestamp": "x", "startingOffsets": "x"},
            "startingTimestamp",
            Times({}, 9),
        ),
        (
            {"startingOffsetsByTimestamp": '{"a": {"0": 7}}', "startingOffsets": "x"},
            "startingOffsetsByTimestamp",
            Times({A0: 7}),
        ),
    ],
)
def test_where_to_begin(options: dict[str, str], name: str, expected: object) -> None:
    found = parsed(**options)
    assert (found.starting_option, found.starting) == (name, expected)


def test_settings_of_the_client_keep_their_names() -> None:
    options = parsed(
        **{"kafka.fetch.max.bytes": "7", "kafka.group.id": "g", "kafka.isolation.level": "read_uncommitted"}
    )
    assert options.client == {"fetch.max.bytes": "7"}
    assert options.group_id == "g"
    assert not options.read_committed


def test_a_group_follows_a_stream_under_a_name_that_stays() -> None:
    assert parsed(groupIdPrefix="shop").group_id == "shop-a"
    assert parsed(commitOffsets="false", **{"kafka.group.id": "g"}).group_id is None
    assert parsed(streaming=False).group_id is None
    subscriptions = [{"subscribe": text} for text in ("a", "a,b", "a.b", "a" * 200, "a" * 201)]
    subscriptions += [{"subscribe": "-", "subscribePattern": text} for text in ("a.b.*", "a.b.+")]
    subscriptions += [{"subscribe": "-", "assign": '{"a": [0]}'}, {"subscribe": "-", "assign": '{"a": [0, 1]}'}]
    names = [parsed(**each).group_id for each in subscriptions]
    assert names == [parsed(**each).group_id for each in subscriptions]
    assert len(set(names)) == len(names)
    assert all(name and len(name) < 120 and re.fullmatch("[a-zA-Z0-9._-]+", name) for name in names)


@pytest.mark.parametrize(
    ("streaming", "options", "said"),
    [
        (True, {"kafka.bootstrap.servers": "-"}, "kafka.bootstrap.servers is missing"),
        (True, {"subscribe": "-"}, "none is given"),
        (True, {"assign": '{"a": [0]}'}, "assign and subscribe are given"),
        (True, {"subscribe": " , "}, "names no topic"),
        (True, {"subscribe": "-", "subscribePattern": "("}, "no regular expression"),
        (True, {"subscribe": "-", "assign": '{"a": []}'}, "has no list of partitions"),
        (True, {"subscribe": "-", "assign": "a"}, "not JSON"),
        (True, {"subscribe": "-", "assign": '{"a": [true]}'}, "has no list of partitions"),
        (True, {"startingOffsets": "first"}, "neither a word that it knows nor JSON"),
        (True, {"startingOffsets": '{"a": 1}'}, "has no object of partitions"),
        (True, {"startingOffsets": '{"a": {"x": 1}}'}, "not a partition's number"),
        (True, {"startingOffsets": '{"a": {"0": -3}}'}, "not a whole number >= -2"),
        (True, {"startingOffsets": '{"a": {"0": 1.5}}'}, "not a whole number"),
        (True, {"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "not a whole number >= 0"),
        (True, {"startingTimestamp": "today"}, "not a time in milliseconds"),
        (True, {"startingOffsetsByTimestampStrategy": "earliest"}, "not one of: error, latest"),
        (True, {"endingOffsets": "latest"}, "a stream has no end"),
        (False, {"startingOffsets": "latest"}, "would be empty"),
        (False, {"startingOffsets": '{"a": {"0": -1}}'}, "it stands for latest"),
        (False, {"endingOffsets": "earliest"}, "would be empty"),
        (False, {"endingOffsets": '{"a": {"0": -2}}'}, "it stands for earliest"),
        (True, {"maxOffsetsPerTrigger": "0"}, "whole number above 0"),
        (True, {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "which is less"),
        (True, {"maxTriggerDelay": "soon"}, "not a duration"),
        (True, {"failOnDataLoss": "perhaps"}, "not one of: true, false"),
        (True, {"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        (True, {"kafka.security.protocol": "SASL_SSL"}, "Kerberos"),
        (True, {"kafka.sasl.mechanism": "PLAIN"}, "without a login"),
        (
            False,
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/x"},
            "Cannot read ssl.truststore.location",
        ),
        (False, {"kafka.fetch.max.byte": "7"}, "did you mean 'fetch.max.bytes'"),
        (True, {"maxOffsetPerTrigger": "5"}, "is not known"),
    ],
)
def test_wrong_options(streaming: bool, options: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as raised:
        parsed(streaming, **options)
    assert said in str(raised.value)


def test_options_travel() -> None:
    options = parsed(startingOffsets='{"a": {"0": 3}}')
    assert pickle.loads(pickle.dumps(options)) == options


LOGS = {A0: LogFacts(10, 100, at_time=40), A1: LogFacts(0, 5)}


def test_positions_become_offsets() -> None:
    assert resolve(Everywhere(EARLIEST), LOGS, "o", nothing_so_young_is_latest=False) == {A0: 10, A1: 0}
    assert resolve(Everywhere(LATEST), LOGS, "o", nothing_so_young_is_latest=False) == {A0: 100, A1: 5}
    assert resolve(Offsets({A0: -1, A1: 3}), LOGS, "o", nothing_so_young_is_latest=False) == {A0: 100, A1: 3}
    assert resolve(Times({}, 7), LOGS, "o", nothing_so_young_is_latest=True) == {A0: 40, A1: 5}


def test_a_time_that_no_record_reaches_is_an_error_unless_told() -> None:
    with pytest.raises(UserError, match="No record of a-1 is as young"):
        resolve(Times({}, 7), LOGS, "startingTimestamp", nothing_so_young_is_latest=False)


def test_offsets_name_all_partitions_and_no_others() -> None:
    with pytest.raises(UserError, match="a-1 is missing; b-0 is not read"):
        resolve(Offsets({A0: 1, TopicPartition("b", 0): 1}), LOGS, "o", nothing_so_young_is_latest=False)
