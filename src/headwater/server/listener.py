"""The server: listeners, connections and their limits, and the way of a request to its handler and back.

Limits: bytes of a frame (`socket.request.max.bytes`), connections in all and per address, idle time, and memory held by
large frames. What goes beyond a limit is closed with one log line; the loop goes on.
"""

import errno
import logging
import select
import socket
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.metrics import ApiMetrics
from headwater.base.ports import Disk
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.broker.registry import APIS
from headwater.server.admission import Admission
from headwater.server.buffers import BufferPool
from headwater.server.charges import Charge
from headwater.server.connection import SHARED_BYTES, Connection, Slot
from headwater.server.dispatch import Begun, begin, release_response
from headwater.server.line_limit import LineLimit
from headwater.server.loopback import send_unpaced
from headwater.server.security.handshakes import Handshakes

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.server.loop import Loop
    from headwater.server.security.listener_security import ListenerSecurity

_ACCEPTS_PER_EVENT: Final = 64
_ACCEPT_PAUSE_MS: Final = 1000
_IDLE_CHECK_MS: Final = 10_000
_IDLE_CHECK_MS_MIN: Final = 500
_LOAD_AFTER_MS: Final = 200
_LOAD_EVERY_MS: Final = 20
_STUCK_FRAME_NS: Final = 20_000_000_000
_BACKLOG: Final = 1024
_HELD_MAX: Final = 1000

logger = logging.getLogger("headwater.server")


