"""The handshake with a server of ZooKeeper below kazoo: how long its answer is waited for.

A server that is just starting may take a handshake and never answer it nor end the connection (it fails over a database
that is not loaded yet). kazoo waits for as long as the session lasts, and when it tries again, the session that the
server has kept is over: a broker would lose its place in the cluster because it was quick. So a session that exists is
asked for with less patience, and with more of it each time, since an answer may also be slow.
"""

from typing import Any, Final

from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect

_SHARE: Final = 1 / 3  # of the session's time-out, for the first attempt


def patience_s(offered_s: float, session_timeout_s: float, attempts: int) -> float:
    """For a session that exists, after so many handshakes in a row that had no answer; `offered_s` is kazoo's."""
    return min(offered_s, session_timeout_s * _SHARE * 2.0**attempts)


class Handshake(ConnectionHandler):  # type: ignore[misc]
    _unanswered = 0

    def _invoke(self, timeout_s: float, request: Any, xid: int | None = None) -> Any:
        if not isinstance(request, Connect):
            return super()._invoke(timeout_s, request, xid)
        if request.session_id:  # a new one may wait for the disks of an ensemble, and loses nothing
            timeout_s = patience_s(timeout_s, request.time_out / 1000, self._unanswered)
        try:
            answer = super()._invoke(timeout_s, request, xid)
        except self.handler.timeout_exception:
            self._unanswered += 1
            raise
        self._unanswered = 0
        return answer
