"""Our transforms, converters and offset files beside Kafka Connect's own, on the same random records."""

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from compat.support.connect_oracle import (
    TEXTS,
    Records,
    encode_record,
    encode_schema,
    encode_value,
    normal,
)
from compat.support.java import Java
from headwater.base.config.definition import format_value
from headwater.connect.converters.json_converter import JsonConverter
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.values import parse_text, text_of
from headwater.connect.errors import ConnectError
from headwater.connect.metrics.names import GROUPS, LEFT_OUT
from headwater.connect.metrics.sensors import Sensor, Windows
from headwater.connect.plugins import Catalog, Kind

ROUNDS = 20_000 if os.environ.get("HEADWATER_SOAK") else 600


@pytest.fixture(scope="module")
def oracle() -> Iterator[Java]:
    java = Java("ConnectOracle")
    yield java
    java.close()


CATALOG = Catalog(installed=False)


def of_ours(record: ConnectRecord, chain: list[dict[str, Any]]) -> Any:
    current: ConnectRecord | None = record
    try:
        for step in chain:
            transform = CATALOG.find(step["class"], Kind.TRANSFORMATION).make()
            transform.configure(step["config"])
            if "predicate" in step:
                predicate = CATALOG.find(step["predicate"]["class"], Kind.PREDICATE).make()
                predicate.configure(step["predicate"]["config"])
                if predicate.test(current) == step["predicate"]["negate"]:
                    continue
            current = transform.apply(current)
            if current is None:
                return {"dropped": True}
    except ConnectError as error:
        return {"failed": str(error)}
    assert current is not None
    return encode_record(current)


@pytest.mark.soak
def test_random_chains_over_random_records(oracle: Java) -> None:
    failed = 0
    for seed in range(ROUNDS):
        records = Records(seed)
        record = records.record()
        chain = [records.step() for _ in range(records.dice.randint(1, 3))]
        given = encode_record(record) | {"offset": record.offset}
        theirs = normal(oracle.call("transform", record=given, chain=chain))
        ours = normal(of_ours(record, chain))
        if "failed" in theirs or "failed" in ours:
            failed += 1
            if "between the years 1 and 9999" in ours.get("failed", ""):
                continue  # the reach of Java's dates is wider
            if "Cannot list fields on non-struct type" in theirs.get("message", ""):
                continue  # Apache's SetSchemaMetadata takes structs only; ours takes every schema
            assert ("failed" in theirs) == ("failed" in ours), (seed, chain, given, theirs, ours)
        else:
            assert ours == theirs, (seed, chain, given)
    assert failed < ROUNDS * 0.75  # most of what is compared is compared in full


JSON_CONFIGS = (
    {"schemas.enable": "true"},
    {"schemas.enable": "false"},
    {"schemas.enable": "true", "decimal.format": "numeric"},
    {"schemas.enable": "true", "replace.null.with.default": "false"},
)
GIVEN_SCHEMA = '{"type":"struct","optional":false,"fields":[{"field":"a","type":"int32","optional":true}]}'


