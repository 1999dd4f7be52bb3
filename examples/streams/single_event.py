"""Single-event processing: each log line by itself; errors go to a topic of their own. No state."""

from headwater.streams import App

app = App("log-levels")
lines = app.stream("logs")
lines[lines.level == "ERROR"].to("errors")
lines[lines.level != "ERROR"].select("level", "message").to("others")
