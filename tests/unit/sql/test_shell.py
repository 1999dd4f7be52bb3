"""What the client side of the server makes of answers."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headwater.base.errors import UserError
from headwater.sql.shell import ServerAwayError, SqlClient, as_tables


class _Another(BaseHTTPRequestHandler):
    """Some other server: it knows none of our paths."""

    def do_POST(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """It keeps quiet."""


def test_a_server_of_another_kind_is_told() -> None:
    with HTTPServer(("127.0.0.1", 0), _Another) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(UserError, match=r"What answers at 127\.0\.0\.1:\d+ is no SQL server\. it has no /ksql"):
                SqlClient(f"http://127.0.0.1:{server.server_port}").run("SHOW STREAMS;")
        finally:
            server.shutdown()


class _Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(asked) + 2))
        self.end_headers()
        self.wfile.write(b"[" + asked + b"]")

    def log_message(self, *_: object) -> None:
        """It keeps quiet."""


def test_show_variables_shows_those_of_the_session() -> None:
    """They live in the client and were not sent: the list was empty."""
    with HTTPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            client = SqlClient(f"http://127.0.0.1:{server.server_port}")
            shown, other = client.statements("DEFINE t = 'x'; SHOW VARIABLES; SHOW STREAMS;")
            assert client.run(shown)[0]["sessionVariables"] == {"T": "x"}
            assert "sessionVariables" not in client.run(other)[0], "what stands in the text is replaced already"
        finally:
            server.shutdown()


def test_explain_says_once_why_rows_have_no_value() -> None:
    query = {
        "id": "Q",
        "state": "RUNNING",
        "statementText": "S",
        "topology": "T",
        "rowErrors": ["F: bad", "F: bad", "G: no"],
    }
    (text,) = as_tables({"@type": "queryDescription", "queryDescription": query})
    assert str(text).splitlines()[:3] == ["Q (RUNNING)", "some rows: F: bad", "some rows: G: no"]


class _CutOff(BaseHTTPRequestHandler):
    """Ends in the middle of its answer, as a server that is killed; to /query it is a page of some other server."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        if self.path == "/query-stream":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            rows = b'{"columnNames":["N"],"columnTypes":["INTEGER"]}\n[1]\n'
            self.wfile.write(b"%x\r\n%b\r\n" % (len(rows), rows) + b"ff\r\n[2")
        else:
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"[")
        self.close_connection = True

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>It works!</html>")

    def log_message(self, *_: object) -> None:
        """It keeps quiet."""


def test_an_answer_that_breaks_off_is_told_and_does_not_end_the_shell() -> None:
    """What http.client and json said of it was no error that the shell knows: the session ended with a traceback."""
    with HTTPServer(("127.0.0.1", 0), _CutOff) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            client = SqlClient(f"http://127.0.0.1:{server.server_port}")
            with pytest.raises(ServerAwayError, match="The answer of the server was cut off"):
                client.run("SHOW STREAMS;")
            with client.query("SELECT * FROM s EMIT CHANGES;") as (names, rows):
                assert (names, next(rows)) == (["N"], [1])
                with pytest.raises(ServerAwayError, match="The answer of the server was cut off"):
                    next(rows)
            with pytest.raises(ServerAwayError, match=r"What answers at 127\.0\.0\.1:\d+ is no SQL server"):
                client.info()
        finally:
            server.shutdown()


def test_a_query_that_does_not_run_is_shown_without_a_state() -> None:
    query = {"id": "transient_1", "state": "", "statementText": "SELECT 1", "topology": "T"}
    assert as_tables({"@type": "queryDescription", "queryDescription": query}) == ["transient_1\nSELECT 1\n\nT"]
