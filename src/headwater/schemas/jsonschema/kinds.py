"""The kinds of change between two versions of a JSON Schema, and which of them keep old data readable.

Source: the table of changes that Confluent publishes for its registry ("JSON Schema Compatibility Rules" in the
documentation of Schema Registry) and the names that it tells in verbose answers. A kind that is not here breaks
readers.
"""

from typing import Final

# A limit that goes, or lets more through.
_LOOSER: Final = {
    f"{limit}_{change}"
    for limit, change in [
        *((limit, "REMOVED") for limit in ("MAX_LENGTH", "MIN_LENGTH", "PATTERN", "MAXIMUM", "MINIMUM", "EXCLUSIVE_MAXIMUM", "EXCLUSIVE_MINIMUM", "MULTIPLE_OF", "MAX_PROPERTIES", "MIN_PROPERTIES", "MAX_ITEMS", "MIN_ITEMS", "MAX_CONTAINS", "MIN_CONTAINS", "UNIQUE_ITEMS", "DEPENDENCY_ARRAY", "DEPENDENCY_SCHEMA", "REQUIRED_ATTRIBUTE", "SCHEMA")),
        *((limit, "INCREASED") for limit in ("MAX_LENGTH", "MAXIMUM", "EXCLUSIVE_MAXIMUM", "MAX_PROPERTIES", "MAX_ITEMS", "MAX_CONTAINS")),
        *((limit, "DECREASED") for limit in ("MIN_LENGTH", "MINIMUM", "EXCLUSIVE_MINIMUM", "MIN_PROPERTIES", "MIN_ITEMS", "MIN_CONTAINS")),
        ("MULTIPLE_OF", "REDUCED"),
        ("DEPENDENCY_ARRAY", "NARROWED"),
    ]
}  # fmt: skip

COMPATIBLE: Final = frozenset(
    _LOOSER
    | {"ID_CHANGED", "TITLE_CHANGED", "DESCRIPTION_CHANGED", "DEFAULT_CHANGED"}
    | {"TYPE_EXTENDED", "ENUM_ARRAY_EXTENDED", "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED"}
    | {"COMBINED_TYPE_EXTENDED", "PRODUCT_TYPE_NARROWED", "SUM_TYPE_EXTENDED", "NOT_TYPE_NARROWED"}
    # what may stand beside the named properties or items: more than before
    | {f"{what}_{change}" for what in ("ADDITIONAL_PROPERTIES", "UNEVALUATED_PROPERTIES", "ADDITIONAL_ITEMS", "UNEVALUATED_ITEMS") for change in ("ADDED", "EXTENDED")}
    # properties: new ones only where nobody can have written something else there before;
    # none may go from a closed object
    | {
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    }
    | {
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    }
)  # fmt: skip

# With the policy LENIENT one does not mind what may have been written beside the named properties: a reader takes that
# as it comes.
LENIENT: Final = COMPATIBLE | {
    *(f"{what}_{change}" for what in ("ADDITIONAL_PROPERTIES", "UNEVALUATED_PROPERTIES") for change in ("NARROWED", "REMOVED")),
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}  # fmt: skip

_SENTENCES: Final = {
    "TYPE_CHANGED": "the type is another one",
    "TYPE_NARROWED": "the type allows less: whole numbers only",
    "SCHEMA_ADDED": "a schema stands where anything was allowed",
    "REQUIRED_ATTRIBUTE_ADDED": "the property is required and was not",
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": "a required property without a default is new",
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": "a required property is new, and something else may have been written there before",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": "a property is new, and something else may have been written there before: additionalProperties was not false",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": "a property is new, and something else may have been written there before: additionalProperties was not false",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": "a property is gone, and additionalProperties is false",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": "a property is new that does not take what additionalProperties or patternProperties allowed there",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": "a property is gone, and additionalProperties or patternProperties do not take what it was",
    "ADDITIONAL_PROPERTIES_REMOVED": "additional properties are not allowed any more",
    "ADDITIONAL_PROPERTIES_NARROWED": "additional properties are limited and were not",
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": "an item is new where anything was allowed",
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": "an item is gone, and no more items are allowed",
    "ENUM_ARRAY_NARROWED": "values are gone from the enum",
    "ENUM_ARRAY_CHANGED": "values are gone from the enum or constant",
    "COMBINED_TYPE_CHANGED": "allOf, anyOf or oneOf is another one",
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": "the schemas within allOf, anyOf or oneOf do not match",
    "PRODUCT_TYPE_EXTENDED": "allOf demands more",
    "SUM_TYPE_NARROWED": "anyOf or oneOf allows less",
    "NOT_TYPE_EXTENDED": "not excludes more",
    "CONDITION_CHANGED": "if, then and else are other ones",
}  # fmt: skip


def sentence(kind: str) -> str:
    """What the change is, for people."""
    return _SENTENCES.get(kind, kind.lower().replace("_", " "))
