"""Text to tokens.

Names without quotes are upper-cased, as ksqlDB does; between backquotes or double quotes they stay as written. Text
between `$$` and `$$` is a string in which nothing is escaped: code. Comments (`--` to the end of the line, `/* ... */`)
and white space are skipped. The text of one statement, and the number of its tokens, are bounded.
"""

import re
from enum import Enum
from typing import Final, NamedTuple

from headwater.sql.language.errors import BEGINNING, Position, SqlSyntaxError

SIZE_MAX: Final = 1024 * 1024
TOKENS_MAX: Final = 30_000  # some seconds of work


class Kind(Enum):
    NAME = "name"
    QUOTED_NAME = "quoted name"
    STRING = "string"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "floating point number"
    VARIABLE = "variable"
    SYMBOL = "symbol"
    END = "end of the text"


class Token(NamedTuple):
    kind: Kind
    text: str  # names upper-cased unless quoted; strings without quotes; symbols as they are
    start: int  # where it begins and ends in the text
    end: int
    position: Position

    @property
    def is_name(self) -> bool:
        return self.kind in (Kind.NAME, Kind.QUOTED_NAME)


_PATTERN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<FLOAT>(?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+)
  | (?P<DECIMAL>\d+\.\d*|\.\d+)
  | (?P<DIGIT_NAME>\d+[A-Za-z_][\w@]*)
  | (?P<INTEGER>\d+)
  | (?P<STRING>'(?:[^']|'')*'|\$\$.*?\$\$)
  | (?P<QUOTED_NAME>`(?:[^`]|``)*`|"(?:[^"]|"")*")
  | (?P<VARIABLE>\$\{[A-Za-z_][\w]*\})
  | (?P<NAME>[A-Za-z_][\w@$]*)
  | (?P<SYMBOL>->|=>|:=|<>|!=|<=|>=|\|\||/(?!\*)|[-+*%=<>(),.;:\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_KINDS: Final = {each.name: each for each in Kind} | {"DIGIT_NAME": Kind.NAME}
_NOWHERE: Final = Position(0, 0)  # of white space, which nobody asks for


def tokenize(text: str, begins_at: Position = BEGINNING) -> list[Token]:
    """All tokens of `text`, and one for its end. `begins_at`: where it stands in what was given."""
    if len(text) > SIZE_MAX:
        raise SqlSyntaxError(f"The text has {len(text)} characters; at most {SIZE_MAX} are taken.")
    if _SURROGATE.search(text):
        raise SqlSyntaxError("The text has half a character (a surrogate), which no encoding can write.")
    tokens: list[Token] = []
    line, at, line_start = begins_at.line, 0, 1 - begins_at.column
    while at < len(text):
        found = _PATTERN.match(text, at)
        kind = None if found is None else found.lastgroup
        position = _NOWHERE if kind == "space" else Position(line, at - line_start + 1)
        if found is None:
            raise SqlSyntaxError(_unknown(text, at), position=position)
        if kind != "space":
            assert kind is not None
            if len(tokens) >= TOKENS_MAX:
                raise SqlSyntaxError(f"The text has more than {TOKENS_MAX} words and symbols.", position=position)
            tokens.append(Token(_KINDS[kind], _meaning(kind, found.group()), at, found.end(), position))
        end = found.end()
        newlines = text.count("\n", at, end)
        if newlines:
            line += newlines
            line_start = text.rindex("\n", at, end) + 1
        at = end
    tokens.append(Token(Kind.END, "", len(text), len(text), Position(line, at - line_start + 1)))
    return tokens


def _meaning(kind: str, text: str) -> str:
    if kind in ("NAME", "DIGIT_NAME"):
        return text.upper()
    if text.startswith("$$"):
        return text[2:-2]
    if kind in ("STRING", "QUOTED_NAME"):
        quote = text[0]
        return text[1:-1].replace(quote * 2, quote)
    if kind == "VARIABLE":
        return text[2:-1]
    return text


def _unknown(text: str, at: int) -> str:
    rest = text[at]
    if rest == "'":
        return "a string begins here and does not end: its closing quote is missing."
    if rest in '`"':
        return "a quoted name begins here and does not end: its closing quote is missing."
    if text.startswith("/*", at):
        return "a comment begins here and does not end."
    return f"token recognition error at: {rest!r}"
