"""What the terminal shows. Pure: a snapshot becomes lines; `Screen` alone knows how they get there."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TextIO

_BAR: Final = 24
_PLAIN_EVERY_S: Final = 5.0


class Output(NamedTuple):
    """One query, or the Streams application. `lag`: records that its group has not read yet; None while that is not
    known.
    """

    name: str
    batch_id: int | None
    rows: int
    lag: int | None
    holds: str
    doing: str = ""  # of what has no batches


class Section(NamedTuple):
    name: str
    views: int
    visitors: int
    load_p95_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    elapsed_s: float
    state: str
    sent: int = 0
    rate_per_s: float = 0.0
    outputs: Sequence[Output] = ()
    window: str = ""
    sections: Sequence[Section] = field(default_factory=tuple)
    most_read: Sequence[tuple[str, int]] = ()


def lines(snapshot: Snapshot) -> list[str]:
    minutes, seconds = divmod(int(snapshot.elapsed_s), 60)
    shown = [
        f"Headwater: website activity -> Spark -> topic, Parquet, SQLite; -> Streams -> visits   {minutes:02d}:{seconds:02d}  {snapshot.state}",
        "",
        f"  visitors    {snapshot.sent:>9,} page views sent   {snapshot.rate_per_s:>6,.0f}/s",
    ]
    for each in snapshot.outputs:
        batch = each.doing or ("starting" if each.batch_id is None else f"batch {each.batch_id}")
        lag = "" if each.lag is None else f"lag {each.lag:,}"
        shown.append(f"  -> {each.name:<8} {each.rows:>9,} rows in   {batch:<12} {lag:<12} {each.holds}")
    if snapshot.most_read:
        pages = ", ".join(f"{page} {views:,}" for page, views in snapshot.most_read)
        shown += ["", f"  most read, as the store of Streams has it now: {pages}"]
    if snapshot.sections:
        shown += ["", f"  the ten seconds from {snapshot.window}, as SQLite has them:"]
        shown.append(f"  {'section':<8} {'':<{_BAR}} {'views':>7} {'visitors':>9} {'load p95':>9}")
        most = max(each.views for each in snapshot.sections)
        for section in snapshot.sections:
            bar = "█" * max(1, round(_BAR * section.views / max(most, 1)))
            numbers = f"{section.views:>7,} {section.visitors:>9,} {section.load_p95_ms:>6} ms"
            shown.append(f"  {section.name:<8} {bar:<{_BAR}} {numbers}")
    return shown


def plain(snapshot: Snapshot) -> str:
    """One line, where there is no terminal to draw on."""
    outputs = ", ".join(
        f"{each.name} {each.rows:,} (lag {'?' if each.lag is None else each.lag})" for each in snapshot.outputs
    )
    return f"{snapshot.elapsed_s:5.0f} s  {snapshot.state}  sent {snapshot.sent:,}  {outputs}"


class Screen:
    """Draws over what it drew before on a terminal; elsewhere writes a line every few seconds."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._draws = out.isatty()
        self._height = 0
        self._last_plain_s = -_PLAIN_EVERY_S
        self._last_state = ""

    def show(self, snapshot: Snapshot) -> None:
        if self._draws:
            shown = lines(snapshot)
            back = f"\x1b[{self._height}F\x1b[J" if self._height else ""
            self._out.write(back + "\n".join(shown) + "\n")
            self._height = len(shown)
        elif snapshot.elapsed_s - self._last_plain_s >= _PLAIN_EVERY_S or snapshot.state != self._last_state:
            self._out.write(plain(snapshot) + "\n")
            self._last_plain_s = snapshot.elapsed_s
            self._last_state = snapshot.state
        self._out.flush()

    def say(self, text: str) -> None:
        """Stays above what is drawn next."""
        self._out.write(text + "\n")
        self._out.flush()
        self._height = 0
