"""Local state: the lowest and highest price of each stock on each day,
kept where it is computed and restored from a changelog.
"""

from typing import Any

from headwater.streams import App, daily


def extremes(found: dict[str, Any], trade: dict[str, Any]) -> dict[str, Any]:
    price = trade["price"]
    if not found:
        return {"low": price, "high": price}
    return {"low": min(found["low"], price), "high": max(found["high"], price)}


app = App("stock-extremes")
trades = app.stream("trades").group_by_key().windowed_by(daily("America/New_York"))
trades.aggregate(dict, extremes, store="extremes").to_stream().to("daily-extremes")
