"""Text of others for a terminal: what a terminal would take as a command, or as the end of a line, is shown instead.
No state.
"""

from typing import TextIO


def printable(text: str) -> str:
    """On one line: what is not printable as Python writes it (`\\n`, `\\x1b`)."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def printable_lines(text: str) -> str:
    """Its lines and tabs stay."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def for_stream(text: str, stream: TextIO) -> str:
    """As it is for a file or a program; as `printable_lines` for a terminal."""
    return printable_lines(text) if stream.isatty() else text
