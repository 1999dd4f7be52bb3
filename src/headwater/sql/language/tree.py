"""The syntax tree: what a statement says, before anything is known of streams, tables and types.

Nodes are immutable and know where they stand. Names are as they will be looked up: upper-cased unless they were quoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from headwater.sql.language.errors import Position
from headwater.sql.language.types import Type

NOWHERE = Position(1, 1)
_NO_PLACES: Final[Mapping[str, Position]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Node:
    position: Position = field(default=NOWHERE, compare=False, kw_only=True)


# -- expressions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expression(Node):
    pass


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    value: bool | int | float | Decimal | str | None
    big: bool = False  # an integer beyond INTEGER is a BIGINT


@dataclass(frozen=True, slots=True)
class Column(Expression):
    name: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class FieldOf(Expression):
    """`struct->field`."""

    of: Expression
    name: str


@dataclass(frozen=True, slots=True)
class ItemOf(Expression):
    """`array[1]`, `map['key']`."""

    of: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    operator: str  # "-", "+", "NOT"
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    operator: str  # + - * / % || = <> < <= > >= AND OR
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Concatenation(Expression):
    """A long chain of `||`. What it means is what the chain means from left to right: whether it may be worked out at
    once hangs on the types of its terms.
    """

    terms: tuple[Expression, ...]
    positions: tuple[Position, ...] = field(compare=False)  # of the operators


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    operand: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class Distinct(Expression):
    """`left IS [NOT] DISTINCT FROM right`."""

    left: Expression
    right: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class Between(Expression):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class In(Expression):
    operand: Expression
    items: tuple[Expression, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Like(Expression):
    operand: Expression
    pattern: Expression
    escape: str | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Case(Expression):
    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    operand: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Call(Expression):
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Lambda(Expression):
    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class MakeArray(Expression):
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MakeMap(Expression):
    entries: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class MakeStruct(Expression):
    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class IntervalUnit(Expression):
    """`DAYS` as an argument of TIMESTAMPADD and its like."""

    unit: str


# -- queries -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SelectItem(Node):
    expression: Expression
    alias: str | None


@dataclass(frozen=True, slots=True)
class SelectAll(Node):
    """`*`, or `source.*`."""

    source: str | None


@dataclass(frozen=True, slots=True)
class SelectFields(Node):
    """`struct->*`."""

    of: Expression


class WindowKind(Enum):
    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class Window(Node):
    kind: WindowKind
    size_ms: int
    advance_ms: int | None
    retention_ms: int | None
    grace_ms: int | None


class JoinKind(Enum):
    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    OUTER = "OUTER"


@dataclass(frozen=True, slots=True)
class Source(Node):
    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class Within(Node):
    before_ms: int
    after_ms: int
    grace_ms: int | None


@dataclass(frozen=True, slots=True)
class Join(Node):
    kind: JoinKind
    left: Source | Join
    right: Source
    on: Expression
    within: Within | None


class Emit(Enum):
    CHANGES = "CHANGES"
    FINAL = "FINAL"


@dataclass(frozen=True, slots=True)
class Query(Node):
    select: tuple[SelectItem | SelectAll | SelectFields, ...]
    source: Source | Join
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] | None = None
    partition_by: tuple[Expression, ...] | None = None
    having: Expression | None = None
    order_by: tuple[tuple[Expression, bool], ...] = ()  # (expression, descending)
    emit: Emit | None = None
    limit: int | None = None


# -- statements --------------------------------------------------------------------------------------------------------


class SourceKind(Enum):
    STREAM = "STREAM"
    TABLE = "TABLE"


class Role(Enum):
    """What a column of CREATE STREAM and CREATE TABLE is in its record."""

    VALUE = ""
    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"
    HEADER = "HEADER"


@dataclass(frozen=True, slots=True)
class ColumnDefinition(Node):
    name: str
    type: Type
    role: Role = Role.VALUE
    header: str | None = None


class Properties(dict[str, "bool | int | float | Decimal | str | None"]):
    """What a WITH clause says, by the names of the properties, and where each stands."""

    def __init__(self, *given: Any, places: Mapping[str, Position] = _NO_PLACES) -> None:
        super().__init__(*given)
        self.places = dict(places)

    def place(self, *names: str) -> Position | None:
        """Of the first of these that is given."""
        return next((self.places[each] for each in names if each in self.places), None)


@dataclass(frozen=True, slots=True)
class Statement(Node):
    text: str = field(default="", compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class CreateSource(Statement):
    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...]
    properties: Properties
    or_replace: bool = False
    if_not_exists: bool = False
    read_only: bool = False  # CREATE SOURCE ...
    is_complete: bool = field(default=False, compare=False)  # columns of the schema registry are in it


@dataclass(frozen=True, slots=True)
class CreateAs(Statement):
    kind: SourceKind
    name: str
    query: Query
    properties: Properties
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertInto(Statement):
    target: str
    query: Query
    properties: Properties


@dataclass(frozen=True, slots=True)
class InsertValues(Statement):
    target: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Select(Statement):
    """A query on its own: push with EMIT, pull without."""

    query: Query


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    kind: SourceKind
    name: str
    if_exists: bool
    delete_topic: bool


@dataclass(frozen=True, slots=True)
class AlterSource(Statement):
    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True)
class CreateFunction(Statement):
    name: str
    source: str | None  # Python's code
    target: str | None  # or where it is: package.module:function
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropFunction(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateType(Statement):
    name: str
    type: Type
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropType(Statement):
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class SetProperty(Statement):
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetProperty(Statement):
    name: str | None  # None: all


@dataclass(frozen=True, slots=True)
class AlterSystem(Statement):
    """A property for all statements after it, on every server."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Define(Statement):
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Undefine(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class ControlQuery(Statement):
    action: str  # TERMINATE, PAUSE, RESUME
    query_id: str | None  # None: all


@dataclass(frozen=True, slots=True)
class Show(Statement):
    what: str  # STREAMS, TABLES, TOPICS, QUERIES, TYPES, FUNCTIONS, PROPERTIES, VARIABLES
    extended: bool = False
    internal: bool = False  # ALL TOPICS: those of the servers and of Kafka, too


@dataclass(frozen=True, slots=True)
class DescribeAll(Statement):
    """DESCRIBE STREAMS, DESCRIBE TABLES."""

    kind: SourceKind
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    name: str
    extended: bool = False
    function: bool = False


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    target: str | Statement  # a query's id, or a statement


@dataclass(frozen=True, slots=True)
class Print(Statement):
    topic: str
    from_beginning: bool
    interval: int | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class Assert(Statement):
    what: str  # TOPIC, SCHEMA
    exists: bool
    name: str | None
    properties: Properties
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class AssertValues(Statement):
    """ASSERT VALUES, ASSERT NULL VALUES, ASSERT STREAM, ASSERT TABLE: what ksqlDB's test files check."""

    source: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]
    tombstone: bool
