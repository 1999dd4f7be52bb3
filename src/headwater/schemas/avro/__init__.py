"""Avro: parsing, canonical forms, fingerprints, compatibility."""

from collections.abc import Mapping

from headwater.schemas.avro.compatibility import differences
from headwater.schemas.avro.fingerprint import rabin_fingerprint
from headwater.schemas.avro.parser import parse_type
from headwater.schemas.avro.texts import canonical_text, normalized_text, parsing_canonical_form
from headwater.schemas.avro.types import AvroType, Named, Record
from headwater.schemas.model import Incompatibility, ParsedSchema, SchemaError, SchemaType, Sides


class AvroSchema(ParsedSchema):
    schema_type = SchemaType.AVRO

    def __init__(self, root: AvroType, names: Mapping[str, Named], known: frozenset[str], problem: str = "") -> None:
        self.root = root
        self.names = names  # every named type that it knows, those of its references included
        self.known = known  # names that come from references
        self._canonical = canonical_text(root, known)
        self._problem = problem

    @property
    def canonical(self) -> str:
        return self._canonical

    def normalized(self) -> str:
        return normalized_text(self.root, self.known)

    def formatted(self, wanted: str) -> str:
        return canonical_text(self.root) if wanted == "resolved" else super().formatted(wanted)

    @property
    def problem(self) -> str:
        return self._problem

    @property
    def name(self) -> str | None:
        return self.root.name if isinstance(self.root, Named) else None

    def parsing_canonical_form(self) -> str:
        return parsing_canonical_form(self.root)

    def fingerprint(self) -> int:
        """The 64-bit Rabin fingerprint of the Parsing Canonical Form."""
        return rabin_fingerprint(self.parsing_canonical_form().encode())

    def top_level_fields(self) -> frozenset[str]:
        return frozenset(each.name for each in self.root.fields) if isinstance(self.root, Record) else frozenset()

    def differences(self, writer: ParsedSchema, sides: Sides) -> list[Incompatibility]:
        assert isinstance(writer, AvroSchema)
        return differences(self.root, writer.root, sides)


def parse_avro(text: str, references: Mapping[str, ParsedSchema | str], *, stored: bool = False) -> AvroSchema:
    """Parse a schema; its references, in the order given, define names before it does."""
    names: dict[str, Named] = {}
    faults: list[str] | None = [] if stored else None
    for reference_name, reference in references.items():
        if isinstance(reference, str):
            try:
                parse_type(reference, names, [] if stored else None)
            except SchemaError as error:
                raise SchemaError(f"in the reference {reference_name!r}: {error}") from error
        elif isinstance(reference, AvroSchema):
            for name, named in reference.names.items():
                names.setdefault(name, named)
        else:
            raise SchemaError(f"the reference {reference_name!r} is not an Avro schema but {reference.schema_type}")
    known = frozenset(names)
    root = parse_type(text, names, faults)
    return AvroSchema(root, names, known, faults[0] if faults else "")
