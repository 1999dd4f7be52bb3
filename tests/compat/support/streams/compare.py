"""Runs a case here and compares what came out with what Kafka Streams gave, record by record."""

import difflib
import re
import tempfile
from pathlib import Path
from typing import Any

from compat.support.streams.build import build
from compat.support.streams.functions import key_text
from headwater.streams.engine.typed_stores import TimestampedKeyValueStore, TimestampedWindowStore

Case = dict[str, Any]
Row = list[Any]


def run_here(case: Case) -> dict[str, Any]:
    """The outcome in the form of StreamsOracle.java's."""
    with tempfile.TemporaryDirectory() as printed:
        return _run(case, Path(printed))


def _run(case: Case, printed: Path) -> dict[str, Any]:
    app = build(case, printed=printed)
    outputs: list[list[Row]] = []
    commits = bool(case.get("commits"))
    with app.test(commit_each_record=not commits) as driver:
        outputs.append(_read(driver))
        for step in case["inputs"]:
            if "commit" in step:
                driver.commit()
            elif "advance" in step:
                driver.advance(step["advance"])
            else:
                headers = tuple((name, value.encode()) for name, value in step["headers"])
                driver.pipe(step["topic"], step["key"], step["value"], step["timestamp"], headers)
            outputs.append(_read(driver))
        stores = {name: _entries(driver.store(name)) for name in sorted(driver.store_names)}
    lines = {file.name: file.read_text() for file in printed.iterdir()}
    return {"describe": app.describe(), "outputs": outputs, "stores": stores, "printed": lines}


def _read(driver: Any) -> list[Row]:
    rows: list[Row] = []
    found = {topic: driver.read_raw(topic) for topic in list(driver.output_topics)}
    for topic, records in driver.changelog.items():
        found.setdefault(topic, []).extend(records)
    driver.changelog.clear()
    for topic in sorted(found):
        for record in found[topic]:
            headers = [[name, _hex(value)] for name, value in record.headers]
            rows.append([topic, _hex(record.key), _hex(record.value), record.timestamp, headers])
    return rows


def _hex(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).hex()


def _entries(store: Any) -> list[Row] | None:
    """[key, value, timestamp] each; None where there is no way to ask for all."""
    if not hasattr(store, "all"):
        return None
    rows: list[Row] = []
    for entry in store.all():
        value = entry[-1]
        stamped = isinstance(store, TimestampedKeyValueStore | TimestampedWindowStore)
        rows.append([_place(entry[0], entry[1:-1]), value[0] if stamped else value, value[1] if stamped else None])
    return rows


def _place(key: Any, times: tuple[int, ...]) -> str:
    if len(times) == 2:
        return f"{key_text(key)}@{times[0]}-{times[1]}"
    return f"{key_text(key)}@{times[0]}" if times else key_text(key) if isinstance(key, str) else repr(key)


def differences(case: Case, expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """In words; none if both are the same."""
    told: list[str] = []
    text, ours_text = _comparable(expected["describe"]), _comparable(found["describe"])
    if text != ours_text:
        lines = difflib.unified_diff(text.split("\n"), ours_text.split("\n"), "Kafka Streams", "ours", lineterm="", n=2)
        told.append("describe():\n" + "\n".join(lines))
    if several_stream_times(case, text):
        return told
    if expected["printed"] != found["printed"]:
        told.append(f"printed by Kafka Streams: {expected['printed']}\nours: {found['printed']}")
    buffers = {f"app-{name}-changelog" for name, store in expected["stores"].items() if store["kind"] == "buffer"}
    steps = [{"start": True}, *case["inputs"]]
    for number, (step, theirs, ours) in enumerate(zip(steps, expected["outputs"], found["outputs"], strict=True)):
        theirs, ours = _logged(theirs, buffers), _logged(ours, buffers)
        if case.get("commits"):  # ours log what `suppress` holds back before the commit already, in its transaction
            theirs, ours = ([row for row in rows if row[0] not in buffers] for rows in (theirs, ours))
        if theirs != ours:
            told.append(f"after input {number} {step}:\n" + _rows_apart(theirs, ours))
            break
    for name, store in expected["stores"].items():
        ours = found["stores"].get(name)
        if name not in found["stores"]:
            told.append(f"store {name} is not there")
        elif ours is not None and store["kind"] in ("key_value", "window", "session"):
            theirs = [[_start(store, row[0]), row[1], None if row[2] == -1 else row[2]] for row in store["entries"]]
            if not _readable(theirs):
                continue
            if sorted(map(repr, theirs)) != sorted(map(repr, ours)):
                told.append(f"store {name} of Kafka Streams: {theirs}\nours: {ours}")
    return told


def several_stream_times(case: Case, describe: str) -> bool:
    """Whether a punctuator hangs on stream time where there are several: TopologyTestDriver is one task with one stream
    time, here each sub-topology has its own, as in a running application. Named in docs/STREAMS.md; of such a case only
    `describe()` is compared.
    """
    return describe.count("Sub-topology:") > 1 and any(step.get("fn") == "stream_time" for step in case["steps"])


def _logged(rows: list[Row], buffers: set[str]) -> list[Row]:
    """Without three things of changelogs, named in docs/STREAMS.md, that no restore can tell: Kafka Streams 4.3 copies
    the headers of a record into some of them; its buffers (of `suppress`, of joins with a grace) send records without a
    timestamp; and that of `suppress` sends the last change per key at a commit, in no order.
    """
    last = {(row[0], row[1]): row for row in rows if row[0] in buffers}
    kept = [row if not row[0].endswith("-changelog") else [*row[:4], []] for row in rows if row[0] not in buffers]
    return kept + [[*row[:3], None, []] for _, row in sorted(last.items())]


def _start(store: dict[str, Any], place: str) -> str:
    """Of a window the start alone: a store does not know the end."""
    return place.rsplit("-", 1)[0] if store["kind"] == "window" else place


def _readable(rows: list[Row]) -> bool:
    """Stores within joins have keys and values of their own classes; their changelogs are compared."""
    return not any(row[0].startswith(("Bytes ", "TimestampedKeyAndJoinSide ")) for row in rows)


def _comparable(describe: str) -> str:
    """Without two things that are named in docs/STREAMS.md: the class of a function that names topics, which is another
    in each language, and the order among the neighbours of a node, which Java's TreeSet leaves to chance while their
    sizes still grow.
    """
    lines = re.sub(r"extractor class: [^)]*", "extractor class: a function", describe).split("\n")
    return "\n".join(re.sub(r"(-->|<--) (.*)", _in_order, line) for line in lines)


def _in_order(found: re.Match[str]) -> str:
    return f"{found[1]} {', '.join(sorted(found[2].split(', ')))}"


def _rows_apart(theirs: list[Row], ours: list[Row]) -> str:
    lines = [f"  = {_told(row)}" for row in theirs if row in ours]
    lines += [f"  Kafka Streams only: {_told(row)}" for row in theirs if row not in ours]
    lines += [f"  ours only:          {_told(row)}" for row in ours if row not in theirs]
    return "\n".join(lines if len(lines) > sum(row in ours for row in theirs) else ["  the order differs:", *lines])


def _told(row: Row) -> str:
    topic, key, value, timestamp, headers = row
    return f"{topic} {_text(key)} -> {_text(value)} @{timestamp} {headers or ''}"


def _text(data: str | None) -> str:
    return "null" if data is None else repr(bytes.fromhex(data))[1:]
