"""How a run tells where its queries are answered: in its `ready` line, and the secret in a file that only its owner
reads.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.streams.query.server import QueryServer


def told_of(server: "QueryServer", directory: Path) -> str:
    """The end of the `ready` line. The secret is never printed: a terminal is read over shoulders, and logs are
    kept.
    """
    from headwater.streams.query.client import TOKEN_VARIABLE

    if os.environ.get(TOKEN_VARIABLE) == server.token:
        return f" queries={server.url}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "query-token"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(server.token + "\n")
    return f" queries={server.url} token-file={path}"
