"""What a converter is. One object serves keys, values or headers, as it is configured; it has no state but its config
and caches.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from headwater._version import VERSION
from headwater.base.config.validators import OneOf
from headwater.connect.config.definition import ConfigDef, unknown_property
from headwater.connect.config.keys import LOW, REQUIRED, text
from headwater.connect.data.runs import ArrowColumn, Column
from headwater.connect.data.schema import Schema, SchemaAndValue
from headwater.connect.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

CONVERTER_TYPE = text(
    "converter.type", REQUIRED, LOW, "What it converts; the worker sets it.", OneOf("key", "value", "header")
)


class Converter:
    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = VERSION
    doc: ClassVar[str] = ""
    for_records: ClassVar[bool] = True
    for_headers: ClassVar[bool] = True
    strict: ClassVar[bool] = False  # whether a property that it does not know is an error

    def configure(self, props: Mapping[str, str | None], *, kind: str = "value") -> None:
        """`kind`: key, value or header."""
        refused = self.unknown({*props} - {"converter.type"})
        if refused:
            raise ConfigError(unknown_property(type(self).__name__, refused[0]), name=refused[0])
        self.setup(self.config_def.parse({**props, "converter.type": kind}))

    @classmethod
    def unknown(cls, props: Iterable[str]) -> list[str]:
        """Properties that it refuses."""
        return sorted(set(props) - {key.name for key in cls.config_def}) if cls.strict else []

    def setup(self, config: Mapping[str, Any]) -> None:
        """The parsed config."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        raise NotImplementedError

    def from_connect_run(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        """Many values of one schema. What it raises may be about any of them: the caller goes on one by one then."""
        return [self.from_connect(topic, schema, value) for value in values]

    def to_connect_run(self, topic: str, data: Sequence[bytes | None]) -> Column:
        """Many keys or values of one topic, with the same freedom to raise."""
        found = [self.to_connect(topic, each) for each in data]
        first = found[0].schema if found else None
        if all(each.schema is first for each in found):
            return Column(first, [each.value for each in found])
        return Column(None, [each.value for each in found], [each.schema for each in found])

    def to_connect_columns(self, topic: str, data: "pa.Array") -> ArrowColumn | None:
        """For a sink that takes columns. None: not these, which go one by one."""
        return None

    def close(self) -> None:
        """Its connections, if it has any."""
