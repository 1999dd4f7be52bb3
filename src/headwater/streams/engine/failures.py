"""Poison pills: what happens with a record that cannot be decoded, processed or encoded.

`fail` ends the task with an error that names the record and the user's own line; `skip` leaves the record out and
counts it; `dead_letter` writes the record as it was read to a topic, with Kafka Streams' headers (KIP-1034), and goes
on. A function may decide for each failure. What was decided happens within the task's transaction, so a dead letter is
written exactly once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal

from headwater.base.errors import UserError
from headwater.streams.model.record import Headers, InputRecord, Origin, OutputRecord, RecordMetadata

Stage = Literal["deserialization", "processing", "production"]
Verdict = Literal["fail", "skip", "dead_letter"]
_HEADER_CHARACTERS: Final = 20_000  # of what a dead letter tells of its error
VERDICTS: Final = ("fail", "skip", "dead_letter")
_OTHER_SERDE: Final = 'Records in another form need a serde, as in app.stream(topic, key="text", value="bytes"). '


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, where, and with which record; in a punctuator there is none.

    What the record led to may have been held back, by the record cache, `suppress` or a join with a grace, and have
    gone on because of another one. Then `metadata` says which record it was, and `record` is None if it is not in
    memory any more: after a restart, or behind a join.
    """

    stage: Stage
    error: Exception
    record: InputRecord | None
    timestamp: int
    node: str
    task_id: str
    metadata: RecordMetadata | None = None  # where the record was read
    held_back: bool = False


class ClusterFailure(Exception):
    """The cluster did not answer a question that came up while a record was processed. The record is not at fault: no
    policy is asked.

    Everything since the last commit is processed again, or the run ends, if the cause is a UserError.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


Decide = Verdict | Callable[[Failure], Verdict]


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What to do, per stage."""

    deserialization: Decide = "fail"
    processing: Decide = "fail"
    production: Decide = "fail"
    dead_letter_topic: str | None = None

    def __post_init__(self) -> None:
        for decide in (self.deserialization, self.processing, self.production):
            if not callable(decide) and decide not in VERDICTS:
                raise UserError(
                    f"{decide!r} is nothing to do about an error", f"one of {', '.join(VERDICTS)}, or a function"
                )

    @property
    def only_fails(self) -> bool:
        """Whether no record is left out while records are processed: nobody asks for one that has failed later."""
        return self.processing == "fail" and self.production == "fail"

    @property
    def writes_dead_letters(self) -> bool:
        """Surely, or perhaps, where a function decides and a topic is named."""
        stages = (self.deserialization, self.processing, self.production)
        return "dead_letter" in stages or (self.dead_letter_topic is not None and any(map(callable, stages)))

    def decide(self, failure: Failure) -> Verdict:
        decide: Decide = getattr(self, failure.stage)
        if not callable(decide):
            return decide
        try:
            verdict = decide(failure)
        except Exception as error:
            line = own_line(error.__traceback__)
            what = f"failed: {type(error).__name__}: {error}" + (f", at {line}" if line else "")
            raise PolicyError(failure, what) from error
        if verdict not in VERDICTS:
            raise PolicyError(failure, f"gave {verdict!r}") from failure.error
        return verdict


class StreamsError(UserError):
    """A task has failed. The cause is the error itself."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        at = failure.metadata
        where = "a punctuator" if at is None else f"the record at {at.topic}-{at.partition} offset {at.offset}"
        if failure.held_back:
            where += ", held back until now"
        line = own_line(failure.error.__traceback__)
        why = f"{type(failure.error).__name__}: {failure.error}" + (f", at {line}" if line else "")
        super().__init__(
            f"{failure.stage.capitalize()} failed in {failure.node} of task {failure.task_id}, with {where}",
            why,
            (_OTHER_SERDE if failure.stage == "deserialization" else "")
            + "on_error of the App may skip such records, or write them to a dead letter topic",
        )


class PolicyError(StreamsError):
    """The user's function that decides about failures has failed itself. It is not asked again, about that."""

    def __init__(self, failure: Failure, what: str) -> None:
        super().__init__(failure)
        self.why = f"it was asked about this: {self.what} ({failure.error!r})"
        self.what = f"The function for errors {what}"
        self.hint = f"It gives one of {', '.join(VERDICTS)}"


