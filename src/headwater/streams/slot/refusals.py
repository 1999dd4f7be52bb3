"""Records that brokers refuse, and would refuse for ever: too large, invalid. Pure.

A broker refuses a batch, not a record, so those of a refused batch are under suspicion until each is sent by itself
(`sending`). What is refused then is decided by the policy for production: it is left out, or a dead letter takes its
place, or the run ends with the record named. A change of a store cannot be left out: the store would not be what its
changelog says.
"""

from collections.abc import Mapping
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.streams.engine.failures import ErrorPolicy, Failure, dead_letter, dead_letter_topic
from headwater.streams.model.record import OutputRecord

_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
HOPELESS: Final = frozenset((*_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP))
_SHOWN_BYTES: Final = 60


class Refused(Exception):
    """By brokers, with an error that no repetition mends. Which records: by their identity; none if only a whole table
    is known.
    """

    def __init__(self, error: KafkaError, records: Mapping[int, KafkaError], certain: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.records = records
        self.certain = certain


def settle(
    records: list[OutputRecord], refused: Mapping[int, KafkaError], policy: ErrorPolicy, application_id: str
) -> list[OutputRecord]:
    """What is to be written instead. Raises UserError where the policy says that the application fails."""
    letters = dead_letter_topic(policy, application_id)
    kept: list[OutputRecord] = []
    for record in records:
        error = refused.get(id(record))
        if error is None:
            kept.append(record)
            continue
        failure = Failure("production", error, None, record.timestamp, record.topic, application_id)
        verdict = "fail" if record.topic == letters else policy.decide(failure)
        if verdict == "fail":
            raise refusal(record, error)
        if verdict == "dead_letter":
            value = None if error.code in _TOO_LARGE else record.value
            kept.append(dead_letter(letters, failure)._replace(key=record.key, value=value))
    return kept


def refusal(record: OutputRecord, error: KafkaError) -> UserError:
    key = repr(record.key if record.key is None else record.key[:_SHOWN_BYTES])
    size = len(record.key or b"") + len(record.value or b"")
    return UserError(
        f"A record for the topic {record.topic} is refused: key {key}, {size} bytes, timestamp {record.timestamp}",
        str(error),
        "Mend what makes it, or the topic's config (max.message.bytes), or leave such records out: ErrorPolicy(production=...)",
    )
