"""What each statement needs, as rights on Kafka's topics and on the cluster. Pure: a statement and the catalog in,
needs out.

The server reads and writes with its own login; so a statement needs what its sender would need to do the same with a
client of Kafka: READ on the topics of its sources, WRITE and CREATE on that of its sink. What is shared by all
(functions, types, all queries) needs ALTER on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from headwater.base.acls import Operation, ResourceType
from headwater.sql.language import tree
from headwater.sql.plan.insertion import Insertion
from headwater.sql.plan.session import KEY_FORMAT, VALUE_FORMAT, PersistentQuery
from headwater.web.callers import Caller, Need, cluster, topic
from headwater.web.rights import require

if TYPE_CHECKING:
    from headwater.sql.plan.catalog import SourceInfo
    from headwater.sql.plan.session import Session

_REGISTERED: Final = ("AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR")
_FORMATS: Final = ("FORMAT", "KEY_FORMAT", "VALUE_FORMAT")
_CHANGES_ALL: Final = (tree.CreateFunction, tree.DropFunction, tree.CreateType, tree.DropType, tree.AlterSystem)


def needs(statement: tree.Statement, session: Session) -> list[Need]:
    """Before it is planned. A source that is not there needs nothing: the statement fails."""
    match statement:
        case tree.CreateSource():
            return _of_new_source(statement, session)
        case tree.CreateAs():
            replaced = _of_source(Operation.ALTER, statement.name, session) if statement.or_replace else []
            return [*_of_sources(Operation.READ, statement.query, session), *replaced]
        case tree.InsertInto():
            return [
                *_of_sources(Operation.READ, statement.query, session),
                *_of_source(Operation.WRITE, statement.target, session),
            ]
        case tree.InsertValues():
            return _of_source(Operation.WRITE, statement.target, session)
        case tree.Select():
            return _of_sources(Operation.READ, statement.query, session)
        case tree.Print():
            return [topic(Operation.READ, statement.topic)]
        case tree.Drop():
            deleted = _of_source(Operation.DELETE, statement.name, session) if statement.delete_topic else []
            return [*_of_source(Operation.ALTER, statement.name, session), *deleted]
        case tree.AlterSource():
            return _of_source(Operation.ALTER, statement.name, session)
        case tree.ControlQuery():
            return _of_control(statement, session)
        case tree.Show(what="PROPERTIES"):
            return [cluster(Operation.DESCRIBE_CONFIGS)]
        case tree.Describe(function=False):
            return _of_source(Operation.DESCRIBE, statement.name, session)
        case tree.Explain():
            return _of_explained(statement, session)
        case tree.Assert(what="TOPIC"):
            return [topic(Operation.DESCRIBE, statement.name or "")]
        case tree.Assert():
            return [cluster(Operation.DESCRIBE)]
        case _:
            return [cluster(Operation.ALTER)] if isinstance(statement, _CHANGES_ALL) else []


async def require_now(caller: Caller, statement: tree.Statement, session: Callable[[], Session]) -> None:
    """Asked again for as long as the catalog changes meanwhile: when this returns, it holds for the catalog of that
    moment.
    """
    asked: list[Need] | None = None
    while (wanted := needs(statement, session())) != asked:
        await require(caller, *wanted, told=telling(statement, session()))
        asked = wanted


async def require_source(caller: Caller, operation: Operation, source: SourceInfo) -> None:
    """A right on the topic of a stream or table. Who has it not is told of the source that he named, not of its
    topic.
    """
    await require(caller, topic(operation, source.topic), told=lambda need: _of(need, source.name))


def telling(statement: tree.Statement, session: Session) -> Callable[[Need], str]:
    """How a missing right is named: a topic that the statement does not name itself, by the stream or table over it."""
    named = _topics_named(statement)
    over: dict[str, str] = {}
    for name in _sources_named(statement, session):
        found = session.catalog.sources.get(name)
        if found is not None:
            over.setdefault(found.topic, name)

    def told(need: Need) -> str:
        if need.resource is not ResourceType.TOPIC or need.name in named or need.name not in over:
            return str(need)
        return _of(need, over[need.name])

    return told


def _of(need: Need, source: str) -> str:
    return f"{need.operation.name} on the topic of {source}"


def _topics_named(statement: tree.Statement) -> set[str]:
    match statement:
        case tree.CreateSource() | tree.CreateAs():
            return {str(value) for name, value in statement.properties.items() if name.upper() == "KAFKA_TOPIC"}
        case tree.Print():
            return {statement.topic}
        case tree.Explain() if not isinstance(statement.target, str):
            return _topics_named(statement.target)
        case _:
            return set()


def _sources_named(statement: tree.Statement, session: Session) -> list[str]:
    match statement:
        case tree.CreateAs():
            return [statement.name, *_names(statement.query.source)]
        case tree.InsertInto():
            return [statement.target, *_names(statement.query.source)]
        case tree.InsertValues():
            return [statement.target]
        case tree.Select():
            return list(_names(statement.query.source))
        case tree.CreateSource() | tree.Drop() | tree.AlterSource() | tree.Describe():
            return [statement.name]
        case tree.ControlQuery(query_id=str(query_id)):
            query = session.query_named(query_id)
            return [] if query is None else [query.sink.name]
        case tree.Explain(target=str(query_id)):
            query = session.query_named(query_id)
            return [] if query is None else [query.sink.name, *query.sources]
        case tree.Explain(target=tree.Statement() as target):
            return _sources_named(target, session)
        case _:
            return []


def of_outcome(statement: tree.Statement, done: PersistentQuery | Insertion | None, session: Session) -> list[Need]:
    """When it is planned, and nothing has been done yet: what the plan reads and writes."""
    if not isinstance(done, PersistentQuery):
        return []
    sources = [need for name in done.sources for need in _of_source(Operation.READ, name, session)]
    sink = [topic(Operation.WRITE, done.sink.topic)]
    if isinstance(statement, tree.CreateAs):
        sink.append(topic(Operation.CREATE, done.sink.topic))
    return [*sources, *sink]


def _of_new_source(statement: tree.CreateSource, session: Session) -> list[Need]:
    given = {name.upper(): str(value) for name, value in statement.properties.items()}
    name = given.get("KAFKA_TOPIC", statement.name)
    found = [topic(Operation.READ, name)]
    if "PARTITIONS" in given:
        found.append(topic(Operation.CREATE, name))
    if statement.columns and any(given.get(each, "").upper() in _REGISTERED for each in _FORMATS):
        found.append(topic(Operation.WRITE, name))  # its schema is registered
    return [*found, *_of_source(Operation.ALTER, statement.name, session)] if statement.or_replace else found


def of_default_formats(statement: tree.Statement, settings: Mapping[str, str]) -> list[Need]:
    """What a CREATE that names no format needs because of the default ones: a schema of its columns is registered."""
    if not isinstance(statement, tree.CreateSource) or not statement.columns:
        return []
    given = {name.upper(): str(value) for name, value in statement.properties.items()}
    sides = (("KEY_FORMAT", KEY_FORMAT), ("VALUE_FORMAT", VALUE_FORMAT))
    taken = [settings.get(default, "") for name, default in sides if not (name in given or "FORMAT" in given)]
    if not any(each.upper() in _REGISTERED for each in taken):
        return []
    return [topic(Operation.WRITE, given.get("KAFKA_TOPIC", statement.name))]


def schema_ids(statement: tree.Statement) -> list[tuple[str, int]]:
    """Schemas that are named by their id, each with the subject of the topic: of another subject, a right of its own is
    needed.
    """
    if isinstance(statement, tree.Explain) and not isinstance(statement.target, str):
        return schema_ids(statement.target)
    if not isinstance(statement, tree.CreateSource | tree.CreateAs):
        return []
    given = {name.upper(): str(value) for name, value in statement.properties.items()}
    name = given.get("KAFKA_TOPIC", statement.name)
    found = ((f"{name}-{side.lower()}", given.get(f"{side}_SCHEMA_ID", "")) for side in ("KEY", "VALUE"))
    return [(subject, int(number)) for subject, number in found if number.isascii() and number.isdigit()]


def _of_control(statement: tree.ControlQuery, session: Session) -> list[Need]:
    if statement.query_id is None:
        return [cluster(Operation.ALTER)]
    query = session.query_named(statement.query_id)
    return [] if query is None else [topic(Operation.ALTER, query.sink.topic)]


def _of_explained(statement: tree.Explain, session: Session) -> list[Need]:
    if not isinstance(statement.target, str):
        return [need._replace(operation=Operation.DESCRIBE) for need in needs(statement.target, session)]
    query = session.query_named(statement.target)
    if query is None:
        return []
    sources = [need for name in query.sources for need in _of_source(Operation.DESCRIBE, name, session)]
    return [*sources, topic(Operation.DESCRIBE, query.sink.topic)]


def _of_sources(operation: Operation, query: tree.Query, session: Session) -> list[Need]:
    return [need for name in _names(query.source) for need in _of_source(operation, name, session)]


def _of_source(operation: Operation, name: str, session: Session) -> list[Need]:
    found = session.catalog.sources.get(name)
    return [] if found is None else [topic(operation, found.topic)]


def _names(source: tree.Source | tree.Join) -> Iterator[str]:
    if isinstance(source, tree.Join):
        yield from _names(source.left)
        yield source.right.name
    else:
        yield source.name
