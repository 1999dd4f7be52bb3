"""What a schema is to everyone who handles one: its type, its text, what it refers to, how it evolves. Values only;
nobody owns state here.

A `StoredSchema` is what the registry keeps and clients send: text that nobody has looked into yet. A `ParsedSchema` has
been looked into: it stands, within the limits below, and can be compared. Everything that a peer can grow has a limit
here.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

TEXT_LENGTH_MAX: Final = 1 << 20  # characters of one schema: Kafka's own limit for a record, in which it must be stored
DEPTH_MAX: Final = 150  # brackets inside each other in a schema's text
NAME_LENGTH_MAX: Final = 1_000  # of a type, with its namespace or package: each type within repeats that
REFERENCES_MAX: Final = 1_000  # schemas that one schema refers to, theirs included
COMPARISONS_MAX: Final = 200_000  # pairs of types looked at in one comparison


class SchemaType(StrEnum):
    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class SchemaError(ValueError):
    """A schema that cannot be understood, or that is beyond a limit. The message says where and why."""


class DataError(ValueError):
    """A value that does not fit its schema, or bytes that are not what their schema says. The message says where and
    why.
    """


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema refers to another by a name in its text (a type, a URI, a file); the registry knows that one by subject
    and version.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema as the registry keeps it and clients send it."""

    text: str
    schema_type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None


class CompatibilityLevel(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def transitive(self) -> bool:
        """Whether all earlier versions count, not the last one only."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def backward(self) -> bool:
        """Whether the new schema must read what was written with the old ones."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def forward(self) -> bool:
        """Whether the old schemas must read what will be written with the new one."""
        return self.value.startswith(("FORWARD", "FULL"))


class CompatibilityPolicy(StrEnum):
    STRICT = "STRICT"
    LENIENT = "LENIENT"  # what an open object may have had beside its properties does not count (JSON Schema)


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why the reader's schema cannot read what the writer's schema wrote."""

    kind: str  # the name that Confluent's registry gives it: READER_FIELD_MISSING_DEFAULT_VALUE, ...
    path: str  # where in the reader's schema: /fields/1/type
    message: str

    def __str__(self) -> str:
        return f"{{errorType:'{self.kind}', description:'{self.message}', path:'{self.path}'}}"


@dataclass(frozen=True, slots=True)
class Sides:
    """What the two schemas of a comparison are called in messages: the new and the old, or the reader and the
    writer.
    """

    reader: str = "reader"
    writer: str = "writer"


@dataclass(slots=True)
class Budget:
    """Work left in one comparison, so that two large schemas cannot keep a server busy for long."""

    left: int = field(default=COMPARISONS_MAX)

    def spend(self, work: int = 1) -> None:
        self.left -= work
        if self.left < 0:
            raise SchemaError(
                f"the schemas are too large to be compared: more than {COMPARISONS_MAX:,} types or pairs of them"
            )


class ParsedSchema(ABC):
    """A schema that stands. Immutable."""

    schema_type: SchemaType

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The text that is stored and compared: the same schema, without accidents of spacing."""

    @abstractmethod
    def normalized(self) -> str:
        """The text in which differences that mean nothing (the order of properties, how names are qualified) are gone
        too.
        """

    def formatted(self, wanted: str) -> str:  # noqa: ARG002 - the formats that a type has are its own
        """The text in a format that the registry's API names: `resolved` (Avro, with its references written out),
        `serialized` (Protobuf, as a descriptor in base64), `ignore_extensions` (Protobuf, without them). Any other is
        the canonical one, as in Confluent's registry: a client may ask for a format of a newer server.
        """
        return self.canonical

    def require_complete(self) -> None:
        """Raise SchemaError for what can be read, and should not be registered: an option of Protobuf that nobody has
        defined, a default or a name of Avro (of a schema that was parsed as one that is stored).
        """
        if self.problem:
            raise SchemaError(self.problem)

    @property
    def problem(self) -> str:
        """What is not complete; empty if everything is."""
        return ""

    @property
    @abstractmethod
    def name(self) -> str | None:
        """The name of the record or message that it describes, if it has one: what the record name strategies use."""

    @abstractmethod
    def differences(self, writer: "ParsedSchema", sides: Sides) -> list[Incompatibility]:
        """Why this schema cannot read what `writer`, of the same type, wrote. Empty: it can."""

    def lenient_differences(self, writer: "ParsedSchema", sides: Sides) -> list[Incompatibility]:
        """Those that count with the policy LENIENT, which is about JSON Schema only."""
        return self.differences(writer, sides)

    def top_level_fields(self) -> frozenset[str]:
        """The names of the fields of its records or messages that stand in no other."""
        return frozenset()

    def name_problem(self) -> str:
        """A field whose name is kept for others, told in a sentence; empty if there is none. Of JSON Schema only."""
        return ""
