"""A replication connection: psycopg has no replication protocol, but its `pq` layer is libpq, which has the copy stream
it needs.

Owned by one thread. `receive` waits for at most so long; whatever goes wrong with the connection is `RetriableError`,
and the connection is then of no use any more.
"""

import select
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from psycopg import conninfo, pq, sql

from headwater.connect.connectors.postgres_cdc.pgoutput import (
    Keepalive,
    XLogData,
    decode_frame,
    encode_status,
    lsn_of,
    lsn_text,
)
from headwater.connect.errors import ConnectError, RetriableError

# Texts of values are those that `column_types` reads, whatever the server's or the role's settings are.
SESSION_OPTIONS: Final = "-c datestyle=ISO,YMD -c intervalstyle=iso_8601 -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex -c lc_monetary=C -c client_encoding=UTF8"


class MadeSlot(NamedTuple):
    consistent_lsn: int
    snapshot_name: str


class ReplicationConnection:
    def __init__(self, parameters: Mapping[str, Any]) -> None:
        given = conninfo.make_conninfo("", **{**parameters, "replication": "database", "options": SESSION_OPTIONS})
        self._connection = pq.PGconn.connect(given.encode())
        if self._connection.status != pq.ConnStatus.OK:
            said = self._said()
            self._connection.finish()
            raise RetriableError(f"Cannot open a replication connection: {said}")

    def create_slot(self, name: str, *, failover: bool = False) -> MadeSlot:
        """The snapshot that it names can be used until the next command on this connection."""
        more = ", FAILOVER true" if failover else ""
        made = self._rows(f"CREATE_REPLICATION_SLOT {_quoted(name)} LOGICAL pgoutput (SNAPSHOT 'export'{more})")
        _, consistent, snapshot, _ = made[0]
        return MadeSlot(lsn_of(consistent), snapshot)

    def drop_slot(self, name: str) -> None:
        self._rows(f"DROP_REPLICATION_SLOT {_quoted(name)} WAIT")

    def start(self, slot: str, lsn: int, publication: str, options: Mapping[str, str]) -> None:
        given = {"proto_version": "1", "publication_names": _quoted(publication), "messages": "true", **options}
        listed = ", ".join(f"{_quoted(name)} {_literal(value)}" for name, value in given.items())
        self._command(
            f"START_REPLICATION SLOT {_quoted(slot)} LOGICAL {lsn_text(lsn)} ({listed})", pq.ExecStatus.COPY_BOTH
        )
        self._connection.nonblocking = 1

    def receive(self, timeout_s: float) -> XLogData | Keepalive | None:
        """The next frame; None: none came in that time."""
        deadline = time.monotonic() + timeout_s
        while True:
            size, data = self._got()
            if size > 0:
                return decode_frame(bytes(data))
            if size < 0:
                raise RetriableError(f"The server ended the replication: {self._said()}")
            rest = deadline - time.monotonic()
            if rest <= 0 or not select.select([self._connection.socket], [], [], rest)[0]:
                return None
            try:
                self._connection.consume_input()
            except Exception as error:  # noqa: BLE001 - psycopg's errors have one root, and its text is what counts
                raise RetriableError(f"The replication connection broke: {error}") from None

    def _got(self) -> tuple[int, memoryview]:
        try:
            return self._connection.get_copy_data(1)
        except Exception as error:  # noqa: BLE001
            raise RetriableError(f"The replication connection broke: {error}") from None

    def send_status(self, written: int, flushed: int) -> None:
        frame = encode_status(written, flushed, time.time_ns() // 1000)
        try:
            self._connection.put_copy_data(frame)
            while self._connection.flush() == 1:
                select.select([self._connection.socket], [self._connection.socket], [], 10)
                self._connection.consume_input()
        except Exception as error:  # noqa: BLE001
            raise RetriableError(f"The replication connection broke: {error}") from None

    def close(self) -> None:
        self._connection.finish()

    def _command(self, command: str, *wanted: pq.ExecStatus) -> Any:
        result = self._connection.exec_(command.encode())
        if result.status not in wanted:
            said = result.error_message.decode("utf-8", "replace").strip() or self._said()
            kind = RetriableError if result.error_field(pq.DiagnosticField.SQLSTATE) in _PASSING else ConnectError
            raise kind(f"The server refused {command.split(' ', 1)[0]}: {said}")
        return result

    def _rows(self, command: str) -> list[list[str]]:
        result = self._command(command, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
        return [
            [(result.get_value(row, column) or b"").decode() for column in range(result.nfields)]
            for row in range(result.ntuples)
        ]

    def _said(self) -> str:
        return self._connection.error_message.decode("utf-8", "replace").strip()


# A slot that another connection still holds, a server that starts or stops, and connections that are all taken.
_PASSING: Final = frozenset({b"55006", b"57P01", b"57P02", b"57P03", b"53300", None})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: str) -> str:
    return sql.Literal(value).as_string(None)
