"""Records as lines of a `_bulk` request, and what its answer means for each of them. No connection here.

Whoever sends a request again changes nothing: an id that is the record's key goes with the record's offset as the
version, and a server that has this version, or a later one, answers with a conflict, which is success. An id of topic,
partition and offset always has the same document. Updates (`upsert`) have no such versions: they go in order, and
again from the first that was not done.

Only what a server says of a document is its record's fault; a blocked index, a missing right or a full queue are not,
for a record that is reported is passed over.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from headwater.connect.connectors.elasticsearch.documents import document_text, key_id, place_id, version_of
from headwater.connect.connectors.elasticsearch.options import Target, is_upsert
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConnectError, DataError, RetriableError

_OF_DOCUMENTS: Final = frozenset(
    {
        "mapper_parsing_exception", "document_parsing_exception", "strict_dynamic_mapping_exception",
        "illegal_argument_exception", "action_request_validation_exception", "mapper_exception", "parsing_exception",
        "x_content_parse_exception", "max_bytes_length_exceeded_exception",
    }
)  # fmt: skip
# Of an index or its alias, though their type is that of a bad document.
_OF_THE_INDEX: Final = re.compile(
    r"no write index is defined|only write ops with an op_type of create|pipeline with id .* does not exist"
)
_PASSING: Final = frozenset({"cluster_block_exception", "process_cluster_event_timeout_exception"})
INDEX_MISSING: Final = "index_not_found_exception"
PASSING_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})
TOO_LARGE: Final = 413
# What a server shows of a document's values.
_SENSITIVE: Final = re.compile(r"(Preview of field's value|The prefix of the first immense term is).*", re.DOTALL)
_TOLD_MAX: Final = 500
_RETRIES_ON_CONFLICT: Final = 3


class Action(NamedTuple):
    record: SinkRecord
    kind: str  # index, update or delete
    index_name: str
    id: str | None
    versioned: bool
    data: bytes  # its lines


def action_of(config: Mapping[str, Any], target: Target, record: SinkRecord) -> Action | None:
    """None: there is nothing to do. Raises DataError."""
    upserts = is_upsert(config)
    if record.value is None:
        behavior = config["behavior.on.null.values"].lower()
        if behavior == "fail":
            raise DataError("The record has no value, and behavior.on.null.values is fail")
        if behavior == "ignore" or record.key is None or target.ids != "record.key":
            return None
    document_id = key_id(record) if target.ids == "record.key" else place_id(record) if target.ids != "none" else None
    head: dict[str, Any] = {"_index": target.index_name}
    if document_id is not None:
        head["_id"] = document_id
    versioned = target.ids == "record.key" and not upserts
    if versioned:
        head |= {"version": version_of(record, config["external.version.header"]), "version_type": "external"}
    if record.value is None:
        return Action(record, "delete", target.index_name, document_id, versioned, _lines({"delete": head}))
    document = document_text(record, compact=config["compact.map.entries"])
    if upserts:
        head["retry_on_conflict"] = _RETRIES_ON_CONFLICT
        lines = _lines({"update": head}, f'{{"doc":{document},"doc_as_upsert":true}}')
        return Action(record, "update", target.index_name, document_id, versioned, lines)
    return Action(record, "index", target.index_name, document_id, versioned, _lines({"index": head}, document))


def _lines(head: dict[str, Any], *document: str) -> bytes:
    first = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
    return "".join(f"{each}\n" for each in (first, *document)).encode("utf-8", "replace")


def bulks(actions: Sequence[Action], most: int, size_max: int) -> Iterator[list[Action]]:
    """In their order. One that is larger than `size_max` bytes alone goes alone; -1: no limit."""
    bulk: list[Action] = []
    size = 0
    for action in actions:
        if bulk and (len(bulk) == most or 0 <= size_max < size + len(action.data)):
            yield bulk
            bulk, size = [], 0
        bulk.append(action)
        size += len(action.data)
    if bulk:
        yield bulk


class Verdict(Enum):
    DONE = "done"
    CONFLICT = "conflict"  # done: this version, or a later one, is there
    AGAIN = "again"
    REFUSED = "refused"  # for what is in the document


class Outcome(NamedTuple):
    verdict: Verdict
    sentence: str = ""
    kind: str = ""  # the server's name of the error


DONE: Final = Outcome(Verdict.DONE)


def outcomes(actions: Sequence[Action], status: int, answer: bytes, *, sensitive: bool = False) -> list[Outcome] | None:
    """What the answer to a bulk says, action by action. None: the request is too large. Raises RetriableError if it is
    worth another try, ConnectError if it is not.
    """
    if status == TOO_LARGE:
        return None if len(actions) > 1 else [Outcome(Verdict.REFUSED, "The document is too large for the server", "")]
    if status != 200:
        raise trouble(status, answer)
    try:
        items = json.loads(answer)["items"]
        found = [next(iter(each.values())) for each in items]
        judged = [judge(action, item, sensitive) for action, item in zip(actions, found, strict=True)]
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError):
        raise RetriableError("Elasticsearch gave an answer that is none to a bulk request") from None
    return judged


def judge(action: Action, item: Mapping[str, Any], sensitive: bool) -> Outcome:
    """Raises ConnectError for what is neither the document's fault nor will pass."""
    status, error = int(item["status"]), item.get("error")
    if status < 300 or (error is None and action.kind == "delete" and status == 404):
        return DONE
    kind, told = _error(error, sensitive)
    if status == 409 and action.versioned:
        return Outcome(Verdict.CONFLICT, told, kind)
    if kind == INDEX_MISSING:
        return DONE if action.kind == "delete" else Outcome(Verdict.AGAIN, told, kind)
    if status in PASSING_STATUS or status == 409 or kind in _PASSING:
        return Outcome(Verdict.AGAIN, told, kind)
    reason = str(error.get("reason", "")) if isinstance(error, Mapping) else ""
    if status == TOO_LARGE or (status == 400 and kind in _OF_DOCUMENTS and not _OF_THE_INDEX.search(reason)):
        return Outcome(Verdict.REFUSED, told, kind)
    raise ConnectError(f"Elasticsearch refused to write: {told} ({status})")


