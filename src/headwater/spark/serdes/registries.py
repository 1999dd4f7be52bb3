"""The registry's client that planning and tasks share in one Python process. Spark keeps these processes, so
connections and schemas are kept too.
"""

from collections.abc import Mapping

from headwater.client.schema_registry import SchemaRegistryClient

_cached: dict[str, SchemaRegistryClient] = {}


def cached_registry(settings: Mapping[str, str]) -> SchemaRegistryClient:
    key = repr(sorted(settings.items()))
    if key not in _cached:
        _cached[key] = SchemaRegistryClient(dict(settings))
    return _cached[key]
