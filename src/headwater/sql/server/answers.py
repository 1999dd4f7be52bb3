"""The entities that /ksql answers with: ksqlDB's shapes, made of the catalog and of what runs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.sql.formats.json_rows import writing
from headwater.sql.functions import library
from headwater.sql.functions.aggregates import AggregateFunction
from headwater.sql.functions.python_functions import CATEGORY
from headwater.sql.functions.registry import ScalarFunction
from headwater.sql.functions.scope import MadeFunction
from headwater.sql.functions.signatures import Signature, parse_signature
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError, did_you_mean
from headwater.sql.language.tree import SourceKind
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type
from headwater.sql.plan.catalog import Column, SourceInfo
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.sql.server.engine import Outcome
from headwater.sql.server.push import Plan, PushQuery
from headwater.sql.server.query_states import QueryState
from headwater.sql.values import as_text

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App

State = Callable[[str], QueryState]  # of a query, by its id
Entity = dict[str, Any]
_PATH: Final = "internal"  # of a function's code: ksqlDB names a jar there


def entity(kind: str, text: str, **fields: Any) -> Entity:
    return {"@type": kind, "statementText": text, **fields, "warnings": []}


def command_status(outcome: Outcome, is_executed: bool) -> dict[str, str | None]:
    """`is_executed`: the queries that it ends have ended."""
    if outcome.error is not None:
        return {"status": "ERROR", "message": str(outcome.error), "queryId": outcome.query_id}
    if not is_executed:
        return {"status": "EXECUTING", "message": "Executing statement", "queryId": outcome.query_id}
    return {"status": "SUCCESS", "message": outcome.message, "queryId": outcome.query_id}


def current_status(text: str, outcome: Outcome, number: int, is_executed: bool) -> Entity:
    status = command_status(outcome, is_executed)
    return entity(
        "currentStatus", text, commandId=outcome.command_id, commandStatus=status, commandSequenceNumber=number
    )


def there_already(text: str, outcome: Outcome) -> Entity:
    """What CREATE ... IF NOT EXISTS is answered where it does nothing."""
    return entity("warning_entity", text, message=outcome.message)


def sources(text: str, session: Session, kind: SourceKind, seen: Callable[[str], bool]) -> Entity:
    shown = [
        {
            "type": kind.value,
            "name": each.name,
            "topic": each.topic,
            "keyFormat": each.key_format.name,
            "valueFormat": each.value_format.name,
            "isWindowed": each.window is not None,
        }
        for each in sorted(session.catalog, key=lambda source: source.name)
        if each.kind is kind and seen(each.topic)
    ]
    name = "streams" if kind is SourceKind.STREAM else "tables"
    return entity(name, text, **{name: shown})


def queries(
    text: str, session: Session, state: State, seen: Callable[[str], bool], pushes: Sequence[PushQuery]
) -> Entity:
    shown = [running_query(each, state) for each in session.queries.values() if seen(each.sink.topic)]
    return entity("queries", text, queries=[*shown, *map(_push_query, pushes)])


def _push_query(query: PushQuery) -> Entity:
    return {
        "queryString": _ended(query.statement),
        "sinks": [],
        "sinkKafkaTopics": [],
        "id": query.id,
        "statusCount": {"RUNNING": 1},
        "queryType": "PUSH",
        "state": "RUNNING",
    }


def running_query(query: PersistentQuery, state: State) -> Entity:
    now = state(query.id)
    return {
        "queryString": _ended(query.statement),
        "sinks": [query.sink.name],
        "sinkKafkaTopics": [query.sink.topic],
        "id": query.id,
        "statusCount": {now.word: 1},
        "queryType": "PERSISTENT",
        "state": now.state,
    }


def functions(text: str, made: Mapping[str, MadeFunction]) -> Entity:
    everything: list[MadeFunction] = [
        *library.SCALARS.values(),
        *library.AGGREGATES.values(),
        *library.TABLE_FUNCTIONS.values(),
    ]
    shown = []
    for each in [*everything, *made.values()]:
        kind = _kind(each)
        category = (each.category or "OTHER") if isinstance(each, ScalarFunction) else kind
        shown.append({"name": each.name, "type": kind, "category": CATEGORY if each.name in made else category})
    return entity("function_names", text, functions=sorted(shown, key=lambda each: each["name"]))


def _kind(function: MadeFunction) -> str:
    if isinstance(function, ScalarFunction):
        return "SCALAR"
    return "AGGREGATE" if isinstance(function, AggregateFunction) else "TABLE"


def _arguments(signature: Signature) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "type": str(each.pattern), "description": "", "isVariadic": each.variadic}
        for each in signature.parameters
    ]


def function(text: str, name: str, made: Mapping[str, MadeFunction]) -> Entity:
    found = (
        made.get(name) or library.SCALARS.get(name) or library.AGGREGATES.get(name) or library.TABLE_FUNCTIONS.get(name)
    )
    if found is None:
        known = [*library.SCALARS, *library.AGGREGATES, *library.TABLE_FUNCTIONS, *made]
        raise SqlError(
            f"Can't find any functions with the name '{name}'",
            hint=did_you_mean(name, known, "SHOW FUNCTIONS; lists them."),
        )
    kind, description = _kind(found), found.description
    if isinstance(found, ScalarFunction):
        forms = [f"{each.signature} -> {each.signature.returns}" for each in found.overloads]
        arguments = [_arguments(each.signature) for each in found.overloads]
    else:
        forms = list(found.forms)
        reads = name not in made  # forms of one's own may have types that no signature has
        arguments = [
            _arguments(parse_signature(each)) if reads and not each.startswith("(*)") else [] for each in forms
        ]
    shown = [
        {
            "arguments": taken,
            "signature": form.partition(" -> ")[0],
            "returnType": form.partition(" -> ")[2],
            "description": description,
        }
        for form, taken in zip(forms, arguments, strict=True)
    ]
    return entity(
        "describe_function",
        text,
        name=name,
        description=description,
        author="",
        version="",
        path=_PATH,
        type=kind,
        functions=shown,
    )


def custom_types(text: str, session: Session) -> Entity:
    return entity("type_list", text, types={name: type_of(each) for name, each in session.catalog.custom_types.items()})


def properties(text: str, rows: list[Entity]) -> Entity:
    overwritten = [each["name"] for each in rows if each["level"]]
    defaults = [each["name"] for each in rows if not each["level"]]
    return entity("properties", text, properties=rows, overwrittenProperties=overwritten, defaultProperties=defaults)


def description(text: str, shown: Entity) -> Entity:
    return entity("sourceDescription", text, sourceDescription=shown)


def source_description(source: SourceInfo, session: Session, state: State, extended: bool) -> Entity:
    readers = [running_query(each, state) for each in session.queries.values() if source.name in each.sources]
    writers = [running_query(each, state) for each in session.queries.values() if each.sink.name == source.name]
    window = source.window.kind.value if source.window else None
    made_of_it = [each.sink.name for each in session.queries.values() if source.name in each.sources]
    return {
        "name": source.name,
        "windowType": window,
        "readQueries": readers,
        "writeQueries": writers,
        "fields": [field_of(each) for each in (*source.key_columns, *source.value_columns, *source.header_columns)],
        "type": source.kind.value,
        "timestamp": source.timestamp_column or "",
        "statistics": "",
        "errorStats": "",
        "extended": extended,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "topic": source.topic,
        "partitions": 0,
        "replication": 0,
        "statement": _ended(source.statement),
        "queryOffsetSummaries": [],
        "sourceConstraints": sorted(set(made_of_it)),
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


def query_description(text: str, query: PersistentQuery, state: State) -> Entity:
    return entity("queryDescription", text, queryDescription=_described(query, state))


def query_descriptions(text: str, session: Session, state: State, seen: Callable[[str], bool]) -> Entity:
    shown = [_described(each, state) for each in session.queries.values() if seen(each.sink.topic)]
    return entity("query_descriptions", text, queryDescriptions=shown)


def plan_description(text: str, statement: tree.Select, plan: Plan) -> Entity:
    """A query on its own, which does not run: it writes no stream or table."""
    described = _description(plan.id, statement.text, plan.columns, plan.sources, plan.app)
    described["queryType"] = "PULL" if statement.query.emit is None else "PUSH"
    return entity("queryDescription", text, queryDescription=described)


def _description(query_id: str, statement: str, columns: Sequence[Column], sources: Sequence[str], app: App) -> Entity:
    from headwater.streams.topology.describe import describe  # a server without queries does without

    return {
        "id": query_id,
        "statementText": _ended(statement),
        "windowType": None,
        "fields": [field_of(each) for each in columns],
        "sources": list(sources),
        "sinks": [],
        "topology": describe(app.topology()),
        "executionPlan": "",
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": "PERSISTENT",
        "queryErrors": [],
        "rowErrors": [],
        "tasksMetadata": [],
        "consumerGroupId": app.name,
        "state": None,
    }


def _described(query: PersistentQuery, state: State) -> Entity:
    now, why, host = found = state(query.id)
    return _description(query.id, query.statement, query.sink.columns, query.sources, query.app) | {
        "windowType": query.sink.window.kind.value if query.sink.window else None,
        "sinks": [query.sink.name],
        "ksqlHostQueryStatus": {host: found.word} if host else {},
        "queryErrors": [{"errorMessage": why, "type": "UNKNOWN"}] if why else [],
        "rowErrors": [f"{what}: {error}" for what, error in query.errors.seen[-20:]],
        "state": now or None,
    }


def _ended(statement: str) -> str:
    """With the semicolon that ksqlDB's statements have where they are told."""
    return statement if not statement or statement.endswith(";") else f"{statement};"


