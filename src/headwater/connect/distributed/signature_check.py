"""Whether a call comes from a worker of this group: by the key that its config topic has."""

import threading
import time
from collections.abc import Callable
from typing import Final

from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.peers import is_signed
from headwater.connect.distributed.stores import ConfigStore
from headwater.connect.runtime.refusals import BadRequest, Forbidden

_AGAIN_S: Final = 1.0  # before the key is looked for in the topic again


class SignatureCheck:
    """For all threads that answer calls."""

    def __init__(
        self, configs: ConfigStore, leads: Callable[[], bool], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._configs, self._leads, self._now_s = configs, leads, now_s
        self._lock = threading.Lock()
        self._read_s = float("-inf")

    def check(self, body: bytes, signature: str | None, algorithm: str | None) -> None:
        if signature is None or algorithm is None:
            raise BadRequest("Internal request missing required signature")
        if self._is_signed(self._configs.snapshot(), body, signature, algorithm):
            return
        # Anybody can send what is signed by nobody: the topic is read for it by the leader alone, and rarely.
        if not self._may_read() or not self._is_signed(self._configs.refreshed(), body, signature, algorithm):
            raise Forbidden("Internal request contained invalid signature.")

    def _may_read(self) -> bool:
        with self._lock:
            now_s = self._now_s()
            if not self._leads() or now_s < self._read_s + _AGAIN_S:
                return False
            self._read_s = now_s
            return True

    def _is_signed(self, state: ConfigState, body: bytes, signature: str, algorithm: str) -> bool:
        return state.session_key is not None and is_signed(state.session_key, body, signature, algorithm)
