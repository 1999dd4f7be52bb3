"""Why a schema may not follow another, for people: the registry's messages are made for programs. Pure."""

import re
from typing import Final, NamedTuple

_REASON: Final = re.compile(
    r"\{errorType:\s*'(\w+)', description:\s*'(.*?)'(?:, (?:path|additionalInfo):\s*'.*?')?\}", re.S
)
_VERSION: Final = re.compile(r"\{oldSchemaVersion:\s*(-?\d+)\}")
_LEVEL: Final = re.compile(r"\{.*compatibility:\s*'(\w+)'\}")


class Reasons(NamedTuple):
    lines: list[str]
    against: str  # version 3, BACKWARD


def reasons(messages: list[str]) -> Reasons:
    """Of the messages of a check with `verbose`, of this registry or of Confluent's. What is not understood stays as it
    is; the old schema's text, which Confluent's adds, is left out.
    """
    lines, against = [], []
    for message in messages:
        if reason := _REASON.fullmatch(message):
            lines.append(f"{reason[2]} ({reason[1]})")
        elif version := _VERSION.fullmatch(message):
            against.append(f"version {version[1]}")
        elif level := _LEVEL.fullmatch(message):
            against.append(level[1])
        elif not message.startswith("{oldSchema:"):
            lines.append(message)
    return Reasons(lines, ", ".join(against))
