"""Predicates: which records a transform is for."""

from collections.abc import Mapping
from typing import Any, ClassVar

from headwater._version import VERSION
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import MEDIUM, REQUIRED, NonEmptyText, Pattern, text
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.java_regex import compile_java


class Predicate:
    is_pure: ClassVar[bool] = False  # as of a transform
    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = VERSION
    doc: ClassVar[str] = ""

    def configure(self, props: Mapping[str, str | None]) -> None:
        self.setup(self.config_def.parse(props))

    def setup(self, config: Mapping[str, Any]) -> None:
        """The parsed config."""

    def test(self, record: ConnectRecord) -> bool:
        raise NotImplementedError

    def test_columns(self, values: ValueColumns) -> bool | None:
        """The answer for all records of a run that is columns; None: it is not the same for all, or not known."""
        del values
        return None

    def close(self) -> None:
        """Nothing is held, as it stands."""


class HasHeaderKey(Predicate):
    is_pure = True
    doc = "True for records that have a header of this name."
    config_def = ConfigDef(text("name", REQUIRED, MEDIUM, "The header's name.", NonEmptyText()))

    def setup(self, config: Mapping[str, Any]) -> None:
        self._name = config["name"]

    def test(self, record: ConnectRecord) -> bool:
        return any(each.key == self._name for each in record.headers)

    def test_columns(self, values: ValueColumns) -> bool:
        del values
        return False  # runs have no headers


class RecordIsTombstone(Predicate):
    is_pure = True
    doc = "True for records whose value is null."

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None

    def test_columns(self, values: ValueColumns) -> bool:
        del values
        return False  # all are there


class _NonEmptyPattern(Pattern):
    def check(self, name: str, value: object) -> None:
        NonEmptyText().check(name, value)
        super().check(name, value)


class TopicNameMatches(Predicate):
    is_pure = True
    doc = "True for records whose topic's name matches, all of it."
    config_def = ConfigDef(text("pattern", REQUIRED, MEDIUM, "The regular expression.", _NonEmptyPattern()))

    def setup(self, config: Mapping[str, Any]) -> None:
        self._pattern = compile_java(config["pattern"])

    def test(self, record: ConnectRecord) -> bool:
        return self._pattern.fullmatch(record.topic) is not None

    def test_columns(self, values: ValueColumns) -> bool | None:
        return None if values.topic is None else self._pattern.fullmatch(values.topic) is not None
