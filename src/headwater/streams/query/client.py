"""The Python client of interactive queries: `connect(url, token)`, then stores that answer like those of a run in this
process.

    with connect("http://127.0.0.1:7001", token=...) as application:
        application.store("counts").get("apple")  # {"value": 3, "timestamp": 5, "partition": 0}

Keys are given as JSON knows them; bytes are the key's bytes as they stand in the topic. One connection, kept; a client
is used by one thread at a time. A request is a read: one that found its connection closed is sent again.
"""

import base64
import http.client
import json
import os
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from headwater.base.errors import UserError

_TIMEOUT_S: Final = 60.0
_WRITE_IT: Final = "Write it as http://127.0.0.1:7001"
_NO_SUCH_KEY: Final = 40401
TOKEN_VARIABLE: Final = "HEADWATER_QUERY_TOKEN"


def connect(url: str, token: str | None = None) -> "Application":
    """`token`: the run's secret; by default what HEADWATER_QUERY_TOKEN holds."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise UserError(f"{url} is no address for queries", str(problem), _WRITE_IT) from None
    if parts.scheme != "http" or parts.hostname is None:
        raise UserError(f"{url} is no address for queries", "", _WRITE_IT)
    found = (token or os.environ.get(TOKEN_VARIABLE) or "").strip()  # a file that holds it ends with a newline
    if not found:
        raise UserError(
            "The secret of the run is missing",
            f"neither token= nor {TOKEN_VARIABLE} gives it",
            "It is `run.queries.token`",
        )
    if not found.isascii() or not found.isprintable():
        raise UserError("The secret of the run is no good", "it has characters that no secret has")
    return Application(parts.hostname, port or 80, found)


class Application:
    def __init__(self, host: str, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        self._headers = {"Authorization": f"Bearer {token}"}

    def store(self, name: str) -> "RemoteStore":
        return RemoteStore(self, name)

    @property
    def stores(self) -> list[dict[str, Any]]:
        """Name, kind, serdes and number of partitions of each."""
        found: list[dict[str, Any]] = self.ask("/stores")["stores"]
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        """The application's name, and which host holds which partitions."""
        found: dict[str, Any] = self.ask("/")
        return found

    def ask(self, path: str, **parameters: str) -> Any:
        """The document at a path; None where there is nothing under a key."""
        target = path + (f"?{urlencode(parameters)}" if parameters else "")
        where = f"{self._connection.host}:{self._connection.port}"
        try:
            status, body = self._exchange(target)
            document = json.loads(body) if body else {}
        except OSError as problem:
            raise UserError(f"{where} does not answer", str(problem), "Does the application run?") from None
        except (http.client.HTTPException, ValueError) as problem:
            self._connection.close()
            why = str(problem) or type(problem).__name__
            raise UserError(f"What answers at {where} is no application", why, "Is it the port of --queries?") from None
        if not isinstance(document, dict):
            raise UserError(f"What answers at {where} is no application", "its answer is another", "")
        if status == 200:
            return document
        if document.get("error_code") == _NO_SUCH_KEY:
            return None
        raise UserError(f"The query was refused ({status})", str(document.get("message", "")))

    def _exchange(self, target: str) -> tuple[int, bytes]:
        kept = self._connection.sock is not None
        try:
            return self._once(target)
        except (http.client.HTTPException, ConnectionError):
            self._connection.close()
            if not kept:
                raise
            return self._once(target)

    def _once(self, target: str) -> tuple[int, bytes]:
        self._connection.request("GET", target, headers=self._headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Application":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteStore:
    """Of a whole application; `local=True` asks only the host that the client is connected to."""

    def __init__(self, application: Application, name: str) -> None:
        self._application = application
        self.name = name

    def get(
        self, key: Any, start: int | None = None, end: int | None = None, *, local: bool = False
    ) -> dict[str, Any] | None:
        """`value`, and `timestamp` where the store has it; of a window with its start, of a session with start and
        end.
        """
        found: dict[str, Any] | None = self._ask("get", key=key, start=start, end=end, local=local)
        return found

    def get_as_of(self, key: Any, timestamp: int) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._ask("get_as_of", key=key, timestamp=timestamp)
        return found

    def count(self) -> int:
        return int(self._ask("count")["count"])

    def range(self, lower: Any = None, upper: Any = None, **options: Any) -> "Rows":
        return self._rows("range", lower=lower, upper=upper, **options)

    def all(self, **options: Any) -> "Rows":
        return self._rows("all", **options)

    def prefix(self, prefix: Any, **options: Any) -> "Rows":
        return self._rows("prefix", prefix=prefix, **options)

    def fetch(self, key: Any, time_from: int | None = None, time_to: int | None = None, **options: Any) -> "Rows":
        """Of windows that start in the range; of a session store all sessions of the key."""
        return self._rows("fetch", key=key, **{"from": time_from, "to": time_to}, **options)

    def fetch_range(self, lower: Any, upper: Any, time_from: int, time_to: int, **options: Any) -> "Rows":
        return self._rows("fetch_range", lower=lower, upper=upper, **{"from": time_from, "to": time_to}, **options)

    def fetch_all(self, time_from: int, time_to: int, **options: Any) -> "Rows":
        return self._rows("fetch_all", **{"from": time_from, "to": time_to}, **options)

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int, **options: Any) -> "Rows":
        return self._rows("find_sessions", key=key, earliest_end=earliest_end, latest_start=latest_start, **options)

    def history(self, key: Any, time_from: int, time_to: int, **options: Any) -> "Rows":
        return self._rows("history", key=key, **{"from": time_from, "to": time_to}, **options)

    def _rows(self, operation: str, **parameters: Any) -> "Rows":
        found = self._ask(operation, **parameters)
        return Rows(found["rows"], found["truncated"])

    def _ask(self, operation: str, **parameters: Any) -> Any:
        sent: dict[str, str] = {}
        if parameters.pop("local", False):
            sent["scope"] = "local"
        for name, value in parameters.items():
            if value is None:
                continue
            if name in ("key", "lower", "upper", "prefix"):
                form, text = _written(value)
                sent[f"{name}_{form}"] = text
            else:
                sent[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return self._application.ask(f"/stores/{quote(self.name, safe='')}/{operation}", **sent)


class Rows(list[dict[str, Any]]):
    """The rows, partition by partition; `truncated` if there are more than were asked for."""

    def __init__(self, rows: list[dict[str, Any]], truncated: bool) -> None:
        super().__init__(rows)
        self.truncated = truncated

    @property
    def keys(self) -> Iterator[Any]:
        return (row["key"] for row in self)


def _written(key: Any) -> tuple[str, str]:
    if isinstance(key, bytes):
        return "base64", base64.b64encode(key).decode()
    try:
        return "json", json.dumps(key, ensure_ascii=False)
    except (TypeError, ValueError) as problem:
        raise UserError(
            f"{key!r} cannot be sent as a key", str(problem), "Give it as JSON knows it, or its bytes"
        ) from None
