"""What is fuzzed: functions of any bytes, which raise only where we are wrong.

    requests   a frame behind its length, decoded, handled and answered by the broker's own handlers
    compiled   the same frame to the compiled paths of Produce, Fetch and OffsetCommit, in a buffer that ends with it
    records    a record batch, opened by whoever may have to
    sasl       a message of a login, to each mechanism in each of its states, and to the client that expects an answer
    jaas       a text of `sasl.jaas.config`

The first two bytes of `requests` and `compiled` choose the API and the version, so that a fuzzer finds all of them. One
broker serves all calls; it goes on from one to the next as a real one does.
"""

import logging
from collections.abc import Callable
from typing import Any

from headwater.base.errors import KafkaError, UserError
from headwater.base.security import oauthbearer, scram
from headwater.base.security.jaas import FLAGS, parse_jaas
from headwater.base.security.login_errors import LoginFailed
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.records import pure
from headwater.records.batch import CRC_AT, crc_of, read_header
from headwater.records.codec import ColumnBuilder, read_records
from headwater.records.columns import NO_STOP
from headwater.records.reader import header_at, open_batch, read_batches
from headwater.server.dispatch import begin
from headwater.server.hot_fetch import handle_frame as handle_fetch
from headwater.server.hot_path import commit_frames
from headwater.server.hot_path import handle_frame as handle_produce
from headwater.server.outbox import release_chunks
from headwater.server.security.sasl_servers import BearerServer, PlainServer
from headwater.wire.headers import encode_request_header
from hostile.support.frames import served
from hostile.support.watched import Watched

RECORDS_BYTES_MAX = 1 << 22
COMPILED = (0, 1, 8)
HEAD_BYTES = 8
CONTEXT = ConnectionContext("127.0.0.1", 1, "PLAINTEXT")


def frame_of(data: bytes, keys: tuple[int, ...] | None = None) -> bytes:
    """The header that the first two bytes choose, and the rest as body."""
    choices = [each for each in served() if keys is None or each[0] in keys]
    key, version = choices[int.from_bytes(data[:2], "big") % len(choices)]
    return encode_request_header(key, version, 1, "fuzz") + data[2:]


def seed_for(key: int, version: int, body: bytes, keys: tuple[int, ...] | None = None) -> bytes:
    """The bytes for which `frame_of` gives this request."""
    choices = [each for each in served() if keys is None or each[0] in keys]
    return choices.index((key, version)).to_bytes(2, "big") + body


class Targets:
    def __init__(self, broker: Watched) -> None:
        self._broker = broker
        self._node = broker.node
        self._turns = 0

    def requests(self, data: bytes) -> None:
        frame = memoryview(bytearray(frame_of(data)))
        try:
            begun = begin(self._node.broker, CONTEXT, frame)
        except KafkaError:
            return
        result = begun.result
        if type(result) is Deferred:
            result.listen(lambda response: self._encode(begun, response))
            self._turn()
            result.cancel()
        elif result is not None:
            self._encode(begun, result)
        self._turn()

    def _encode(self, begun: Any, response: Any) -> None:
        if not isinstance(response, BaseException):
            release_chunks(begun.frame(response))
        elif not isinstance(response, KafkaError):
            raise response

    def _turn(self) -> None:
        """Now and then the loop, for timers and the disk."""
        self._turns += 1
        if self._turns % 20 == 0:
            self._node.loop.turn(0)
        records, self._broker.lines.records = self._broker.lines.records, []  # the next call has only its own
        for record in records:
            assert record.levelno < logging.ERROR, record.getMessage()

    def compiled(self, data: bytes) -> None:
        frame = frame_of(data, COMPILED)
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        way: Callable[..., Any] = {0: handle_produce, 1: handle_fetch, 8: commit_frames().handle_frame}[key]
        found = way(self._node.broker, memoryview(bytearray(frame)), HEAD_BYTES, len(frame), version, 1)
        if isinstance(found, list):
            release_chunks(found)
        self._turn()

    def records(self, data: bytes) -> None:
        try:
            found = list(read_batches(data))
        except KafkaError:
            return
        for at, _ in found:
            batch = bytearray(data[at:])
            header = header_at(batch, 0)
            assert header is not None
            del batch[header.size_bytes :]
            batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")  # or nobody would look any further
            header = read_header(batch)
            try:
                payload = open_batch(batch, header, RECORDS_BYTES_MAX)
                ours = read_records(payload, header)
            except KafkaError:
                continue
            assert ours == pure.read_records(payload, header)
            builder = ColumnBuilder()
            assert builder.append_batch(payload, header, b"t", 0, 0, NO_STOP) == len(ours)

    def sasl(self, data: bytes) -> None:
        """The first byte chooses who reads it."""
        reader = SASL_READERS[data[0] % len(SASL_READERS)] if data else None
        if reader is None:
            return
        try:
            said = repr(reader(data[1:]))
        except LoginFailed as problem:
            said = str(problem) + str(problem.told)
        assert SECRET not in said

    def jaas(self, data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        try:
            modules = parse_jaas(text)
        except UserError:
            return
        assert modules
        for module in modules:
            assert module.flag in FLAGS
            module.users()


SECRET = "hunter2-fuzzed"
_CREDENTIAL = scram.credential_of(
    scram.ScramMechanism.SHA_256,
    scram.salted_password(scram.ScramMechanism.SHA_256, SECRET, b"salt", 4096),
    b"salt",
    4096,
)


def _plain(message: bytes) -> bytes:
    server = PlainServer({"alice": SECRET})
    answer = server.receive(message)
    assert message.split(b"\0")[1:] == [b"alice", SECRET.encode()], "somebody else has logged in"
    return answer


def _scram_server() -> scram.ScramServer:
    return scram.ScramServer(
        scram.ScramMechanism.SHA_256, lambda user: _CREDENTIAL if user == "alice" else None, "theirs", b"secret"
    )


def _scram_first(message: bytes) -> bytes:
    return _scram_server().receive(message)


def _scram_final(message: bytes) -> bytes:
    server = _scram_server()
    server.receive(b"n,,n=alice,r=ours")
    answer = server.receive(message)
    assert server.user is not None
    return answer


def _scram_client_first(message: bytes) -> bytes | None:
    if b"i=" in message and not message.endswith(b"i=4096"):
        return None  # as many iterations as somebody says would be all that a fuzzer does
    return scram.ScramClient(scram.ScramMechanism.SHA_256, "alice", SECRET, "ours").receive(message)


def _scram_client_final(message: bytes) -> bytes | None:
    client = scram.ScramClient(scram.ScramMechanism.SHA_256, "alice", SECRET, "ours")
    client.receive(b"r=ourstheirs,s=c2FsdA==,i=4096")
    return client.receive(message)


def _bearer(message: bytes) -> bytes:
    return BearerServer([], oauthbearer.Expected("us", ["headwater"]), 0).receive(message)


SASL_READERS: tuple[Callable[[bytes], bytes | None], ...] = (
    _plain,
    _scram_first,
    _scram_final,
    _scram_client_first,
    _scram_client_final,
    _bearer,
)
SASL_SEEDS = (
    b"\0\0alice\0wrong",
    b"\1n,,n=alice,r=ours",
    b"\2c=biws,r=ourstheirs,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    b"\3r=ourstheirs,s=c2FsdA==,i=4096",
    b"\4v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    b"\5" + oauthbearer.first_message("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0."),
)
JAAS_SEEDS = (
    b'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_c="d\\"e";',
    b"// a comment\n/* another */ One required a=b;\nTwo optional c='d';",
)
