"""Offsets of a connector as a person types them, for `headwater connect offsets --set`. Pure.

orders:0=42                                                        a sink's; orders:0=null forgets it
{"filename": "in.txt"}={"position": 3}                             a source's
{"partition": {...}, "offset": {...}}, or a list of these          as `headwater connect offsets -o json` shows them
{"kafka_topic": "orders", "kafka_partition": 0, "kafka_offset": 42}
{"offsets": [...]}                                                 what the REST call takes
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

FORMS: Final = 'TOPIC:PARTITION=OFFSET, {"partition": {...}, "offset": {...}}, a list of these, or what the command shows with -o json'
_SINK: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+):(?P<partition>[0-9]+)=(?P<offset>[0-9]+|null)")
_FLAT: Final = {"kafka_topic", "kafka_partition", "kafka_offset"}


def offsets_document(texts: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The body of the REST call. Raises ValueError with a sentence for people."""
    return {"offsets": [pair for text in texts for pair in _pairs(text.strip())]}


def _pairs(text: str) -> Iterator[dict[str, Any]]:
    found = _SINK.fullmatch(text)
    if found is not None:
        offset = None if found["offset"] == "null" else {"kafka_offset": int(found["offset"])}
        yield {
            "partition": {"kafka_topic": found["topic"], "kafka_partition": int(found["partition"])},
            "offset": offset,
        }
    else:
        yield from _of_document(*_documents(text))


def _documents(text: str) -> list[Any]:
    """One document, or a partition and an offset with `=` between them."""
    if text[:1] not in ("{", "["):
        raise ValueError(f"{text!r} is no offset: {FORMS}")
    decoder, made, at = json.JSONDecoder(), [], 0
    try:
        while True:
            value, at = decoder.raw_decode(text, at)
            made.append(value)
            rest = text[at:].lstrip()
            if not rest:
                return made
            if not rest.startswith("=") or len(made) == 2:
                raise ValueError(f"{rest[:40]!r} stands behind the JSON")
            at = len(text) - len(rest[1:].lstrip())
    except json.JSONDecodeError as error:
        hint = "; a shell takes double quotes away unless single ones stand around the whole" if "'" not in text else ""
        raise ValueError(f"not JSON: {error}{hint}") from None


def _of_document(document: Any, *offset: Any) -> Iterator[dict[str, Any]]:
    if offset:
        yield _pair({"partition": document, "offset": offset[0]})
    elif isinstance(document, list):
        for each in document:
            yield _pair(each)
    elif isinstance(document, dict) and "offsets" in document:
        if set(document) != {"offsets"} or not isinstance(document["offsets"], list):
            raise ValueError('beside "offsets", which is a list, there is nothing')
        yield from _of_document(document["offsets"])
    else:
        yield _pair(document)


def _pair(document: Any) -> dict[str, Any]:
    if isinstance(document, dict) and set(document) == _FLAT:
        place = {name: document[name] for name in ("kafka_topic", "kafka_partition")}
        offset = document["kafka_offset"]
        return {"partition": place, "offset": None if offset is None else {"kafka_offset": offset}}
    if not isinstance(document, dict) or set(document) != {"partition", "offset"}:
        raise ValueError(f"{json.dumps(document)[:80]} is no partition with its offset: {FORMS}")
    if not isinstance(document["partition"], dict) or not document["partition"]:
        raise ValueError(f"the partition {json.dumps(document['partition'])[:80]} is no object with its names")
    if not (document["offset"] is None or isinstance(document["offset"], dict)):
        raise ValueError(f"the offset {json.dumps(document['offset'])[:80]} is no object; null forgets one")
    return document
