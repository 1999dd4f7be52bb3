"""The options that give keys and values types, in the source and the sink; wrong ones say what is wrong. Pure.

`value.format` and `key.format` say what the bytes are. `schema.registry.url`, and every other setting of the registry's
client behind `schema.registry.`, say where schemas are. `value.subject` and `value.schema` (and of the key) stand for
what the topic's name, or the latest version of the subject, would give. `badRecords` says what becomes of a record that
does not decode.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from headwater.base.errors import UserError
from headwater.spark.client_options import bad_value

Column = Literal["key", "value"]
Format = Literal["avro", "json", "protobuf"]
BadRecords = Literal["fail", "drop", "dead-letter"]

COLUMNS: Final[tuple[Column, ...]] = ("key", "value")
REGISTRY: Final = "schema.registry."
_DEAD_LETTER: Final = "dead-letter"
_OF_COLUMNS: Final = frozenset(
    f"{column}.{what}" for column in COLUMNS for what in ("format", "subject", "schema", "message")
)
_SOURCE: Final = _OF_COLUMNS | {"badrecords"}
_SINK: Final = _OF_COLUMNS | {"auto.register.schemas", "use.latest.version"}


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    column: Column
    format: Format
    subject: str  # "" where several topics have several, and a schema is given
    schema: str  # as text; "": the registry's, or in the sink that of the column
    message: str = ""  # of Protobuf: its full name; "": the first of the schema


@dataclass(frozen=True, slots=True)
class SerdeOptions:
    formats: tuple[ColumnFormat, ...]
    registry: Mapping[str, str] = field(default_factory=dict)  # settings of its client; empty: there is none
    bad_records: BadRecords = "fail"
    dead_letter_topic: str = ""
    auto_register: bool = True
    use_latest: bool = False


def is_serde_option(name: str, *, sink: bool) -> bool:
    return name.startswith(REGISTRY) or name in (_SINK if sink else _SOURCE)


def serde_options(given: Mapping[str, str], topics: tuple[str, ...], *, sink: bool) -> SerdeOptions | None:
    """Of options in lower case; None where keys and values stay bytes. `topics` are those that are known by name."""
    registry = {name.removeprefix(REGISTRY): text for name, text in given.items() if name.startswith(REGISTRY)}
    formats = tuple(each for column in COLUMNS if (each := _column(given, column, topics, bool(registry), sink)))
    if not formats:
        useless = sorted(name for name in given if is_serde_option(name, sink=sink) and not name.endswith(".format"))
        if useless:
            raise UserError(
                f"The option {useless[0]} has no effect",
                "keys and values are bytes",
                'Say what they are, as with .option("value.format", "avro")',
            )
        return None
    if registry and not registry.get("url", "").strip():
        raise UserError("The option schema.registry.url is missing", f"{REGISTRY}{min(registry)} is given")
    if sink:
        _refuse_without_effect(given, formats, bool(registry))
    bad, topic = _bad_records(given.get("badrecords", "fail"))
    if bad == _DEAD_LETTER and topic in topics:
        raise bad_value(
            "badRecords", given["badrecords"], "it is a topic that is read: its dead letters would come again"
        )
    return SerdeOptions(
        formats,
        registry,
        bad,
        topic,
        auto_register=_flag(given, "auto.register.schemas", default=True),
        use_latest=_flag(given, "use.latest.version", default=False),
    )


def _column(
    given: Mapping[str, str], column: Column, topics: tuple[str, ...], registry: bool, sink: bool
) -> ColumnFormat | None:
    option = f"{column}.format"
    text = given.get(option, "binary").strip().lower()
    if text == "binary":
        return None
    schema = given.get(f"{column}.schema", "").strip()
    subject = given.get(f"{column}.subject", "").strip()
    message = given.get(f"{column}.message", "").strip()
    if message and text != "protobuf":
        raise UserError(f"The option {column}.message has no effect", f"the column {column} is not Protobuf")
    if text in ("avro", "protobuf"):
        if not registry:
            raise UserError(
                f"The option {option} needs a schema registry",
                f"a record of {text.capitalize()} begins with the id of its schema there",
                'Add .option("schema.registry.url", "http://localhost:8081")',
            )
    elif text != "json":
        raise bad_value(option, text, "it is not one of: binary, avro, json, protobuf")
    elif not registry and not schema and not sink:
        raise UserError(
            f"The option {option} needs a schema",
            "neither a registry nor a schema is given",
            f'Give one with .option("{column}.schema", ...): JSON Schema, or StructType(...).json()',
        )
    elif not registry and schema and sink:
        raise UserError(f"The option {column}.schema has no effect", "there is no registry to register it in")
    if registry and not subject:
        if len(topics) == 1:
            subject = f"{topics[0]}-{column}"
        elif not schema:
            raise UserError(
                f"It is not clear which schema the column {column} has",
                "more than one topic may be meant, and each has a subject of its own",
                f"Name one with the option {column}.subject",
            )
    known: Format = "avro" if text == "avro" else "protobuf" if text == "protobuf" else "json"
    return ColumnFormat(column, known, subject, schema, message)


def _refuse_without_effect(given: Mapping[str, str], formats: tuple[ColumnFormat, ...], registry: bool) -> None:
    for option in ("auto.register.schemas", "use.latest.version"):
        if option in given and not registry:
            raise UserError(f"The option {option} has no effect", "there is no registry")
    with_schema = [each.column for each in formats if each.schema]
    if with_schema and _flag(given, "use.latest.version", default=False):
        raise UserError(
            f"The option {with_schema[0]}.schema has no effect",
            "use.latest.version=true writes with the latest version of the subject",
            "Give one of the two",
        )


def _bad_records(text: str) -> tuple[BadRecords, str]:
    word, colon, topic = text.strip().partition(":")
    word = word.strip().lower()
    if word == "fail" and not colon:
        return "fail", ""
    if word == "drop" and not colon:
        return "drop", ""
    if word == _DEAD_LETTER and topic.strip():
        return "dead-letter", topic.strip()
    raise bad_value("badRecords", text, "it is not one of: fail, drop, dead-letter:TOPIC")


def _flag(given: Mapping[str, str], option: str, *, default: bool) -> bool:
    text = given.get(option, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise bad_value(option, text, "it is not one of: true, false")
    return text == "true"
