"""The options that give keys and values types: what they come to, and what is said about wrong ones."""

import pickle

import pytest

from headwater.base.errors import UserError
from headwater.spark.options import parse_source_options
from headwater.spark.serdes.options import ColumnFormat, SerdeOptions
from headwater.spark.writer.options import parse_sink_options

URL = {"schema.registry.url": "http://r"}


def source(**options: str) -> SerdeOptions | None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", **options}
    return parse_source_options({name: text for name, text in given.items() if text != "-"}, streaming=True).serdes


def sink(**options: str) -> SerdeOptions | None:
    given = {"kafka.bootstrap.servers": "h:1", "topic": "out", **options}
    names = ["key", "value", "topic"]
    return parse_sink_options({k: v for k, v in given.items() if v != "-"}, names, streaming=True).serdes


def test_bytes_unless_a_format_is_given() -> None:
    assert source() is None
    assert source(**{"value.format": "binary"}) is None
    assert sink() is None


def test_the_subject_is_the_topics() -> None:
    made = source(**URL, **{"Value.Format": "AVRO", "key.format": "avro", "key.subject": "keys"})
    assert made == SerdeOptions(
        (ColumnFormat("key", "avro", "keys", ""), ColumnFormat("value", "avro", "a-value", "")), {"url": "http://r"}
    )
    assert pickle.loads(pickle.dumps(made)) == made
    assigned = source(subscribe="-", assign='{"b": [0, 1]}', **URL, **{"value.format": "avro"})
    assert assigned is not None
    assert assigned.formats[0].subject == "b-value"
    written = sink(**URL, **{"value.format": "avro"})
    assert written is not None
    assert written.formats == (ColumnFormat("value", "avro", "out-value", ""),)


def test_json_needs_no_registry() -> None:
    assert source(subscribe="a,b", **{"value.format": "json", "value.schema": "{}"}) == SerdeOptions(
        (ColumnFormat("value", "json", "", "{}"),)
    )
    assert sink(topic="-", **{"value.format": "json"}) == SerdeOptions((ColumnFormat("value", "json", "", ""),))


def test_every_setting_of_the_registrys_client() -> None:
    made = source(**URL, **{"value.format": "avro", "schema.registry.basic.auth.user.info": "me:secret"})
    assert made is not None
    assert made.registry == {"url": "http://r", "basic.auth.user.info": "me:secret"}


@pytest.mark.parametrize(
    ("text", "comes_to"),
    [("fail", ("fail", "")), ("Drop", ("drop", "")), ("dead-letter: Dead.1 ", ("dead-letter", "Dead.1"))],
)
def test_bad_records(text: str, comes_to: tuple[str, str]) -> None:
    made = source(**URL, **{"value.format": "avro", "badRecords": text})
    assert made is not None
    assert (made.bad_records, made.dead_letter_topic) == comes_to


def test_how_the_sink_registers() -> None:
    made = sink(**URL, **{"value.format": "avro", "auto.register.schemas": "false", "use.latest.version": "True"})
    assert made is not None
    assert (made.auto_register, made.use_latest) == (False, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"value.format": "avro"}, "needs a schema registry"),
        ({**URL}, "schema.registry.url has no effect"),
        ({"badRecords": "drop"}, "badrecords has no effect"),
        ({**URL, "value.format": "xml"}, "not one of: binary, avro, json"),
        ({"value.format": "json"}, "neither a registry nor a schema is given"),
        ({"value.format": "protobuf"}, "needs a schema registry"),
        ({**URL, "value.format": "avro", "value.message": "a.B"}, "value.message has no effect"),
        ({**URL, "value.format": "avro", "subscribe": "a,b"}, "Name one with the option value.subject"),
        ({**URL, "value.format": "avro", "subscribe": "-", "subscribePattern": "a.*"}, "not clear which schema"),
        ({**URL, "value.format": "avro", "badRecords": "dead-letter:"}, "not one of: fail, drop, dead-letter:TOPIC"),
        ({**URL, "value.format": "avro", "badRecords": "drop:x"}, "not one of: fail, drop"),
        ({**URL, "value.format": "avro", "badRecords": "dead-letter:a"}, "would come again"),
        ({**URL, "value.format": "avro", "use.latest.version": "true"}, "is not known"),
        ({"value.format": "avro", "schema.registry.timeout": "5"}, "schema.registry.url is missing"),
    ],
)
def test_wrong_options(options: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as raised:
        source(**options)
    assert said in str(raised.value)


def test_dead_letters_do_not_come_back_by_a_pattern() -> None:
    given = {**URL, "subscribe": "-", "subscribePattern": "a.*", "value.format": "avro", "value.subject": "a-value"}
    assert source(**given, badRecords="dead-letter:dead.a") is not None
    with pytest.raises(UserError, match="subscribePattern takes it in"):
        source(**given, badRecords="dead-letter:a.dead")


def test_wrong_options_of_the_sink() -> None:
    with pytest.raises(UserError, match="'badrecords' is not known"):
        sink(badRecords="drop")
    with pytest.raises(UserError, match=r"value\.subject"):
        sink(topic="-", **URL, **{"value.format": "avro"})
    with pytest.raises(UserError, match="no registry to register it in"):
        sink(**{"value.format": "json", "value.schema": "{}"})
    with pytest.raises(UserError, match="true, false"):
        sink(**URL, **{"value.format": "avro", "auto.register.schemas": "perhaps"})


def test_a_schema_that_the_latest_version_would_take_the_place_of_is_refused() -> None:
    """It was passed over without a word."""
    latest = {"value.format": "json", "use.latest.version": "true"}
    with pytest.raises(UserError, match=r"value\.schema has no effect.*latest version"):
        sink(**latest, **{"value.schema": "{}", "schema.registry.url": "http://r"})
    with pytest.raises(UserError, match=r"use\.latest\.version has no effect.*there is no registry"):
        sink(**latest)
    given = sink(**latest, **{"schema.registry.url": "http://r"})
    assert given is not None
    assert given.use_latest
