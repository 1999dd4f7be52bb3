"""Statements carried out one after the other: what they create, and the queries that they start.

A `Session` owns a catalog, the properties and variables that are set, and the persistent queries in the order of their
statements. It runs nothing itself: whoever owns it gives the applications of the queries to a test driver, to this
process or to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.sql.formats.registry.port import Schemas
from headwater.sql.functions import scope
from headwater.sql.functions.function_shapes import Shape
from headwater.sql.functions.python_functions import Policy
from headwater.sql.language import tree, types
from headwater.sql.language.errors import (
    BEGINNING,
    DeclinedError,
    Position,
    SqlError,
    did_you_mean,
    placed_at,
)
from headwater.sql.language.parser import parse, pieces_of, substitute
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan import inference, own_functions, properties, queries, query_ids, reading, replacing
from headwater.sql.plan.catalog import Catalog, Column, SourceInfo
from headwater.sql.plan.insert_into import cast_to
from headwater.sql.plan.insertion import Insertion, insertion_of
from headwater.sql.plan.processing_errors import Listener, leave_out
from headwater.sql.plan.queries import QueryBuilder
from headwater.sql.plan.relations import Errors
from headwater.sql.plan.sources import check_writable, source_of
from headwater.streams.engine.failures import ErrorPolicy

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App

KEY_FORMAT = "ksql.persistence.default.format.key"
OFFSET_RESET = "auto.offset.reset"
TOPIC_PREFIX = "ksql.output.topic.name.prefix"
VALUE_FORMAT = "ksql.persistence.default.format.value"
WRAP_SINGLE = "ksql.persistence.wrap.single.values"


@dataclass(frozen=True, slots=True)
class PersistentQuery:
    """A query that runs until it is terminated: the application that it became, and the sink that it writes."""

    id: str
    statement: str
    app: App
    sink: SourceInfo
    sources: tuple[str, ...]
    errors: Errors
    together: tuple[frozenset[str], ...] = ()  # topics that must be equally partitioned
    functions: frozenset[str] = frozenset()  # of CREATE FUNCTION, that it uses
    withheld: str = ""  # why this server cannot run it: it uses a function whose code is not here
    footing: replacing.Footing | None = None  # None: it cannot be replaced

    def reads_its_sink(self, catalog: Catalog) -> bool:
        """Whether its results are its inputs, by whatever name it reads their topic."""
        read = [catalog.sources.get(name) for name in self.sources]
        return any(each is not None and each.topic == self.sink.topic for each in read)


@dataclass(slots=True)
class Session:
    catalog: Catalog = field(default_factory=Catalog)
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    queries: dict[str, PersistentQuery] = field(default_factory=dict)
    service_id: str = "default_"
    brokers: str = "localhost:9092"
    paused: set[str] = field(default_factory=set)
    schemas: Schemas | None = None
    listener: Listener | None = None  # is told of rows that cannot be decoded or computed
    functions_allowed: Policy = field(default_factory=Policy)
    checks_schemas: bool = (
        True  # the registry is asked; not when a log of statements is read again, which has its answers
    )
    names_queries: bool = True  # QUERY_ID counts
    # OR REPLACE is checked, and a QUERY_ID that was used before has a new application: statements of older logs were
    # accepted without, and their queries must stay what they are.
    checks_successors: bool = True
    spreads_bounds: bool = True  # the same of `*` of a join of windowed streams, which has the bounds of their windows
    formats_keys: bool = True  # the same of keys that queries make, or leave out
    used_ids: set[str] = field(default_factory=set)  # of QUERY_ID
    ended: set[str] = field(default_factory=set)  # applications of queries that are no more
    declared: Shape | None = None  # of the CREATE FUNCTION that was accepted elsewhere: its code need not be here
    next_query_number: int = 0  # the server sets it to the place of the statement in its log, so that ids never differ

    def run(self, text: str) -> list[PersistentQuery | Insertion | None]:
        """All statements of a text, each carried out before the next is read."""
        return [self.execute(statement) for piece in pieces_of(text) for statement in self.parse(*piece)]

    def parse(self, text: str, begins_at: Position = BEGINNING, *, accepted: bool = False) -> list[tree.Statement]:
        text = substitute(text, self.variables, begins_at=begins_at)
        return parse(text, self.catalog.custom_types, accepted=accepted, begins_at=begins_at)

    def execute(self, statement: tree.Statement) -> PersistentQuery | Insertion | None:
        withheld = (
            self.catalog.withheld if self.checks_schemas else {}
        )  # a statement of the log is understood all the same
        using = scope.using(self.catalog.functions, self.settings, withheld)
        with placed_at(statement.position), using as functions:
            done = self._execute(statement)
        if isinstance(done, PersistentQuery) and functions.used:
            absent = sorted(functions.used & set(self.catalog.withheld))
            why = " ".join(f"It needs the function {name}. {self.catalog.withheld[name]}" for name in absent)
            done = replace(done, functions=frozenset(functions.used), withheld=why)
            self.queries[done.id] = done
        return done

    def _execute(self, statement: tree.Statement) -> PersistentQuery | Insertion | None:
        match statement:
            case tree.CreateSource():
                self._create(statement)
            case tree.CreateAs():
                return self._create_as(statement)
            case tree.InsertInto():
                return self._insert_into(statement)
            case tree.InsertValues():
                return insertion_of(self.catalog.find(statement.target, statement.position), statement)
            case tree.Drop():
                self._drop(statement)
            case tree.CreateType():
                if statement.name in self.catalog.custom_types and not statement.if_not_exists:
                    raise SqlError(f"Cannot register custom type '{statement.name}' since it is already registered.")
                self.catalog.custom_types.setdefault(statement.name, statement.type)
            case tree.DropType():
                if self.catalog.custom_types.pop(statement.name, None) is None and not statement.if_exists:
                    raise SqlError(f"Type {statement.name} does not exist.")
            case tree.CreateFunction():
                if self.checks_schemas:
                    own_functions.create(self.catalog, statement, self.functions_allowed)
                else:
                    own_functions.create_accepted(self.catalog, statement, self.functions_allowed, self.declared)
            case tree.DropFunction():
                users = [each.id for each in self.queries.values() if statement.name in each.functions]
                own_functions.drop(self.catalog, statement, users)
            case tree.SetProperty() | tree.AlterSystem():
                self.settings[statement.name] = statement.value
            case tree.UnsetProperty():
                for name in list(self.settings) if statement.name is None else [statement.name]:
                    self.settings.pop(name, None)
            case tree.Define():
                self.variables[statement.name] = statement.value
            case tree.Undefine():
                self.variables.pop(statement.name, None)
            case tree.ControlQuery():
                self._control(statement)
            case tree.AlterSource():
                self._alter(statement)
            case tree.Select():
                raise DeclinedError(
                    "A query on its own needs a server, which is not there yet.",
                    hint="CREATE STREAM ... AS SELECT or CREATE TABLE ... AS SELECT.",
                    position=statement.position,
                )
            case _:
                raise DeclinedError(
                    "This statement needs a server, which is not there yet.", position=statement.position
                )
        return None

    # -- sources -------------------------------------------------------------------------------------------------------

    def _create(self, statement: tree.CreateSource) -> None:
        if self._exists(statement.name, statement.kind, statement):
            return
        statement = self.completed(statement)
        made = source_of(statement, *self._default_formats(), wraps=self._wraps())
        made = inference.placed(made, self.schemas)
        self._check_successor(made, statement)
        self.catalog.sources[statement.name] = made

    def _check_successor(self, source: SourceInfo, statement: tree.CreateSource | tree.CreateAs) -> None:
        known = self.catalog.sources.get(source.name)
        if known is not None and self.checks_successors:
            replacing.check_source(known, source, statement.position)

    def completed(self, statement: tree.CreateSource) -> tree.CreateSource:
        """With the columns that the schema registry has, where it names none."""
        if not self.checks_schemas or self.has_already(statement):
            return statement
        with placed_at(statement.position):
            return inference.inferred(statement, self.schemas, *self._default_formats())

    def _default_formats(self) -> tuple[str | None, str | None]:
        """Of keys and of values, for statements that name none."""
        given = (self.settings.get(KEY_FORMAT), self.settings.get(VALUE_FORMAT))
        return given[0] and given[0].upper(), given[1] and given[1].upper()

    def _default_key(self) -> str | None:
        """Of keys that a query makes; None: as in older logs, for it has rows under such keys."""
        return (self._default_formats()[0] or properties.DEFAULT_KEY_FORMAT) if self.formats_keys else None

    def _wraps(self) -> bool:
        return self.settings.get(WRAP_SINGLE, "true").lower() != "false"

    def has_already(self, statement: tree.CreateSource | tree.CreateAs) -> bool:
        """Whether it does nothing, because what it would make is there and may be."""
        return statement.if_not_exists and not statement.or_replace and statement.name in self.catalog.sources

    def _exists(self, name: str, kind: SourceKind, statement: tree.CreateSource | tree.CreateAs) -> bool:
        """Whether there is nothing to do, because it may exist and does."""
        known = self.catalog.sources.get(name)
        read_only = isinstance(statement, tree.CreateSource) and statement.read_only
        if statement.or_replace and (read_only or (known is not None and known.read_only)):
            raise SqlError(
                f"Cannot add {kind.value.lower()} '{name}': CREATE OR REPLACE is not supported on source {kind.value.lower()}s.",
                position=statement.position,
            )
        if known is None or statement.or_replace:
            return False
        if self.has_already(statement):
            return True
        raise SqlError(
            f"Cannot add {kind.value.lower()} '{name}': A {known.kind.value.lower()} with the same name already exists",
            hint="DROP it first, or CREATE OR REPLACE.",
            position=statement.position,
        )

    def _drop(self, statement: tree.Drop) -> None:
        known = self.catalog.sources.get(statement.name)
        if known is None:
            if statement.if_exists:
                return
            raise SqlError(
                f"{statement.kind.value.title()} {statement.name} does not exist.",
                hint=did_you_mean(statement.name, self.catalog.sources),
                position=statement.position,
            )
        if known.kind is not statement.kind:
            raise SqlError(
                f"Incompatible data source type is {known.kind.value}, but statement was DROP {statement.kind.value}",
                position=statement.position,
            )
        users = [each.id for each in self.queries.values() if statement.name in each.sources]
        writers = [
            each.id
            for each in self.queries.values()
            if each.sink.name == statement.name and each.id != known.made_by_query
        ]
        if users or writers:
            raise SqlError(
                f"Cannot drop {statement.name}.",
                why=f"The following queries read from this source: [{', '.join(users)}], and write into it: [{', '.join(writers)}]",
                hint="You need to terminate them before dropping it.",
                position=statement.position,
            )
        if statement.delete_topic:
            check_writable(known.topic)
        if statement.delete_topic and known.read_only:
            raise SqlError(f"Cannot delete topic for read-only source: {statement.name}", position=statement.position)
        others = self.catalog.others_over(known)
        if statement.delete_topic and others and self.checks_schemas:  # the log of statements may have some from before
            raise SqlError(
                f"Refusing to delete topic. Found other data sources ({', '.join(others)}) using topic {known.topic}",
                hint="DROP these first, or leave DELETE TOPIC out.",
                position=statement.position,
            )
        if known.made_by_query is not None:
            self._end([known.made_by_query])
        del self.catalog.sources[statement.name]

    def _alter(self, statement: tree.AlterSource) -> None:
        known = self.catalog.find(statement.name, statement.position)
        if known.kind is not statement.kind:
            raise SqlError(
                f"Incompatible data source type is {known.kind.value}, but statement was ALTER {statement.kind.value}"
            )
        if known.read_only:
            raise SqlError(
                f"Cannot alter {known.kind.value.lower()} '{known.name}': ALTER operations are not supported on source "
                f"{known.kind.value.lower()}s."
            )
        if known.made_by_query is not None:
            raise SqlError(f"ALTER command is not supported for CREATE ... AS statements: {statement.name}")
        names = {each.name for each in known.columns}
        for each in statement.columns:
            if each.name in names:
                raise SqlError(
                    f"Cannot add column {types.quoted(each.name)} to schema. A column with the same name already exists."
                )
        added = tuple(Column(each.name, each.type) for each in statement.columns)
        self.catalog.sources[statement.name] = replace(known, columns=(*known.columns, *added))

    # -- queries -------------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        self.next_query_number += 1
        return self.next_query_number - 1

    def _reset(self) -> str | None:
        """Where the streams of a new query begin: `auto.offset.reset`, or at their beginning."""
        given = self.settings.get(OFFSET_RESET)
        if given not in (None, "earliest", "latest"):
            raise SqlError(f"{OFFSET_RESET} cannot be '{given}'.", hint="It is 'earliest' or 'latest'.")
        return given

    def _builder(self, app: App, errors: Errors, store: str | None = None) -> QueryBuilder:
        throws = self._is_set(reading.THROW_ON_INVALID)
        return QueryBuilder(
            app,
            self.catalog,
            errors,
            reset=self._reset(),
            throws=throws,
            store=store,
            spreads_bounds=self.spreads_bounds,
            default_key=self._default_key(),
            checks_topics=self.checks_schemas,
        )

    def _is_set(self, name: str) -> bool:
        return reading.is_set(self.settings, name, accepted=not self.checks_schemas)

    def _app(self, query_id: str, name: str | None = None) -> App:
        # Rows that cannot be decoded are left out unless told otherwise, as ksqlDB does; all else fails the query.
        from headwater.streams.dsl.app import App  # a server without queries does without

        return App(
            f"_confluent-ksql-{self.service_id}query_{name or query_id}",
            brokers=self.brokers,
            on_error=ErrorPolicy(
                deserialization="fail" if self._is_set(reading.FAIL_ON_BYTES) else leave_out(query_id, self.listener)
            ),
        )

    def _create_as(self, statement: tree.CreateAs) -> PersistentQuery | None:
        if self._exists(statement.name, statement.kind, statement):
            return None
        replaced = self._replaced(statement)
        if statement.query.limit is not None:
            raise SqlError(
                f"CREATE {statement.kind.value} AS SELECT statements don't support LIMIT clause.",
                why="A stream or table has no last row",
                position=statement.position,
            )
        with_ = properties.read(statement.properties, sink=True)
        prefix = self.settings.get(TOPIC_PREFIX, "")
        if with_.topic is None and prefix:
            with_ = replace(with_, topic=prefix + statement.name)
        query_id = query_ids.made(
            "CSAS" if statement.kind is SourceKind.STREAM else "CTAS", statement.name, self._number()
        )
        if replaced is not None:
            query_id = replaced.id  # it goes on where the one before it was
        app, errors = self._app(query_id), Errors(query_id=query_id, listener=self.listener)
        builder = self._builder(app, errors, _store_of(replaced))
        result = builder.build(statement.query, statement.name, with_)
        footing = replacing.footing_of(statement.query, self.catalog, builder.grouped)
        wraps, default_key = self._wraps(), self._default_key()
        sink = queries.sink_of(
            statement, result, with_, statement.query, query_id, wraps=wraps, default_key=default_key
        )
        sink = inference.placed(sink, self.schemas)
        if self.checks_schemas:
            inference.check_schema_ids(sink)
            if builder.grouped is not None and not builder.grouped.calls:
                raise SqlError(
                    "GROUP BY requires aggregate functions in either the SELECT or HAVING clause.",
                    position=statement.query.position,
                )
        self._check_successor(sink, statement)
        if replaced is not None and replaced.footing is not None and self.checks_successors:
            replacing.check_query(replaced.footing, footing, statement.position)
        queries.write(result, sink, errors)
        self.catalog.sources[statement.name] = sink
        names = tuple(source.name for _, source in result.relation.sources)
        self.queries[query_id] = PersistentQuery(
            query_id, statement.text, app, sink, names, errors, tuple(builder.together), footing=footing
        )
        return self.queries[query_id]

    def _replaced(self, statement: tree.CreateAs) -> PersistentQuery | None:
        known = self.catalog.sources.get(statement.name)
        if known is None or not statement.or_replace:
            return None
        if known.made_by_query is None:
            raise SqlError(
                f"Cannot replace {statement.name}: it was not made by a query.",
                hint="DROP it first.",
                position=statement.position,
            )
        return self.queries.get(known.made_by_query)

    def _insert_into(self, statement: tree.InsertInto) -> PersistentQuery:
        target = self.catalog.find(statement.target, statement.position)
        if target.kind is SourceKind.TABLE:
            raise SqlError(
                "INSERT INTO can only be used to insert into a stream.",
                why=f"{target.name} is a table",
                position=statement.position,
            )
        if target.read_only:
            raise SqlError(f"Cannot insert into read-only stream: {target.name}", position=statement.position)
        if target.header_columns and self.checks_schemas:  # the log of statements may have some from before
            raise SqlError(
                f"Cannot insert into {target.name} because it has header columns", position=statement.position
            )
        with_ = properties.read(tree.Properties(), sink=True)
        given = query_ids.given(statement, self.queries) if self.names_queries else None
        number = self._number()
        query_id = given or f"INSERTQUERY_{number}"
        is_used = given in self.used_ids and self.checks_successors
        name = query_ids.of_successor(query_id, number) if is_used else query_id
        app, errors = self._app(query_id, name), Errors(query_id=query_id, listener=self.listener)
        check_writable(target.topic)
        builder = self._builder(app, errors)
        result = builder.build(statement.query, target.name, with_)
        if result.relation.kind is not target.kind:
            raise SqlError(
                "Incompatible data sink and query result. Data sink is stream but select query result is table.",
                position=statement.position,
            )
        result = cast_to(result, target, statement, errors)
        queries.write(result, target, errors)
        names = tuple(source.name for _, source in result.relation.sources)
        self.queries[query_id] = PersistentQuery(
            query_id, statement.text, app, target, names, errors, tuple(builder.together)
        )
        if given:
            self.used_ids.add(given)
        self.ended.discard(app.name)
        return self.queries[query_id]

    def query_named(self, query_id: str) -> PersistentQuery | None:
        """The one that a statement means, in whatever letters."""
        found = query_ids.meant(query_id, self.queries)
        return None if found is None else self.queries[found]

    def with_id(self, statement: tree.ControlQuery) -> tree.ControlQuery:
        """With the id in its own letters, as it goes into the log."""
        query = self.query_named(statement.query_id or "")
        if query is None or query.id == statement.query_id:
            return statement
        text = f"{statement.action} {types.quoted(query.id)};"
        return replace(statement, query_id=query.id, text=text)

    def _control(self, statement: tree.ControlQuery) -> None:
        query = None if statement.query_id is None else self.query_named(statement.query_id)
        if statement.query_id is not None and query is None:
            raise SqlError(
                f"Unknown queryId: {statement.query_id}", hint="SHOW QUERIES; lists them.", position=statement.position
            )
        chosen = list(self.queries) if query is None else [query.id]
        match statement.action:
            case "TERMINATE":
                self._end(chosen)
            case "PAUSE":
                self.paused.update(chosen)
            case _:
                self.paused.difference_update(chosen)

    def _end(self, query_ids: Sequence[str]) -> None:
        gone = [self.queries.pop(each) for each in query_ids if each in self.queries]
        self.ended.update(each.app.name for each in gone)
        self.paused.difference_update(query_ids)

    def copy(self) -> Session:
        """To try statements on: what they do here is not done in the original."""
        return replace(
            self,
            catalog=self.catalog.copy(),
            settings=dict(self.settings),
            variables=dict(self.variables),
            queries=dict(self.queries),
            paused=set(self.paused),
            used_ids=set(self.used_ids),
            ended=set(self.ended),
        )


def _store_of(replaced: PersistentQuery | None) -> str | None:
    """The store of the groups that a query has, by the name that another must call it to go on with it."""
    if replaced is None or replaced.footing is None or replaced.footing.group_by is None:
        return None
    return next(iter(replaced.app.topology().stores), None)
