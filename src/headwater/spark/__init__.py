"""Spark over Headwater: `session(name)` gives a SparkSession that has `format("headwater")`, `register(spark)` adds it.

Nothing here is loaded by the broker, the client or the command line. PySpark itself is loaded when a session is asked
for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


def session(name: str, **options: Any) -> "SparkSession":
    from headwater.spark.sessions import session as open_session

    return open_session(name, **options)


def register(spark: "SparkSession") -> None:
    from headwater.spark.sessions import register as register_format

    register_format(spark)