def initialization_failed(error: Exception, node: str, task_id: str) -> UserError:
    line = own_line(error.__traceback__)
    why = f"{type(error).__name__}: {error}" + (f", at {line}" if line else "")
    return UserError(f"{node} of task {task_id} failed in its init", why)


class FailureHandler:
    """The policy of one task, and what it does: `write` takes dead letters, `drop` counts what is left out, and why."""

    __slots__ = ("_application_id", "_policy", "_task_id", "_write", "drop")

    def __init__(
        self,
        policy: ErrorPolicy,
        application_id: str,
        task_id: str,
        write: Callable[[OutputRecord], None],
        drop: Callable[[str], None],
    ) -> None:
        self._policy = policy
        self._application_id = application_id
        self._task_id = task_id
        self._write = write
        self.drop = drop

    def of(
        self,
        stage: Stage,
        error: Exception,
        raw: InputRecord | None,
        timestamp: int,
        node: str,
        held_back: Origin | None = None,
    ) -> Failure:
        """`held_back`: where what has failed comes from, if not from `raw`, the record that is being processed."""
        if held_back is not None:
            metadata, raw = held_back
        else:
            metadata = None if raw is None else RecordMetadata(raw.topic, raw.partition, raw.offset)
        return Failure(stage, error, raw, timestamp, node, self._task_id, metadata, held_back is not None)

    def handle(self, failure: Failure) -> None:
        """Returns if the application goes on without the record."""
        verdict = self._policy.decide(failure)
        if verdict == "fail":
            raise StreamsError(failure) from failure.error
        if verdict == "dead_letter":
            self._write(dead_letter(dead_letter_topic(self._policy, self._application_id), failure))
        self.drop(f"{failure.stage} error")


def innermost_node(error: Exception, nodes: Mapping[str, object]) -> str | None:
    """The innermost node on the way to the error, if there is one."""
    names = {id(processor): name for name, processor in nodes.items()}
    found, traceback = None, error.__traceback__
    while traceback is not None:
        owner = names.get(id(traceback.tb_frame.f_locals.get("self")))
        found, traceback = owner or found, traceback.tb_next
    return found


def own_line(traceback: TracebackType | None) -> str | None:
    """The last line of the traceback that is not ours: the user's."""
    import linecache

    found: tuple[str, int] | None = None
    while traceback is not None:
        path = traceback.tb_frame.f_code.co_filename
        if "/headwater/streams/" not in path.replace("\\", "/"):
            found = path, traceback.tb_lineno
        traceback = traceback.tb_next
    if found is None:
        return None
    text = linecache.getline(*found).strip()
    return f"{found[0]}:{found[1]}" + (f" `{text}`" if text else "")


def dead_letter_topic(policy: ErrorPolicy, application_id: str) -> str:
    return policy.dead_letter_topic or f"{application_id}-dead-letters"


def _shortened(text: str) -> str:
    """What somebody can read, and a header hold: errors of parsers may quote the whole record."""
    if len(text) <= _HEADER_CHARACTERS:
        return text
    half = _HEADER_CHARACTERS // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def dead_letter(topic: str, failure: Failure) -> OutputRecord:
    """The record as it was read, with its own timestamp, and in headers why it is here. If it is not in memory any more
    (see `Failure`), only the headers say which record it was.
    """
    import traceback

    error, record, at = failure.error, failure.record, failure.metadata
    told = traceback.TracebackException.from_exception(error)  # also of an error that cannot say what it is
    message, stack = _shortened(str(told)), _shortened("".join(told.format()))
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    headers: Headers = (
        ("__streams.errors.exception", kind.encode()),
        ("__streams.errors.message", message.encode(errors="replace")),  # half a character of the record's value
        ("__streams.errors.stacktrace", stack.encode(errors="replace")),
        ("__streams.errors.topic", None if at is None else at.topic.encode()),
        ("__streams.errors.partition", str(-1 if at is None else at.partition).encode()),
        ("__streams.errors.offset", str(-1 if at is None else at.offset).encode()),
    )
    if record is None:
        return OutputRecord(topic, None, None, None, max(0, failure.timestamp), headers)
    return OutputRecord(topic, None, record.key, record.value, max(0, record.timestamp), record.headers + headers)
