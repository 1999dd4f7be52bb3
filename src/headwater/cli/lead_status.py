"""The leads of applications on this machine, found by the notes that they leave beside their state, and asked for their
status.
"""

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from headwater.base.errors import UserError

_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class NotRunning:
    reason: str


def known_applications(state_dir: Path) -> list[str]:
    """Those that have run with this state directory."""
    return sorted(path.name for path in state_dir.iterdir() if path.is_dir()) if state_dir.is_dir() else []


def status_of(state_dir: Path, application: str) -> dict[str, Any] | NotRunning:
    from headwater.streams.lead.status_server import read_note

    note = read_note(state_dir / application)
    if note is None:
        return NotRunning(f"no run of it has left a note in {state_dir / application}, or the last one has ended")
    gone = NotRunning(f"its last run, process {note.process}, has ended without a word")
    parts = urlsplit(note.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request(
            "GET", f"/applications/{quote(application, safe='')}", headers={"Authorization": f"Bearer {note.token}"}
        )
        response = connection.getresponse()
        body = response.read()
    except ConnectionError:
        return gone
    except (OSError, http.client.HTTPException) as problem:
        raise UserError(
            f"The lead of {application} does not answer",
            f"{str(problem) or type(problem).__name__}; it is process {note.process}",
            "Is the process stopped, or the machine overloaded?",
        ) from None
    finally:
        connection.close()
    if response.status in (401, 404):  # another process has the port now, or the run has ended in this moment
        return gone
    document: dict[str, Any] = json.loads(body)
    return document
