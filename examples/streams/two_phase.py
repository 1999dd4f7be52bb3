"""Two phases with a repartition between: the volume of each stock where it is traded,
then the three most traded of all.

The first phase counts in parallel, by stock. Its updates go through a repartition topic to one key,
where the top is kept.
"""

from typing import Any

from headwater.streams import App

TOP = 3


def add(top: dict[str, int], update: dict[str, Any]) -> dict[str, int]:
    merged = top | {update["stock"]: update["volume"]}
    best = sorted(merged, key=lambda stock: (-merged[stock], stock))[:TOP]
    return {stock: merged[stock] for stock in best}


app = App("top-stocks")
trades = app.stream("trades")
volumes = trades.group_by_key(name="by-stock").sum(trades.volume, store="volumes").to_stream()
updates = volumes.map_values(lambda stock, volume: {"stock": stock, "volume": volume})
top = updates.group_by(lambda _update: "all", name="top").aggregate(dict, add, store="top")
top.to_stream().to("top-stocks")
