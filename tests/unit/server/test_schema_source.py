"""The registry that a broker asks, over a socket of our own: what it makes of each kind of answer."""

import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from headwater.base.errors import KafkaError, UserError
from headwater.broker.known_schemas import SchemaAnswer, SchemaFacts, Trouble
from headwater.server.schema_source import RegistrySource, record_names

PATIENCE_S = 60
AVRO = json.dumps({"type": "record", "name": "User", "namespace": "shop", "fields": []})
GUID = bytes(range(16))
GUID_TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    documents: ClassVar[dict[str, Any]] = {
        "/schemas/ids/1": {"schema": AVRO},
        "/schemas/ids/1/subjects": ["t-value", "u-value"],
        f"/schemas/guids/{GUID_TEXT}": {"schema": AVRO},
        f"/schemas/guids/{GUID_TEXT}/ids": [{"context": ".", "id": 1}, {"context": ".other", "id": 7}],
        "/schemas/ids/3": "nonsense",
    }

    def do_GET(self) -> None:
        if self.path == "/schemas/ids/5":
            self.close_connection = True
            return
        found = self.documents.get(self.path)
        status = 500 if self.path == "/schemas/ids/4" else 404 if found is None else 200
        body = json.dumps(found or {"error_code": 40403}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Login", self.headers.get("Authorization", ""))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Source:
    def __init__(self, *urls: str) -> None:
        self.posted: queue.Queue[Any] = queue.Queue()
        self.source = RegistrySource(urls, self.posted.put, PATIENCE_S * 1000)

    def ask(self, frame: bytes) -> SchemaAnswer:
        answers: list[SchemaAnswer] = []
        self.source.ask(frame, answers.append)
        self.posted.get(timeout=PATIENCE_S)()
        return answers[0]

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()


def test_ids_and_guids_are_looked_up_with_their_subjects_and_names(url: str) -> None:
    wanted = SchemaFacts(frozenset(("t-value", "u-value")), frozenset(("shop.User",)))
    with Source(url) as source:
        assert source.ask(b"\0\0\0\0\1") == wanted
        assert source.ask(b"\1" + GUID) == wanted
        assert source.ask(b"\0\0\0\0\2") is None


@pytest.mark.parametrize("schema", [3, 4, 5])
def test_answers_that_are_none_are_trouble(url: str, schema: int) -> None:
    with Source(url) as source:
        assert isinstance(source.ask(bytes((0, 0, 0, 0, schema))), Trouble)
        assert isinstance(source.ask(b"\0\0\0\0\1"), SchemaFacts)  # and the next question finds its way


def test_the_next_address_is_tried(url: str) -> None:
    with Source("http://127.0.0.1:1", url) as source:
        assert isinstance(source.ask(b"\0\0\0\0\1"), SchemaFacts)


def test_nobody_there_is_trouble_and_addresses_are_told_without_passwords() -> None:
    with Source("http://me:secret@127.0.0.1:1") as source:
        assert isinstance(source.ask(b"\0\0\0\0\1"), Trouble)
        assert source.source.address == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "url",
    [
        "localhost",
        "alice:hunter2@localhost",
        "htp://alice:hunter2@localhost:8081",
        "http://alice:hunter2",  # what a comma in a password leaves of an address
        "http://alice:hunter2@localhost:hunter2",
        "http://[hunter2",
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UserError, match="cannot be understood") as told:
        RegistrySource([url], lambda _: None, 1000)
    assert "hunter2" not in str(told.value)


def test_work_on_threads_comes_back_with_what_it_raised() -> None:
    with Source("http://127.0.0.1:1") as source:
        results: list[Any] = []
        source.source.open(int, "5", done=lambda found, problem: results.append((found, problem)))
        source.posted.get(timeout=PATIENCE_S)()
        source.source.open(int, "x", done=lambda found, problem: results.append((found, problem)))
        source.posted.get(timeout=PATIENCE_S)()
    assert results[0] == (5, None)
    assert isinstance(results[1][1], ValueError)
    assert not isinstance(results[1][1], KafkaError)


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"schema": AVRO}, {"shop.User"}),
        ({"schema": '{"type":"record","name":"a.B","namespace":"c","fields":[]}'}, {"a.B"}),
        ({"schema": '["null", {"type":"enum","name":"E","symbols":[]}]'}, {"E"}),
        ({"schema": '"string"'}, set()),
        ({"schema": '{"title": "T", "type": "object"}', "schemaType": "JSON"}, {"T"}),
        ({"schema": "true", "schemaType": "JSON"}, set()),
        ({"schema": 'syntax = "proto3"; package p; message A { message In {} } message B {}', "schemaType": "PROTOBUF"}, {"p.A", "p.B"}),
    ],
)  # fmt: skip
def test_the_names_of_records_are_found_in_each_format(schema: Any, names: set[str]) -> None:
    assert record_names(schema) == names
