"""`replica.identity.autoset.values`: how much of a row before its change the log is to have, by table. Pure.

`schema.table:FULL,schema.other:INDEX name`: patterns, as in all lists of tables, and what ALTER TABLE ... REPLICA
IDENTITY takes.
"""

import re
from typing import Final, NamedTuple

from headwater.connect.connectors.postgres_cdc.column_rules import Patterns
from headwater.connect.errors import ConfigError, ConnectError

NAME: Final = "replica.identity.autoset.values"
_ENTRY: Final = re.compile(r"\s*([^\s:]+):(DEFAULT|FULL|NOTHING|INDEX\s+(\w+))\s*", re.IGNORECASE)


class Identity(NamedTuple):
    kind: str  # as pg_class has it: d, f, n, or i with an index
    by: str | None = None  # the index

    def __str__(self) -> str:
        return {"d": "DEFAULT", "f": "FULL", "n": "NOTHING"}.get(self.kind, f"USING INDEX {self.by}")


class ReplicaIdentities:
    def __init__(self, text: str | None) -> None:
        """Raises ConfigError."""
        self._wanted: list[tuple[Patterns, Identity]] = []
        for each in (text or "").split(",") if text else ():
            found = _ENTRY.fullmatch(each)
            if found is None:
                raise ConfigError(
                    f"{NAME}: {each!r} is not pattern:FULL, or DEFAULT, NOTHING, INDEX and a name", name=NAME
                )
            self._wanted.append((Patterns([found[1]]), Identity(found[2][0].lower(), found[3])))

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def of(self, schema: str, table: str) -> Identity | None:
        """None: it stays as it is. Raises ConnectError if several patterns match."""
        found = [identity for patterns, identity in self._wanted if patterns.match(f"{schema}.{table}")]
        if len(found) > 1:
            raise ConnectError(f"{NAME}: several patterns match {schema}.{table}")
        return found[0] if found else None
