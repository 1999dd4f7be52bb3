"""The settings that all serializers share, under Confluent's names and as keyword arguments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from headwater.base.errors import UserError
from headwater.client.schema_registry.client import SchemaRegistryClient

SubjectNameStrategy = Callable[[str, bool, str | None], str]  # topic, whether it is the key, the record's name


def topic_name_strategy(topic: str, is_key: bool, record_name: str | None) -> str:
    del record_name
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name_strategy(topic: str, is_key: bool, record_name: str | None) -> str:
    del topic, is_key
    return _named(record_name)


def topic_record_name_strategy(topic: str, is_key: bool, record_name: str | None) -> str:
    del is_key
    return f"{topic}-{_named(record_name)}"


def _named(record_name: str | None) -> str:
    if not record_name:
        raise UserError(
            "The subject of a schema cannot be told",
            "its name strategy needs the name of a record, and the schema has none",
        )
    return record_name


_STRATEGIES: Final[dict[str, SubjectNameStrategy]] = {
    "topic": topic_name_strategy,
    "record": record_name_strategy,
    "topic_record": topic_record_name_strategy,
    "TopicNameStrategy": topic_name_strategy,
    "RecordNameStrategy": record_name_strategy,
    "TopicRecordNameStrategy": topic_record_name_strategy,
}


@dataclass(frozen=True, slots=True)
class SerdeSettings:
    auto_register_schemas: bool = True
    normalize_schemas: bool = False
    use_latest_version: bool = False
    use_schema_id: int | None = None
    subject_name_strategy: SubjectNameStrategy | str = topic_name_strategy
    schema_id_location: Literal["prefix", "header"] = "prefix"  # where a serializer writes it; both are read
    is_key: bool = False

    @classmethod
    def of(cls, conf: Mapping[str, Any] | None, given: Mapping[str, Any]) -> "SerdeSettings":
        known = {field.name for field in fields(cls)}
        merged = {name.replace(".", "_"): value for name, value in (conf or {}).items()} | dict(given)
        unknown = sorted(merged.keys() - known)
        if unknown:
            names = ", ".join(sorted(name.replace("_", ".") for name in known))
            raise UserError(f"A serializer has no setting {unknown[0]!r}", "", f"There are {names}")
        settings = cls(**merged)
        if settings.schema_id_location not in ("prefix", "header"):
            raise UserError(
                f"schema.id.location cannot be {settings.schema_id_location!r}", "", "It is prefix or header"
            )
        settings.strategy()
        return settings

    def strategy(self) -> SubjectNameStrategy:
        if callable(self.subject_name_strategy):
            return self.subject_name_strategy
        found = _STRATEGIES.get(self.subject_name_strategy.rpartition(".")[2])
        if found is None:
            raise UserError(
                f"There is no subject.name.strategy {self.subject_name_strategy!r}",
                "",
                f"There are {', '.join(_STRATEGIES)}",
            )
        return found

    def subject_name_strategy_needs_record(self) -> bool:
        return self.strategy() is not topic_name_strategy

    def subject(self, topic: str, record_name: str | None) -> str:
        return self.strategy()(topic, self.is_key, record_name)


def registry_for(given: "SchemaRegistryClient | str | Mapping[str, Any]") -> SchemaRegistryClient:
    return given if isinstance(given, SchemaRegistryClient) else SchemaRegistryClient(given)
