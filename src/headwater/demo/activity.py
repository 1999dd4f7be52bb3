"""Visitors of a website. Pure: from a seed and the time, what somebody does next.

A visitor comes to some page from somewhere, reads on from page to page, mostly within a section, and leaves. Now and
then a record is no JSON at all, as happens where many programs write to one topic.
"""

import json
import random
from dataclasses import dataclass
from typing import Final, NamedTuple


class Page(NamedTuple):
    path: str
    section: str
    title: str


SITE: Final = (
    Page("/", "home", "Front page"),
    Page("/news/river-rises", "news", "The river rises again"),
    Page("/news/bridge-opens", "news", "New bridge opens"),
    Page("/news/election", "news", "Five things about the election"),
    Page("/sport/regatta", "sport", "Regatta: all results"),
    Page("/sport/final", "sport", "The final, minute by minute"),
    Page("/shop/boots", "shop", "Rubber boots"),
    Page("/shop/raincoat", "shop", "Raincoats"),
    Page("/shop/cart", "shop", "Your cart"),
    Page("/help/returns", "help", "How to return things"),
)
REFERRERS: Final = ("", "search", "search", "newsletter", "social")
DEVICES: Final = ("desktop", "mobile", "mobile", "tablet")
_LEAVES: Final = 0.3
_STAYS_IN_SECTION: Final = 0.6
_IS_GARBLED: Final = 0.002
_VISITORS_MAX: Final = 500


@dataclass(slots=True)
class Visitor:
    name: str
    device: str
    page: Page
    referrer: str


class Website:
    """Owns its visitors and its chance; the time comes in."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._visitors: list[Visitor] = []
        self._came = 0

    def next_record(self, now_ms: int) -> tuple[bytes, bytes]:
        """Key and value: the visitor, and the page view."""
        chance = self._chance
        visitor = self._somebody()
        key = visitor.name.encode()
        if chance.random() < _IS_GARBLED:
            return key, b"GET " + visitor.page.path.encode() + b" HTTP/1.1"
        view = {
            "time_ms": now_ms,
            "visitor": visitor.name,
            "page": visitor.page.path,
            "referrer": visitor.referrer,
            "device": visitor.device,
            "load_ms": round(chance.lognormvariate(5.0, 0.6)),
        }
        self._move_on(visitor)
        return key, json.dumps(view).encode()

    def _somebody(self) -> Visitor:
        chance = self._chance
        if not self._visitors or (len(self._visitors) < _VISITORS_MAX and chance.random() < _LEAVES):
            self._came += 1
            arrived = Visitor(
                f"visitor-{self._came}", chance.choice(DEVICES), chance.choice(SITE), chance.choice(REFERRERS)
            )
            self._visitors.append(arrived)
            return arrived
        return chance.choice(self._visitors)

    def _move_on(self, visitor: Visitor) -> None:
        chance = self._chance
        if chance.random() < _LEAVES:
            self._visitors.remove(visitor)
            return
        near = [page for page in SITE if page.section == visitor.page.section]
        visitor.referrer = visitor.page.path
        visitor.page = chance.choice(near if chance.random() < _STAYS_IN_SECTION else SITE)


def due(rate_per_s: float, elapsed_s: float, sent: int) -> int:
    """How many records it takes now to keep the rate."""
    return max(0, int(rate_per_s * elapsed_s) - sent)
