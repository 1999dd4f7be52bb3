"""What SparkSource and SparkSink share: `format`, `options.*`, the checkpoint, and checks that need no Spark."""

import re
from collections.abc import Mapping
from typing import Final

from headwater.base.config.validators import ConfigValueError
from headwater.connect.config.definition import ConfigKey, ConfigValue, own_config
from headwater.connect.config.keys import HIGH, LOW, REQUIRED, text

OPTIONS: Final = "options."
_FORMAT: Final = re.compile(r"[A-Za-z][\w.-]*")
_SLIPS: Final = ("option.", "spark.options.")


class _Format:
    def check(self, name: str, value: object) -> None:
        if not isinstance(value, str) or _FORMAT.fullmatch(value) is None:
            raise ConfigValueError(name, value, "the name of a format of Spark's, such as parquet or jdbc")

    def __str__(self) -> str:
        return "a format of Spark's"


FORMAT_KEY: Final = text("format", REQUIRED, HIGH, "A format that the worker's Spark knows: parquet, orc, json, csv, text, xml, jdbc, headwater-postgres, headwater-sqlite, or one of the jars and packages in the worker's properties (spark.jars, spark.jars.packages).", _Format())  # fmt: skip


def path_key(doc: str) -> ConfigKey:
    return text(f"{OPTIONS}path", None, HIGH, doc)


def options_of(props: Mapping[str, str]) -> dict[str, str]:
    return own_config(OPTIONS, props)


def check_names(props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
    """Settings of the session, and slips of the pen that would be passed over."""
    for name, value in sorted(props.items()):
        if name.startswith(_SLIPS):
            _refuse(found, name, value, f"{name} means nothing: options of the format begin with options.")
        elif name.startswith("spark."):
            why = "the session is every connector's: its settings, jars and packages stand in the worker's properties"
            _refuse(found, name, value, f"{name} cannot be set by a connector: {why}")


def _refuse(found: dict[str, ConfigValue], name: str, value: str, why: str) -> None:
    found[name] = ConfigValue(text(name, None, LOW, "Not a property of a connector."), value, errors=[why])
