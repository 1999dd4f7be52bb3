"""What a broker knows of the schemas that records name, and who waits for the registry to say more.

An id means the same schema for ever, but the subjects that it is registered under change. So an answer that lets
records in is kept for minutes, one that keeps them out for seconds, and only for the topic for which the registry was
asked: whoever registers a schema under one more subject and then produces is not refused for what was true before. Both
are few: the oldest go. One question per schema and topic is under way at a time, and so many in all.

Owned by the broker's loop. The registry is asked through a port, `SchemaSource`, which answers on the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from headwater.base.ports import Clock
from headwater.broker.schema_policy import SidePolicy

KNOWN_MAX: Final = 10_000
ASKED_MAX: Final = 1_000
GOOD_MS: Final = 300_000
BAD_MS: Final = 2_000
_ID_BYTES: Final = 5
_GUID_BYTES: Final = 17


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """What a registry says of one schema."""

    subjects: frozenset[str]
    record_names: frozenset[str]  # the full names of the types that it defines at its outermost level


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the registry could not be asked."""

    message: str


_Question: TypeAlias = tuple[bytes, SidePolicy]
_Name = TypeVar("_Name")
_Kept = TypeVar("_Kept")
SchemaAnswer: TypeAlias = SchemaFacts | Trouble | None  # None: there is no such schema


class SchemaSource(Protocol):
    """A registry, asked off the loop; `done` is called on it. A schema is named by its frame: byte 0 and an id, or byte
    1 and a guid.
    """

    address: str  # for people
    timeout_ms: int

    def ask(self, frame: bytes, done: Callable[[SchemaAnswer], None]) -> None: ...

    def open(
        self, function: Callable[..., Any], *arguments: Any, done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Runs what decompresses on a thread: it must let go of the GIL nearly all the time."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    facts: SchemaFacts | None
    asked_ms: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refusal` None: the records may be taken. `is_stale`: the registry may say something else by now."""

    refusal: str | None
    is_stale: bool


class KnownSchemas:
    def __init__(self, source: SchemaSource, clock: Clock) -> None:
        self.source = source
        self._clock = clock
        self._known: dict[bytes, _Known] = {}
        self._asked_ms: dict[_Question, int] = {}  # when the registry last answered on behalf of that side
        self._waiting: dict[_Question, list[Callable[[Trouble | None], None]]] = {}

    def verdict(self, frame: bytes, side: SidePolicy) -> Verdict | None:
        """None: the registry has to be asked."""
        if not is_frame(frame):
            return Verdict(f"the {side.noun} does not begin with the id of a schema", False)
        known = self._known.get(frame)
        if known is None:
            return None
        refusal = _refusal(frame, side, known.facts)
        now_ms = self._clock.monotonic_ms()
        if refusal is None:
            return Verdict(None, now_ms - known.asked_ms > GOOD_MS)
        asked_ms = self._asked_ms.get((frame, side))
        return Verdict(refusal, asked_ms is None or now_ms - asked_ms > BAD_MS)

    def ask(self, frame: bytes, side: SidePolicy, told: Callable[[Trouble | None], None]) -> None:
        """`told` comes when `verdict` has an answer, or with the reason why it has none."""
        question = (frame, side)
        waiting = self._waiting.get(question)
        if waiting is not None:
            waiting.append(told)
            return
        if len(self._waiting) >= ASKED_MAX:
            told(Trouble(f"{ASKED_MAX} questions to the schema registry are under way"))
            return
        self._waiting[question] = [told]
        self.source.ask(frame, lambda answer: self._answered(question, answer))

    def _answered(self, question: _Question, answer: SchemaAnswer) -> None:
        if not isinstance(answer, Trouble):
            now_ms = self._clock.monotonic_ms()
            _keep(self._known, question[0], _Known(answer, now_ms))
            _keep(self._asked_ms, question, now_ms)
        for told in self._waiting.pop(question, ()):
            told(answer if isinstance(answer, Trouble) else None)


def _keep(kept: dict[_Name, _Kept], name: _Name, value: _Kept) -> None:
    """As the newest; the oldest makes room."""
    kept.pop(name, None)
    kept[name] = value
    if len(kept) > KNOWN_MAX:
        del kept[next(iter(kept))]


def is_frame(frame: bytes) -> bool:
    return (len(frame) == _ID_BYTES and frame[0] == 0) or (len(frame) == _GUID_BYTES and frame[0] == 1)


def schema_name(frame: bytes) -> str:
    """For people: the id, or the guid as it is written."""
    if frame[0] == 0:
        return str(int.from_bytes(frame[1:]))
    text = frame[1:].hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _refusal(frame: bytes, side: SidePolicy, facts: SchemaFacts | None) -> str | None:
    if facts is None:
        return f"the schema registry has no schema {schema_name(frame)}"
    wanted = side.subjects(facts.record_names)
    if wanted & facts.subjects:
        return None
    if not wanted:
        return f"schema {schema_name(frame)} has no name, which {side.strategy} as subject.name.strategy asks for"
    subjects = " or ".join(sorted(wanted)[:3])
    return f"schema {schema_name(frame)} is not registered under the subject {subjects}"
