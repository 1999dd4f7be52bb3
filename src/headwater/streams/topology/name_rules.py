"""Which names operators, stores and repartition topics may have, as in Kafka Streams: those that a topic may have,
since most of them become a part of one.
"""

from headwater.base.errors import UserError
from headwater.base.names import topic_name_problem


def check_name(name: object, what: str) -> None:
    """Raises UserError where a name would be refused by the brokers later, or is no text."""
    problem = topic_name_problem(name) if isinstance(name, str) else "it is no text"
    if problem is not None:
        raise UserError(f"The name of {what} cannot be {name!r}", problem, "take letters, digits, '.', '_' and '-'")


def check_optional_name(name: object, what: str) -> None:
    if name is not None:
        check_name(name, what)


def check_topic(topic: object, operator: str) -> None:
    """What brokers think of its characters they say themselves; a list, or nothing at all, is told here."""
    if not isinstance(topic, str) or not topic:
        raise UserError(f"{operator} needs the name of a topic", f"it was given {topic!r}")
