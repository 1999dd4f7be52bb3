"""What a refused write means: the record's own fault, trouble of the database, or a document that is there already.

Only codes that speak of the document are a record's fault. All others stop the batch, for with errors.tolerance=all a
record that is reported is passed over, and a full disk or a missing right would pass over all of them. No connection
here.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.connect.errors import ConnectError, RetriableError

# BadValue, FailedToParse, TypeMismatch, Overflow, InvalidLength, InvalidBSON, PathNotViable,
# ConflictingUpdateOperators, DollarPrefixedFieldName, InvalidIdField, NotSingleValueField, InvalidDBRef,
# EmptyFieldName, DottedFieldName, ShardKeyNotFound, ImmutableField, DocumentValidationFailure,
# CannotIndexParallelArrays, BSONObjectTooLarge, DuplicateKey, a place that no geographic index takes, KeyTooLong, a
# document that an update makes too large.
_OF_DOCUMENTS: Final = frozenset(
    {2, 9, 14, 15, 16, 22, 28, 40, 52, 53, 54, 55, 56, 57, 61, 66, 121, 171, 10334, 11000, 16755, 17280, 17419}
)
# Hosts that are away or change their roles, locks, time limits, a full disk: the same request may succeed later.
PASSING: Final = frozenset(
    {6, 7, 24, 46, 50, 64, 89, 91, 112, 134, 189, 202, 262, 9001, 10107, 11600, 11601, 11602, 13388, 13435, 13436, 14031}
)  # fmt: skip
_CONCERNS_WITHOUT_HOPE: Final = frozenset({2, 79, 100})  # BadValue, UnknownReplWriteConcern, UnsatisfiableWriteConcern
_DUPLICATE_KEY: Final = 11000


def trouble_in(details: Mapping[str, Any]) -> ConnectError | None:
    """What is no record's fault in the answer to a bulk of writes: to be raised before any record is reported."""
    for each in details.get("writeConcernErrors", ()):
        lasting = each.get("code") in _CONCERNS_WITHOUT_HOPE
        sentence = f"MongoDB did not meet the write concern: {_told(each)}"
        return ConnectError(sentence) if lasting else RetriableError(sentence)  # another try changes nothing written
    for each in details.get("writeErrors", ()):
        if each.get("code") not in _OF_DOCUMENTS:
            kind = RetriableError if each.get("code") in PASSING else ConnectError
            return kind(f"MongoDB said: {_told(each)}")
    return None


def is_there_already(kind: str, refusal: Mapping[str, Any]) -> bool:
    """Whether a document was to be inserted whose _id is there: so it is when a batch comes again."""
    same_id = list(refusal.get("keyPattern") or ()) == ["_id"]
    return kind == "insert" and refusal.get("code") == _DUPLICATE_KEY and same_id


def sentence_of(refusal: Mapping[str, Any]) -> str:
    return f"MongoDB refused the document: {_told(refusal)}"


def _told(error: Mapping[str, Any]) -> str:
    return f"{error.get('errmsg')} ({error.get('code')})"
