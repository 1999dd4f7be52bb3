"""Results on stdout, in the shape the person asked for: a table for eyes, JSON or YAML for programs.

JSON and YAML carry the value as it is; a table is laid out from rows of text. Pure but for `emit`.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from headwater.base.errors import UserError

OUTPUTS: Final = ("table", "json", "yaml")
_GAP: Final = "  "


def render_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; a column of numbers only stands to the right. No trailing blanks."""
    cells = [[cell_text(cell) for cell in row] for row in rows]
    widths = [max([len(column), *(len(row[at]) for row in cells)]) for at, column in enumerate(columns)]
    right = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(columns))]
    lines = []
    for line in [list(columns), *cells]:
        padded = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        lines.append(_GAP.join(padded).rstrip())
    return "".join(f"{line}\n" for line in lines)


def render_pairs(pairs: Sequence[tuple[str, object]]) -> str:
    """`name  value` lines, for one thing with several properties."""
    width = max((len(name) for name, _ in pairs), default=0)
    return "".join(f"{name.ljust(width)}{_GAP}{cell_text(value)}".rstrip() + "\n" for name, value in pairs)


def cell_text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(cell_text(item) for item in value)
    return str(value).replace("\n", "\\n")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def render(output: str, value: Any, table: str) -> str:
    if output == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if output == "yaml":
        return to_yaml(value)
    return table


def to_yaml(value: Any, *, explicit_start: bool = False) -> str:
    try:
        import yaml
    except ImportError:
        raise UserError(
            "Cannot write YAML", "the package PyYAML is not installed", "Run: pip install 'headwater[yaml]'"
        ) from None
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, explicit_start=explicit_start)
    assert isinstance(text, str)
    return text


def emit(output: str, value: Any, table: str) -> None:
    sys.stdout.write(render(output, value, table))


def size_text(size_bytes: int) -> str:
    """1536 -> '1.5 KiB'; -1 (unknown) -> '-'."""
    if size_bytes < 0:
        return "-"
    if size_bytes < 1024:
        return f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1024 or unit == "TiB":
            break
    return f"{amount:.1f} {unit}"


def duration_text(seconds: float) -> str:
    """90061 -> '1d 1h 1m'; parts that are zero are left out; below a minute in seconds."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    parts = (("d", whole // 86400), ("h", whole // 3600 % 24), ("m", whole // 60 % 60))
    return " ".join(f"{amount}{unit}" for unit, amount in parts if amount)