class Server:
    """Owned by the loop's thread."""

    def __init__(self, loop: "Loop", broker: "Broker", disk: Disk) -> None:
        config = broker.config
        self.loop = loop
        self.broker = broker
        self.disk = disk
        self.frame_bytes_max = config.int("socket.request.max.bytes")
        self.buffers = BufferPool(_memory_limit_bytes(config.int("queued.max.request.bytes")))
        self._idle_ms = config.int("connections.max.idle.ms")
        self._connections: dict[int, Connection] = {}
        self._admission = Admission(config, loop.turn_ns)
        self._listeners: list[socket.socket] = []
        self._bound: list[tuple[socket.socket, str]] = []  # with their names, not accepting yet
        self.securities: dict[str, ListenerSecurity] = {}  # of listeners that are not plain text
        self._refusal_lines: defaultdict[str, LineLimit] = defaultdict(LineLimit)  # by listener
        self.handshakes = Handshakes(loop.post)
        self._shared = memoryview(bytearray(SHARED_BYTES))
        self.metrics: dict[int, ApiMetrics] = broker.metrics.apis
        self.produce_metrics = self.metrics[0]
        self._idle_check_ms = _IDLE_CHECK_MS
        if 0 <= self._idle_ms < _IDLE_CHECK_MS:
            self._idle_check_ms = max(_IDLE_CHECK_MS_MIN, self._idle_ms // 4)
        loop.call_later(self._idle_check_ms, self._close_idle)
        self._to_load = [api for api in APIS.values() if api.handle is None]
        loop.call_later(_LOAD_AFTER_MS, self._load_next)
        self._held: set[socket.socket] = set()  # from addresses that have connected too often: they are closed later
        broker.on_quotas = self._quotas_changed

    # Listening

    def listen(
        self, name: str, host: str, port: int, *, accept: bool = True, security: "ListenerSecurity | None" = None
    ) -> int:
        """Binds a listener and gives its real port. Without `accept`, clients wait until `accept_all`."""
        if security is not None:
            self.securities[name] = security
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if not host:
            family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        listener = socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=not host and family == socket.AF_INET6
        )
        listener.setblocking(False)
        send_unpaced(listener)
        if accept:
            self._open(listener, name)
        else:
            self._bound.append((listener, name))
        bound: int = listener.getsockname()[1]
        return bound

    def accept_all(self) -> None:
        """For listeners that were bound without `accept`."""
        while self._bound:
            self._open(*self._bound.pop())

    def _open(self, listener: socket.socket, name: str) -> None:
        self._listeners.append(listener)
        self.loop.register(listener.fileno(), select.EPOLLIN, lambda _events: self._accept(listener, name))

    def _accept(self, listener: socket.socket, name: str) -> None:
        for _ in range(_ACCEPTS_PER_EVENT):
            pause_ms = self._admission.pause_ms(name, self.loop.turn_ns)
            if pause_ms:
                pause_accepting(self.loop, listener, pause_ms)
                return
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._pause_accepting(listener, problem)
                    return
                continue  # the client gave up before we got to it
            self._admission.accepted()
            self._connected(sock, address[0], address[1], name)

    def _pause_accepting(self, listener: socket.socket, problem: OSError) -> None:
        logger.error(
            "event=accept-paused reason=%r connections=%d hint='raise ulimit -n'",
            problem.strerror,
            len(self._connections),
        )
        pause_accepting(self.loop, listener)

    def _connected(self, sock: socket.socket, host: str, port: int, listener: str) -> None:
        host = host.removeprefix("::ffff:")
        refusal = self._admission.refusal(host, len(self._connections))
        if refusal is not None:
            self._count_refused(host, refusal)
            sock.close()
            return
        quotas = self.broker.quotas
        if quotas is not None and quotas.concerns_addresses:
            throttle_ms = quotas.connection_throttle_ms(host, self.broker.clock.monotonic_ms())
            if throttle_ms:
                self._count_refused(host, "connections come faster from this address than its quota allows")
                self._hold(sock, throttle_ms)
                return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._connection(sock, ConnectionContext(host, port, listener))
        if connection is None:
            sock.close()
            return
        self._admission.entered(host)
        self._connections[connection.fileno()] = connection
        self.broker.metrics.connections_total += 1
        self.loop.register(connection.fileno(), select.EPOLLIN, connection.on_events, connection.on_failure)

    def _hold(self, sock: socket.socket, for_ms: int) -> None:
        """Closed at once it would come again at once."""
        if len(self._held) >= _HELD_MAX:
            sock.close()
            return

        def let_go() -> None:
            self._held.discard(sock)
            sock.close()

        self._held.add(sock)
        self.loop.call_later(for_ms, let_go)

    def _quotas_changed(self) -> None:
        for connection in self._connections.values():
            connection.choose_ways()

    def _count_refused(self, host: str, why: str) -> None:
        self.broker.metrics.connections_refused += 1
        if self.broker.metrics.connections_refused % 100 == 1:
            logger.warning("event=connection-refused peer=%s reason=%r", host, why)

    def _connection(self, sock: socket.socket, context: ConnectionContext) -> Connection | None:
        security = self.securities.get(context.listener)
        if security is None:
            return Connection(self, sock, context, self._shared)
        from headwater.base.security.tls_socket import TlsSocket
        from headwater.server.security.secure_connection import SecureConnection

        if security.tls is None:
            return SecureConnection(self, sock, context, self._shared, security)
        try:
            tls = TlsSocket(sock, security.tls.current())
        except OSError:  # gone already
            return None
        except UserError as problem:  # settings that cannot work: it is this client's loss, and the loop goes on
            self._count_refused(context.client_host, str(problem))
            return None
        return SecureConnection(self, tls, context, self._shared, security)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def forget(self, connection: Connection, fd: int, why: str) -> None:
        del self._connections[fd]
        host = connection.context.client_host
        self._admission.left(host)
        logger.debug("event=disconnected peer=%s reason=%r", host, why)

    def close(self) -> None:
        for listener in self._listeners:
            self.loop.unregister(listener.fileno())
            listener.close()
        self._listeners.clear()
        for listener, _name in self._bound:
            listener.close()
        self._bound.clear()
        for held in self._held:
            held.close()
        for connection in list(self._connections.values()):
            connection.close("the broker is shutting down")
        self.handshakes.close()

    def _load_next(self) -> None:
        """Reads the handlers' code in pieces once the broker is up: not before it is ready, not in the first client's
        time.
        """
        if self._to_load:
            self._to_load.pop(0).load()
            self.loop.call_later(_LOAD_EVERY_MS, self._load_next)

    def _close_idle(self) -> None:
        self.loop.call_later(self._idle_check_ms, self._close_idle)
        now_ns = self.loop.turn_ns
        oldest_ns = now_ns - self._idle_ms * 1_000_000
        for connection in list(self._connections.values()):
            if self._idle_ms >= 0 and max(connection.last_active_ns, connection.frame_progress_ns) < oldest_ns:
                connection.close(f"idle for {self._idle_ms} ms")
            elif (
                self.buffers.has_waiters
                and connection.is_in_frame
                and not connection.is_muted
                and now_ns - connection.frame_progress_ns > _STUCK_FRAME_NS
            ):
                self.refuse(connection, "it stopped in the middle of a large request while others wait for its memory")

    # Requests

    def refuse_frame(self, connection: Connection, size: int) -> None:
        start = (size & 0xFFFFFFFF).to_bytes(4)
        if start in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"):
            why = "this is HTTP; the port speaks the Kafka protocol"
        elif start[:2] == b"\x16\x03":
            why = "this is TLS; the listener is plain text"
        else:
            why = f"a frame of {size} bytes; allowed are 8 to {self.frame_bytes_max} (socket.request.max.bytes)"
        self.refuse(connection, why)

    def refuse(self, connection: Connection, why: str) -> None:
        """Bad input: one line for people, and the connection is gone. Anybody can cause such lines: those beyond the
        limit of a listener are told at level DEBUG only.
        """
        context = connection.context
        self.broker.metrics.requests_refused += 1
        unsaid = self._refusal_lines[context.listener].take(self.loop.turn_ns)
        logger.log(
            logging.DEBUG if unsaid is None else logging.WARNING,
            "event=connection-closed peer=%s:%d reason=%r unsaid=%d",
            context.client_host,
            context.client_port,
            why,
            unsaid or 0,
        )
        connection.end(why)

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """One request, by the general way: header, decoding, handler, answer."""
        began_ns = time.perf_counter_ns()
        try:
            begun = begin(self.broker, connection.context, frame)
        except KafkaError as problem:
            self.refuse(connection, f"bad request: {problem}")
            return
        except Exception:
            logger.exception("event=handler-failed peer=%s", connection.context.client_host)
            connection.close("internal error")
            return
        charge = None
        if connection.context.meter is not None:
            busy_ns = time.perf_counter_ns() - began_ns
            charge = Charge(connection.context.meter, begun, len(frame), busy_ns, self.broker.clock.monotonic_ms())
        if type(begun.result) is Deferred:
            self._answer_later(connection, begun, begun.result, began_ns, charge)
            return
        throttle_ms = 0 if charge is None else charge.throttle_ms(begun.result, self.broker.clock.monotonic_ms())
        if begun.result is not None:  # None: a produce with acks=0
            chunks = self._encode(connection, begun, begun.result)
            if chunks is None:
                return
            connection.answer(chunks)
        if throttle_ms:
            connection.mute(throttle_ms)
        self.metrics[begun.api.key].observe(time.perf_counter_ns() - began_ns)

    def _answer_later(
        self, connection: Connection, begun: Begun, deferred: Deferred, began_ns: int, charge: "Charge | None"
    ) -> None:
        slot: Slot = connection.answer_later()
        slot.deferred = deferred

        def ready(response: Any) -> None:
            if isinstance(response, BaseException):
                self.refuse(connection, str(response))
                return
            throttle_ms = 0 if charge is None else charge.throttle_ms(response, self.broker.clock.monotonic_ms())
            chunks = self._encode(connection, begun, response)
            if chunks is not None:
                if throttle_ms:  # before the answer, which may begin the requests that waited behind it
                    connection.mute(throttle_ms)
                try:
                    connection.answered(slot, chunks)
                except Exception:
                    logger.exception("event=handler-failed peer=%s", connection.context.client_host)
                    connection.close("internal error")
                self.metrics[begun.api.key].observe(time.perf_counter_ns() - began_ns)

        deferred.listen(ready)

    def _encode(self, connection: Connection, begun: Begun, response: Any) -> list[Any] | None:
        """The answer's frame; None when it cannot be made, which is our fault and ends the connection."""
        try:
            return begun.frame(response)
        except Exception:
            logger.exception("event=encoding-failed api=%s", begun.api.name)
            release_response(response)
            connection.close("internal error")
            return None


def pause_accepting(loop: "Loop", listener: socket.socket, for_ms: int = _ACCEPT_PAUSE_MS) -> None:
    """For a while. It stays readable, and the loop would go round and round over it."""

    def resume() -> None:
        if listener.fileno() != -1:
            loop.modify(listener.fileno(), select.EPOLLIN)

    loop.modify(listener.fileno(), 0)
    loop.call_later(for_ms, resume)


def _memory_limit_bytes(configured: int) -> int:
    """`queued.max.request.bytes`; without one, a quarter of the machine's memory."""
    if configured > 0:
        return configured
    import os

    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
