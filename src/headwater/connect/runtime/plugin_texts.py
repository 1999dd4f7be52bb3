"""Classes and versions of what a task is made of, for its metrics."""

from collections.abc import Mapping
from typing import Final

from headwater.connect.errors import ConnectError
from headwater.connect.metrics.exposition import PluginTexts
from headwater.connect.plugins import Catalog, Kind, Plugin

_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


def plugin_texts(catalog: Catalog, plugin: Plugin, props: Mapping[str, str], worker: Mapping[str, str]) -> PluginTexts:
    """`props`: the task's; `worker`: whose converters count where the task has none."""
    task_class = plugin.cls.task_class
    texts = {
        "connector-class": plugin.name,
        "connector-type": str(plugin.kind),
        "connector-version": plugin.version,
        "task-class": f"{task_class.__module__}.{task_class.__qualname__}",
        "task-version": plugin.version,
    }
    for part, kind in (
        ("key", Kind.CONVERTER),
        ("value", Kind.CONVERTER),
        ("header", Kind.HEADER_CONVERTER),
    ):
        name = f"{part}.converter"
        given = props.get(name) or worker.get(name) or (_HEADER_CONVERTER if part == "header" else "")
        found = _found(catalog, given, kind)
        if found is not None:
            texts |= {f"{part}-converter-class": found.name, f"{part}-converter-version": found.version}
    return PluginTexts(
        texts,
        _aliased(catalog, props, "transforms", Kind.TRANSFORMATION),
        _aliased(catalog, props, "predicates", Kind.PREDICATE),
    )


def _aliased(catalog: Catalog, props: Mapping[str, str], what: str, kind: Kind) -> tuple[tuple[str, str, str], ...]:
    aliases = [each.strip() for each in props.get(what, "").split(",") if each.strip()]
    found = ((alias, _found(catalog, props.get(f"{what}.{alias}.type", ""), kind)) for alias in aliases)
    return tuple((alias, plugin.name, plugin.version) for alias, plugin in found if plugin is not None)


def _found(catalog: Catalog, name: str, kind: Kind) -> Plugin | None:
    """None: the task will say itself that there is none."""
    try:
        return catalog.find(name, kind)
    except ConnectError:
        return None
