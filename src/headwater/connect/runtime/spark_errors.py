"""Errors of Spark's as Connect's: the sentences without the frames of the JVM's stack."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headwater.connect.errors import ConnectError

_LINES_MAX: Final = 60


def told(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith(("at ", "... "))]
    return "\n".join(lines[:_LINES_MAX]) or type(error).__name__


@contextmanager
def spark_errors() -> Iterator[None]:
    try:
        yield
    except ConnectError:
        raise
    except Exception as error:  # noqa: BLE001 - PySpark's, Py4J's, Arrow's
        raise ConnectError(told(error)) from None