@pytest.mark.soak
def test_json_is_the_same_to_the_byte_and_read_the_same(oracle: Java) -> None:
    for seed in range(ROUNDS // 2):
        records = Records(seed)
        schema, value = records.part()
        config = records.dice.choice(JSON_CONFIGS)
        converter = JsonConverter()
        converter.configure(config)
        theirs = oracle.call("toJson", schema=encode_schema(schema), value=encode_value(value), config=config)
        try:
            data = converter.from_connect("t", schema, value)
        except ConnectError:
            assert "failed" in theirs, (seed, schema, value, theirs)
            continue
        assert "failed" not in theirs, (seed, schema, value, theirs, data)
        if data is None:
            assert theirs == {"data": None}
            continue
        assert data == bytes.fromhex(theirs["data"]), (seed, config)
        read = oracle.call("fromJson", data=data.hex(), config=config)
        try:
            back = converter.to_connect("t", data)
        except ConnectError:
            assert "failed" in read, (seed, data, read)
            continue
        ours = {"schema": encode_schema(back.schema), "value": encode_value(back.value)}
        assert normal(ours) == normal(read), (seed, data)


@pytest.mark.parametrize(
    "text", ['{"a": 5}', '{"a": null}', '{"b": 1}', "5", '{"schema": null, "payload": {"a": 5}}', "null"]
)
def test_a_given_schema_counts_for_payloads_alone(oracle: Java, text: str) -> None:
    config = {"schemas.enable": "true", "schema.content": GIVEN_SCHEMA}
    converter = JsonConverter()
    converter.configure(config)
    theirs = oracle.call("fromJson", data=text.encode().hex(), config=config)
    try:
        back = converter.to_connect("t", text.encode())
    except ConnectError:
        assert "failed" in theirs
        return
    assert normal({"schema": encode_schema(back.schema), "value": encode_value(back.value)}) == normal(theirs)


LITERALS = (
    *TEXTS,
    *("null", " true ", "127", "128", "-32769", "3e2", "1.0", "1e400", "12345678901234567890", "[]", "[1, 2.5]"),
    *("[1, null]", '["a", "b"]', "[a]", "[1", '{"a": 1, "b": 300}', "{}", "{1: true}", '{"a": null}', "12:30:00.000Z"),
    *(
        "2020-02-29T12:30:00.000Z",
        "[2020-02-29T12:30:00.000Z]",
        "[1,]",
        "[,]",
        '{"a"}',
        "+5",
        "-",
        ".5",
        "1.",
        "[[1], [2]]",
    ),
)


@pytest.mark.parametrize("text", LITERALS)
def test_literals_are_read_the_same(oracle: Java, text: str) -> None:
    found = parse_text(text)
    assert normal({"schema": encode_schema(found.schema), "value": encode_value(found.value)}) == normal(
        oracle.call("parse", text=text)
    )


def test_values_as_text_are_the_same(oracle: Java) -> None:
    for seed in range(100):
        records = Records(seed)
        schema, value = records.part()
        if value is None:
            continue
        theirs = oracle.call("text", schema=encode_schema(schema), value=encode_value(value))
        assert {"text": text_of(value, schema)} == theirs, (seed, schema, value)


OURS_ALONE = {"errors.restart", "errors.restart.delay.max.ms", "task.isolation"}


def test_config_definitions_are_kafkas(oracle: Java) -> None:
    found = CATALOG.plugins(Kind.TRANSFORMATION, Kind.PREDICATE, Kind.CONVERTER, Kind.HEADER_CONVERTER)
    plugins = [each for each in found if each.name.startswith("org.apache.kafka.")]  # Kafka has no others
    assert len(plugins) > 20
    theirs = oracle.call("definitions", classes=sorted({each.name for each in plugins}))
    for plugin in plugins:
        ours = {
            key.name: {
                "type": key.type.name,
                "required": key.required,
                "default": None if key.required else format_value(key.default),
                "importance": key.importance.name,
            }
            for key in plugin.config_def
        }
        expected = {
            name: {part: row[part] for part in ("type", "required", "default", "importance")}
            for name, row in theirs[plugin.name].items()
        }
        assert ours == expected, plugin.name


def test_metrics_have_the_names_and_labels_of_kafka_connects(oracle: Java) -> None:
    theirs = {(group, name): tuple(tags) for group, name, tags in oracle.call("metrics")["templates"]}
    assert len(theirs) > 80
    ours = {
        (group.partition("/")[0], name): table.labels
        for group, table in GROUPS.items()
        for name in (*table.gauges, *table.counters, *table.texts)
    }
    left_out = {(group.partition("/")[0], name) for group, name in LEFT_OUT}
    assert not left_out & ours.keys()
    assert ours == {key: tags for key, tags in theirs.items() if key not in left_out}
    assert left_out <= theirs.keys(), "a reason is given for something that Kafka Connect has not got"


def test_rates_and_averages_are_worked_out_as_kafka_does(oracle: Java) -> None:
    for seed in range(30):
        dice = Random(seed)
        samples, window_ms = dice.randint(1, 4), dice.choice([10, 1000, 30_000])
        now_ms, expected = 0, []
        steps: list[list[float | None]] = [[0, 5.0]]
        sensor = Sensor(Windows(samples, window_ms))
        sensor.record(5.0, 0)
        for _ in range(40):
            now_ms += int(dice.choice([0, 0.1, 0.5, 1, 1.5, samples, samples + 1]) * window_ms)
            if dice.random() < 0.7:
                value = float(dice.randint(-5, 500))
                steps.append([now_ms, value])
                sensor.record(value, now_ms)
            else:
                steps.append([now_ms, None])
                figures = (sensor.rate(now_ms), sensor.average(now_ms), sensor.largest(now_ms), sensor.smallest(now_ms))
                expected.append([None if each is None else pytest.approx(each) for each in figures])
        theirs = oracle.call("sensor", samples=samples, windowMs=window_ms, steps=steps)["answers"]
        assert theirs == expected, (seed, samples, window_ms, steps)


def test_dice_are_not_loaded() -> None:
    """The same seed makes the same record: a failure's seed can be run again."""
    assert encode_record(Records(5).record()) == encode_record(Records(5).record())
    assert Random(1).random() == Random(1).random()
