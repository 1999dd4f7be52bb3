"""The registry that a broker asks about schemas: the `SchemaSource` port on HTTP and threads.

Threads are started when first needed. Some wait for the registry, each with a connection that it keeps; others
decompress, in code that lets go of the GIL. Answers come back through the loop's `post`. Several addresses are tried in
turn. A connection that was kept may have been closed meanwhile, so a question is asked twice at most of each.
"""

import base64
import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final
from urllib.parse import SplitResult, unquote

from headwater.base.errors import UserError
from headwater.base.redaction import http_address
from headwater.broker.known_schemas import SchemaAnswer, SchemaFacts, Trouble, schema_name

THREADS_MAX: Final = 4  # of each kind
_ANSWER_BYTES_MAX: Final = 8 << 20
_PROTO_TEXT_MAX: Final = 200_000  # what a thread beside the loop may parse for the names in it
_JSON: Final = "application/vnd.schemaregistry.v1+json, application/json"
_NOT_FOUND: Final = 404

Post = Callable[[Callable[[], None]], None]
_Job = Callable[["_Asker | None"], None]


class RegistrySource:
    """Owned by the loop, as are its calls; `close` it."""

    def __init__(self, urls: Sequence[str], post: Post, timeout_ms: int, credentials: str | None = None) -> None:
        self._addresses = [registry_address(url) for url in urls]
        self._credentials = credentials
        self._post = post
        self.timeout_ms = timeout_ms
        self.address = ", ".join(each.geturl().replace(f"{each.netloc}", _host(each)) for each in self._addresses)
        self._asking = _Lane("headwater-schemas", lambda: _Asker(self._addresses, timeout_ms / 1000, credentials))
        self._opening = _Lane("headwater-batches", lambda: None)

    def ask(self, frame: bytes, done: Callable[[SchemaAnswer], None]) -> None:
        def job(asker: "_Asker | None") -> None:
            assert asker is not None
            answer = asker.ask(frame)
            self._post(lambda: done(answer))

        self._asking.add(job)

    def open(
        self, function: Callable[..., Any], *arguments: Any, done: Callable[[Any, BaseException | None], None]
    ) -> None:
        def job(_: "_Asker | None") -> None:
            found, problem = None, None
            try:
                found = function(*arguments)
            except Exception as error:  # noqa: BLE001 - the loop tells it
                problem = error
            self._post(lambda: done(found, problem))

        self._opening.add(job)

    def close(self) -> None:
        self._asking.close()
        self._opening.close()


class _Lane:
    """Jobs and the threads that take them. Each thread has an asker of its own, or none."""

    def __init__(self, name: str, make: Callable[[], "_Asker | None"]) -> None:
        self._name = name
        self._make = make
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._askers: list[_Asker] = []
        self._under_way = 0
        self._lock = threading.Lock()

    def add(self, job: _Job) -> None:
        with self._lock:
            self._under_way += 1
            needs_thread = len(self._threads) < min(self._under_way, THREADS_MAX)
        self._queue.put(job)
        if needs_thread:
            asker = self._make()
            if asker is not None:
                self._askers.append(asker)
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._run, args=(asker,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, asker: "_Asker | None") -> None:
        while (job := self._queue.get()) is not None:
            job(asker)
            with self._lock:
                self._under_way -= 1
        if asker is not None:
            asker.close()

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for asker in self._askers:
            asker.interrupt()
        for thread in self._threads:
            thread.join()
        self._threads.clear()


