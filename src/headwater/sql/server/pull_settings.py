"""What pull queries may ask for, by the properties that are set for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan import reading
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.server.config import LIMITED_PULLS, SCANS, STREAM_PULLS

_AS_PUSH: Final = "Add EMIT CHANGES if you intended to issue a push query."


def check_pulled(query: tree.Query, properties: Mapping[str, str]) -> None:
    """Clauses that a pull query may not have, here or by its properties. Raises SqlError."""
    if query.limit is not None and not reading.is_set(properties, LIMITED_PULLS, default=True):
        raise SqlError(
            "LIMIT clause in pull queries is currently disabled.",
            hint=f"You can enable them by setting {LIMITED_PULLS}=true. {_AS_PUSH}",
            position=query.position,
        )
    source = query.source
    while isinstance(source, tree.Join):
        if source.within is not None:
            raise SqlError(
                "Pull queries don't support WITHIN clauses: they join all rows of their sources.",
                hint=_AS_PUSH,
                position=source.within.position,
            )
        source = source.left


def check_enabled(source: SourceInfo, properties: Mapping[str, str], *, scans: bool) -> None:
    """Whether a pull query may ask for rows of a stream, and for all rows of a table. Raises SqlError."""
    if source.kind is SourceKind.STREAM and not reading.is_set(properties, STREAM_PULLS, default=True):
        raise SqlError(
            "Pull queries on streams are disabled.",
            hint="To create a push query on the stream, add EMIT CHANGES to the end. To enable pull queries on streams, set "
            f"{STREAM_PULLS} to 'true'.",
        )
    if scans and source.kind is SourceKind.TABLE and not reading.is_set(properties, SCANS, default=True):
        raise SqlError(
            "Query requires table scan to be enabled.",
            why=f"It looks at all rows of {source.name}: its WHERE clause names neither keys nor a range of them",
            hint=f"Table scans can be enabled by setting {SCANS}=true.",
        )