def trouble(status: int, answer: bytes) -> ConnectError:
    """What an answer means that is none of success."""
    kind, told = _error_of(answer)
    sentence = f"Elasticsearch answered with {status}" + (f": {told}" if told else "")
    if status in PASSING_STATUS or kind in _PASSING or kind == INDEX_MISSING:
        return RetriableError(sentence)
    return ConnectError(sentence)


def error_type(answer: bytes) -> str:
    return _error_of(answer)[0]


def _error_of(answer: bytes) -> tuple[str, str]:
    """Its type and a sentence; both empty if the answer says none."""
    try:
        return _error(json.loads(answer)["error"], sensitive=False)
    except (ValueError, LookupError, TypeError, RecursionError):
        return "", ""


def _error(error: Any, sensitive: bool) -> tuple[str, str]:
    """Its type and a sentence."""
    if not isinstance(error, Mapping):
        return "", str(error)[:_TOLD_MAX]
    kind, reason = str(error.get("type", "")), str(error.get("reason", ""))
    cause = error.get("caused_by")
    if sensitive and isinstance(cause, Mapping):
        reason = f"{reason} ({cause.get('reason')})"
    elif not sensitive:
        reason = _SENSITIVE.sub("", reason).strip()
    return kind, f"{kind}: {reason}"[:_TOLD_MAX]


Answered = tuple[Action, Outcome]


def still_open(answered: Sequence[Answered], *, in_order: bool) -> set[int]:
    """Which actions are to be sent again, by their places. Updates: the first that has to be, and all behind it, for
    these may be of its id. Else, with those that have to be, deletions behind them of the same id: a server forgets the
    version of a deleted document after a minute, and would take an earlier one.
    """
    first = next((at for at, (_, outcome) in enumerate(answered) if outcome.verdict is Verdict.AGAIN), None)
    if first is None:
        return set()
    if in_order:
        return set(range(first, len(answered)))
    found: set[int] = set()
    ids: set[tuple[str, str | None]] = set()
    for at in range(first, len(answered)):
        action, outcome = answered[at]
        place = (action.index_name, action.id)
        if outcome.verdict is Verdict.AGAIN:
            found.add(at)
            ids.add(place)
        elif action.kind == "delete" and place in ids:
            found.add(at)
    return found