class _Asker:
    """One thread's way to the registry."""

    def __init__(self, addresses: list[SplitResult], timeout_s: float, credentials: str | None) -> None:
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._credentials = credentials
        self._current = 0
        self._connection: http.client.HTTPConnection | None = None
        self._is_over = False

    def ask(self, frame: bytes) -> SchemaAnswer:
        try:
            return self._facts(frame)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            return Trouble(str(error) or type(error).__name__)

    def _facts(self, frame: bytes) -> SchemaFacts | None:
        """Raises OSError and others where the answers are none, or make no sense."""
        if frame[0] == 0:
            ids = [str(int.from_bytes(frame[1:]))]
            schema = self._get(f"/schemas/ids/{ids[0]}")
        else:
            guid = schema_name(frame)
            schema = self._get(f"/schemas/guids/{guid}")
            found = None if schema is None else self._get(f"/schemas/guids/{guid}/ids")
            ids = (
                []
                if found is None
                else [str(int(each["id"])) for each in found if not each.get("context", ".").strip(".")]
            )
        if schema is None:
            return None
        subjects: set[str] = set()
        for each in ids:
            subjects.update(str(subject) for subject in self._get(f"/schemas/ids/{each}/subjects") or ())
        return SchemaFacts(frozenset(subjects), record_names(schema))

    def _get(self, path: str) -> Any:
        """The answer's JSON; None if there is no such thing."""
        problem: Exception = ConnectionError("it was not asked")
        for _ in range(2 * len(self._addresses)):
            if self._is_over:
                break
            try:
                status, content = self._request(path)
            except (OSError, http.client.HTTPException) as error:
                problem = error
                if self._connection is None:  # nobody there; one that was kept may just have been closed
                    self._current = (self._current + 1) % len(self._addresses)
                self.close()
                continue
            if status == _NOT_FOUND:
                return None
            if status != http.client.OK:
                raise OSError(f"it answers {status}: {content[:200].decode('utf-8', 'replace')}")
            return json.loads(content)
        raise problem

    def _request(self, path: str) -> tuple[int, bytes]:
        address = self._addresses[self._current]
        connection = self._connection
        if connection is None:
            kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
            connection = kind(address.hostname or "localhost", address.port, timeout=self._timeout_s)
            connection.connect()
            self._connection = connection
        headers = {"Accept": _JSON}
        credentials = self._credentials or _credentials_in(address)
        if credentials:
            headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
        connection.request("GET", address.path.rstrip("/") + path, headers=headers)
        response = connection.getresponse()
        content = response.read(_ANSWER_BYTES_MAX + 1)
        if len(content) > _ANSWER_BYTES_MAX:
            self.close()
            raise ValueError(f"an answer of more than {_ANSWER_BYTES_MAX:,} bytes")
        if response.will_close:
            self.close()
        return response.status, content

    def interrupt(self) -> None:
        """From another thread: whoever waits for an answer wakes up."""
        self._is_over = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(2)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()


def record_names(schema: Any) -> frozenset[str]:
    """The full names of what a schema (as a registry gives it) defines at its outermost level. Unreadable ones have
    none.
    """
    text = schema["schema"]
    match schema.get("schemaType") or "AVRO":
        case "PROTOBUF":
            return _message_names(text)
        case "JSON":
            title = json.loads(text).get("title") if text.lstrip().startswith("{") else None
            return frozenset((title,)) if isinstance(title, str) else frozenset()
        case _:
            parsed = json.loads(text)
            return frozenset(
                name if "." in name or not space else f"{space}.{name}"
                for each in (parsed if isinstance(parsed, list) else [parsed])
                if isinstance(each, dict) and isinstance(name := each.get("name"), str)
                for space in (each.get("namespace") or "",)
            )


def _message_names(text: str) -> frozenset[str]:
    if len(text) > _PROTO_TEXT_MAX:
        return frozenset()
    from headwater.schemas import SchemaError
    from headwater.schemas.protobuf.parser import parse_file

    try:
        file = parse_file(text)
    except SchemaError as error:
        raise ValueError(f"its schema cannot be read: {error}") from error
    return frozenset(f"{file.package}.{each.name}" if file.package else each.name for each in file.messages)


def registry_address(url: str) -> SplitResult:
    """Raises UserError."""
    parts = http_address(url)
    if parts is None:  # not repeated: it may have a login in it
        raise UserError(
            "An address in headwater.schema.registry.url cannot be understood",
            "a comma divides addresses, so one within a password is written %2C",
            "It looks like http://localhost:8081",
        )
    return parts


def _host(address: SplitResult) -> str:
    """Without the credentials."""
    return address.netloc.rpartition("@")[2]


def _credentials_in(address: SplitResult) -> str:
    return f"{unquote(address.username)}:{unquote(address.password or '')}" if address.username else ""