def field_of(column: Column) -> Entity:
    shown: Entity = {"name": column.name, "schema": type_of(column.type)}
    if column.is_key:
        shown["type"] = "KEY"
    elif column.header is not None or column.role.value.startswith("HEADER"):
        shown["type"] = "HEADER"
        if column.header is not None:
            shown["headerKey"] = column.header
    return shown


def type_of(given: Type) -> Entity:
    """The type of a field, as /ksql shows it."""
    fields: list[Entity] | None = None
    member: Entity | None = None
    parameters: Entity | None = None
    if isinstance(given, ArrayType):
        member = type_of(given.item)
    elif isinstance(given, MapType):
        member = type_of(given.value)
    elif isinstance(given, StructType):
        fields = [{"name": name, "schema": type_of(each)} for name, each in given.fields]
    elif isinstance(given, DecimalType):
        parameters = {"precision": given.precision, "scale": given.scale}
    shown: Entity = {"type": given.base.value, "fields": fields, "memberSchema": member}
    if parameters is not None:
        shown["parameters"] = parameters
    return shown


def row_writers(columns: tuple[Column, ...]) -> Callable[[list[Any]], list[Any]]:
    """A row as JSON: dates and times as text, as ksqlDB's rows have them."""
    writers = [_writer(each.type) for each in columns]
    return lambda row: [None if value is None else write(value) for write, value in zip(writers, row, strict=True)]


def _writer(given: Type) -> Callable[[Any], Any]:

    if given.base in (Base.DATE, Base.TIME, Base.TIMESTAMP):
        return as_text
    return writing(given)


def schema_text(columns: tuple[Column, ...]) -> str:
    """As the header of rows has it: ksqlDB calls the columns of a key so only where a table was asked."""
    return ", ".join(map(str, columns))
