"""Windowed join of two streams: a search and the clicks of the same user within five seconds of it."""

from headwater.streams import App, JoinWindows

app = App("search-clicks")
searches, clicks = app.stream("searches"), app.stream("clicks")
joined = searches.join(
    clicks,
    lambda search, click: {"query": search["query"], "page": click["page"]},
    window=JoinWindows.of(5_000, grace_ms=1_000),
)
joined.to("search-clicks")
