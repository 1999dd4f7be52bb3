"""Statements of ksqlDB's grammar that are not carried out here. Each is refused by its name, with what to do instead,
where the parser would otherwise say only what it expected.
"""

from typing import Final

from headwater.sql.language.errors import DeclinedError
from headwater.sql.language.token_reader import TokenReader

_CONNECT: Final = "Connectors are run by Connect, which has its own command line and REST API"

# The words that a statement begins with, why it is refused, and what helps.
_DECLINED: Final[tuple[tuple[tuple[str, ...], str, str], ...]] = (
    (("CREATE", "CONNECTOR"), _CONNECT, "Use `headwater connect create`."),
    (("CREATE", "SOURCE", "CONNECTOR"), _CONNECT, "Use `headwater connect create`."),
    (("CREATE", "SINK", "CONNECTOR"), _CONNECT, "Use `headwater connect create`."),
    (("DROP", "CONNECTOR"), _CONNECT, "Use `headwater connect delete`."),
    (("DESCRIBE", "CONNECTOR"), _CONNECT, "Use `headwater connect status`."),
    (("SHOW", "CONNECTORS"), _CONNECT, "Use `headwater connect list`."),
    (("SHOW", "SOURCE", "CONNECTORS"), _CONNECT, "Use `headwater connect list`."),
    (("SHOW", "SINK", "CONNECTORS"), _CONNECT, "Use `headwater connect list`."),
    (("SHOW", "CONNECTOR", "PLUGINS"), _CONNECT, "Use `headwater connect plugins`."),
    (("ASSERT", "STREAM"), "It is a statement of test files", "Use DESCRIBE, or `headwater sql test`."),
    (("ASSERT", "TABLE"), "It is a statement of test files", "Use DESCRIBE, or `headwater sql test`."),
    (("RUN", "SCRIPT"), "It reads a file of the shell's machine", "Run it in `headwater sql`."),
    (("SPOOL",), "It writes a file of the shell's machine", "Run it in `headwater sql`."),
)
_SAME: Final = {"LIST": "SHOW"}


def refuse_declined(reader: TokenReader) -> None:
    """Raises DeclinedError if one of them stands here."""
    first = reader.token.text
    for words, why, hint in _DECLINED:
        if words[0] == _SAME.get(first, first) and reader.is_word(first, *words[1:]):
            raise DeclinedError(f"{' '.join(words)} is not carried out here.", why, hint, reader.position)
