"""Topics as Kafka's tools let them be named: a regular expression of whole names, with commas between alternatives,
`orders,bills.*`, and quotes round it or not. Pure."""

import re
from typing import Final

from headwater.cli.kafka.options import Usage

_QUOTES: Final = "\"'"


def topic_pattern(text: str) -> re.Pattern[str]:
    """What a topic's whole name has to match. Spaces are left out: no name has any."""
    pattern = text.strip().replace(",", "|").replace(" ", "").strip(_QUOTES)
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Usage(f"{text} is an invalid regex. ({error})") from None
