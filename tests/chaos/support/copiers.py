"""Processes that copy one topic to another by transactions, with librdkafka or with our own client."""

import subprocess
import sys
from pathlib import Path

import compat.support
from chaos.support.processes import end_group, start_group

SUPPORT = Path(next(iter(compat.support.__path__)))
STARTS_MAX = 500  # one that cannot live at all is not started for ever


class Copiers:
    """One for each transactional id, all in one group, which has the name of the source. `tend` starts those that
    ended.
    """

    def __init__(self, kind: str, bootstrap: str, source: str, target: str, log: Path) -> None:
        self._kind, self._bootstrap, self._source, self._target = kind, bootstrap, source, target
        self._log = log
        self.ids = [f"{source}.{number}" for number in (1, 2)]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0

    def _command(self, transactional_id: str) -> list[str]:
        arguments = [self._bootstrap, self._source, transactional_id, self._source, self._target]
        if self._kind == "confluent":
            return [sys.executable, str(SUPPORT / "copier.py"), *arguments]
        face, protocol = self._kind.split("-")
        return [sys.executable, str(SUPPORT / "copier_ours.py"), face, *arguments, protocol]

    def tend(self) -> None:
        for transactional_id in self.ids:
            process = self._running.get(transactional_id)
            if process is None or process.poll() is not None:
                self._starts += 1
                assert self._starts < STARTS_MAX, self.said()
                with self._log.open("ab") as log:
                    command = self._command(transactional_id)
                    self._running[transactional_id] = start_group(command, stdout=log, stderr=log)

    def kill(self, *transactional_ids: str) -> None:
        for transactional_id in transactional_ids:
            process = self._running.pop(transactional_id, None)
            if process is not None:
                end_group(process)

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""
