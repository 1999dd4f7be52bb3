"""docs/CONFIG.md, made from the table: `python -m headwater.base.config.document > docs/CONFIG.md`.

A test holds the file against what this prints, so the two cannot drift apart.
"""

import sys
from collections.abc import Iterable, Iterator

from headwater.base.config import (
    broker_log,
    broker_network,
    broker_quotas,
    broker_replication,
    broker_rights,
    broker_security,
    broker_unused,
    broker_zookeeper,
    group,
    topic,
)
from headwater.base.config.definition import ConfigType, Definition, DynamicMode, format_value
from headwater.base.markdown import wrapped

_INTRODUCTION = """\
# Configuration

Made from the table in `src/headwater/base/config/` by `python -m headwater.base.config.document`; change the table, not
this file.

A broker reads `server.properties` (Java's syntax, Apache Kafka's names) and `--set name=value` over it. A name that
nobody knows gets a warning; a bad value stops the start with a sentence. `headwater config set` changes what is marked
*dynamic* while the broker runs: *cluster-wide* for one broker or for all, *per-broker* for one.

A topic's own config wins over the broker's. Where a topic says nothing, the broker properties named beside it are asked
in their order, and the first that is set counts.

*Without effect* marks what this version takes and does not act on: some of Apache Kafka's threads and buffers have no
counterpart here. The broker names those that are set when it starts.
"""

_SECTIONS = (
    ("Broker: identity, listeners, connections", broker_network.DEFINITIONS),
    ("Broker: TLS and logins", broker_security.DEFINITIONS),
    (
        "Broker: its connection to ZooKeeper",
        tuple(each._replace(hidden=False) for each in broker_zookeeper.DEFINITIONS),
    ),
    ("Broker: the log, and the defaults of topics", broker_log.DEFINITIONS),
    ("Broker: rights", broker_rights.DEFINITIONS),
    ("Broker: quotas", broker_quotas.DEFINITIONS),
    ("Broker: replication", broker_replication.REPLICATION),
    (
        "Broker: groups and transactions",
        broker_replication.COORDINATION,
    ),
)


def document() -> str:
    return wrapped("\n".join(_lines()) + "\n")


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield "## Topics\n"
    yield "| name | type | default | allowed | broker properties | meaning |"
    yield "|---|---|---|---|---|---|"
    for definition in sorted(topic.DEFINITIONS, key=_name):
        if not definition.hidden:
            chain = ", ".join(f"`{synonym.name}`" for synonym in definition.synonyms)
            yield f"{_cells(definition)} {chain} | {_meaning(definition)} |"
    yield "\n## Consumer groups\n"
    yield "Set on one group (`kafka-configs --entity-type groups`). What a group does not set, the broker property says.\n"
    yield "| name | type | default | allowed | broker properties | meaning |"
    yield "|---|---|---|---|---|---|"
    for definition in sorted(group.DEFINITIONS, key=_name):
        chain = ", ".join(f"`{synonym.name}`" for synonym in definition.synonyms)
        yield f"{_cells(definition)} {chain} | {_meaning(definition)} |"
    for title, definitions in _SECTIONS:
        yield f"\n## {title}\n"
        yield from _broker_table(definition for definition in definitions if not definition.hidden)
    yield "\n## Known to Apache Kafka, without effect here\n"
    yield "A `server.properties` that sets them loads, and the broker says once that they have no effect.\n"
    for table, note in broker_unused.GROUPS_AND_NOTES:
        names = sorted(line.split(" ")[0] for line in table.split("\n") if line)
        yield f"{note} {', '.join(f'`{name}`' for name in names)}\n"


def _broker_table(definitions: Iterable[Definition]) -> Iterator[str]:
    yield "| name | type | default | allowed | dynamic | meaning |"
    yield "|---|---|---|---|---|---|"
    for definition in sorted(definitions, key=_name):
        dynamic = "" if definition.mode is DynamicMode.READ_ONLY else definition.mode.value
        yield f"{_cells(definition)} {dynamic} | {_meaning(definition)} |"


def _cells(definition: Definition) -> str:
    text = format_value(definition.default)
    default = "" if text is None else f"`{text}`" if text else "empty"
    allowed = "" if definition.validator is None else str(definition.validator)
    return f"| `{definition.name}` | {ConfigType(definition.type).name.lower()} | {default} | {allowed} |"


def _name(definition: Definition) -> str:
    return definition.name


def _meaning(definition: Definition) -> str:
    return definition.doc if definition.used else f"*Without effect.* {definition.doc}"


if __name__ == "__main__":
    sys.stdout.write(document())
