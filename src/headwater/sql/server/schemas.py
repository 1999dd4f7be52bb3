"""The schema registry of a server: `ksql.schema.registry.url`, through the client that serializers use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from headwater.base.errors import UserError
from headwater.schemas import ParsedSchema, SchemaError, StoredSchema
from headwater.sql.formats.registry.port import Registered
from headwater.sql.language.errors import SqlError
from headwater.sql.server.config import SqlServerConfig
from headwater.streams.engine.failures import ClusterFailure

T = TypeVar("T")
_MISSING: Final = (40401, 40402, 40403, 40404)


class RegistrySchemas:
    """Safe for threads, as its client is. Calls wait: never on the loop."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from headwater.client.schema_registry import SchemaRegistryClient  # a server without a registry does without

        self._settings = dict(settings)
        self._client = SchemaRegistryClient(self._settings)

    def __reduce__(self) -> tuple[Any, ...]:
        """Formats travel to Spark's executors with their query: there the registry has a client of its own."""
        return RegistrySchemas, (self._settings,)

    def close(self) -> None:
        self._client.close()

    def latest(self, subject: str, /) -> Registered | None:
        def ask() -> Registered:
            found = self._client.version(subject)
            return Registered(found.id, self._client.parsed(found.schema))

        return _asked(ask)

    def by_id(self, schema_id: int, /) -> ParsedSchema | None:
        return _asked(lambda: self._client.parsed(self._client.schema_by_id(schema_id)))

    def is_under(self, subject: str, schema_id: int) -> bool:
        """Whether a version of the subject has this id."""
        versions = _asked(lambda: self._client.versions(subject)) or []
        found = (_asked(lambda each=each: self._client.version(subject, each)) for each in reversed(versions))  # type: ignore[misc]
        return any(each is not None and each.id == schema_id for each in found)

    def register(self, subject: str, schema: StoredSchema, /) -> Registered:
        def ask() -> Registered:
            found = self._client.register(subject, schema)
            return Registered(found.id, self._client.parsed(schema))

        made = _asked(ask)
        if made is None:
            raise SqlError(f"The schema registry has no subject {subject}.")
        return made

    def delete(self, subject: str) -> None:
        """One that is not there is fine. Raises UserError or OSError where the registry refuses or does not answer."""
        from headwater.client.schema_registry import SchemaRegistryError

        try:
            self._client.delete_subject(subject)
        except SchemaRegistryError as error:
            if error.error_code not in _MISSING:
                raise


def _asked(ask: Callable[[], T]) -> T | None:
    """None where the registry says that it is not there."""
    from headwater.client.schema_registry import SchemaRegistryError

    try:
        return ask()
    except SchemaRegistryError as error:
        if error.error_code in _MISSING:
            return None
        if error.status in (409, 422):
            raise SqlError(f"Could not register schema: {error}", why="The schema registry refuses it") from None
        raise ClusterFailure(error) from error
    except SchemaError as error:
        raise SqlError(f"The schema registry has a schema that cannot be understood: {error}") from None
    except (OSError, UserError) as error:
        raise ClusterFailure(error) from error


def schemas_of(config: SqlServerConfig) -> RegistrySchemas | None:
    """None: the config names no registry."""
    url = config.text("ksql.schema.registry.url")
    if not url:
        return None
    settings: dict[str, Any] = {"url": url, "latest.cache.ttl.sec": 0}
    settings |= {name: text for name, text in config.registry.items() if name != "url" and text}
    return RegistrySchemas(settings)
