"""What a run found, as rows: the table, the JSON file, and the table in docs/PERFORMANCE.md. Pure but for the
writing.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

MORE: Literal["more"] = "more"
LESS: Literal["less"] = "less"
BEGIN = "<!-- table: written by `python -m bench --write-docs` -->"
END = "<!-- end of table -->"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a row is about: `better` says which way, `target` is of the value or, with `of_limit`, of its ratio."""

    row: str
    title: str
    unit: str
    better: Literal["more", "less"]
    limit_is: str
    target: float | None = None
    of_limit: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: the best of its rounds, and the best of the limit's rounds in between."""

    value: float
    limit: float | None = None
    also: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    row: str
    value: float | None
    unit: str
    limit: float | None
    ratio: float | None
    peer: float | None
    peer_ratio: float | None
    command: str
    target: str
    met: bool | None
    also: str = ""


def best(kind: Kind, figures: Sequence[Figure]) -> Figure:
    """Noise on a shared machine only ever makes things worse, for the broker as for the limit: the best of each
    counts.
    """
    choose = max if kind.better == MORE else min
    limits = [figure.limit for figure in figures if figure.limit is not None]
    chosen = choose(figures, key=lambda figure: figure.value)
    return Figure(chosen.value, choose(limits) if limits else None, chosen.also)


def ratio(value: float | None, other: float | None) -> float | None:
    return None if value is None or not other else value / other


def make_row(kind: Kind, ours: Figure | None, peer: Figure | None) -> Row:
    value = ours.value if ours else None
    limit = ours.limit if ours else None
    of_limit = ratio(value, limit)
    return Row(
        row=kind.row,
        value=rounded(value),
        unit=kind.unit,
        limit=rounded(limit),
        ratio=rounded(of_limit, 3),
        peer=rounded(peer.value if peer else None),
        peer_ratio=rounded(ratio(value, peer.value if peer else None), 3),
        command=f"python -m bench --only {kind.row}",
        target=target_text(kind),
        met=is_met(kind, of_limit if kind.of_limit else value),
        also=ours.also if ours else "",
    )


def is_met(kind: Kind, value: float | None) -> bool | None:
    if kind.target is None or value is None:
        return None
    return value >= kind.target if kind.better == MORE else value <= kind.target


def target_text(kind: Kind) -> str:
    if kind.target is None:
        return ""
    sign = ">=" if kind.better == MORE else "<="
    return f"{sign} {kind.target:g}x limit" if kind.of_limit else f"{sign} {kind.target:,g} {kind.unit}"


def rounded(value: float | None, digits: int | None = None) -> float | None:
    """Three figures or so: more would claim a precision that is not there."""
    if value is None:
        return None
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return round(value, digits) if digits else float(round(value))


def number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:g}"


def cells(row: Row, title: str) -> list[str]:
    verdict = {True: "yes", False: "NO", None: ""}[row.met]
    named = [number(value) for value in (row.value, row.limit, row.ratio, row.peer, row.peer_ratio)]
    return [title, *named[:1], row.unit, *named[1:3], row.target, verdict, *named[3:], row.also]


TITLES = ["row", "value", "unit", "limit", "ratio", "target", "met", "peer", "to peer", "also"]


def text_table(rows: Sequence[Row]) -> str:
    table = [TITLES] + [cells(row, row.row) for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(TITLES))]
    right = {1, 3, 4, 7, 8}
    lines = []
    for line in table:
        padded = (
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def markdown_table(rows: Sequence[Row], kinds: dict[str, Kind], environment: dict[str, str]) -> str:
    lines = ["| " + " | ".join(TITLES) + " |", "|" + "---|" * len(TITLES)]
    for row in rows:
        lines.append("| " + " | ".join(cells(row, kinds[row.row].title)) + " |")
    lines += ["", "Measured on: " + "; ".join(f"{name} {value}" for name, value in environment.items()) + "."]
    return "\n".join(lines)


def write_json(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def read_json(path: Path) -> list[Row]:
    """What an earlier run wrote; nothing if there was none."""
    return [Row(**row) for row in json.loads(path.read_text())] if path.exists() else []


def merged(rows: Sequence[Row], earlier: Sequence[Row], order: Sequence[str]) -> list[Row]:
    """`rows`, and of the earlier ones those that were not measured now. A peer that was not asked this time stays."""
    known = {row.row: row for row in earlier}
    for row in rows:
        peer = known[row.row].peer if row.peer is None and row.row in known else row.peer
        known[row.row] = replace(row, peer=peer, peer_ratio=rounded(ratio(row.value, peer), 3))
    return [known[row] for row in order if row in known]


def write_docs(path: Path, table: str) -> None:
    """Puts the table between the two marks."""
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no marks for the table")
    path.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")
