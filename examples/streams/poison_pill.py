"""A poison pill stops nobody: what cannot be read or computed goes to a dead letter topic, with why.

`headwater stream dlq list examples/streams/poison_pill.py`, and `replay` once its cause is mended.
"""

from headwater.streams import App

app = App("payments", on_error="dead_letter")
app.stream("payments").map_values(lambda payment: {"cents": round(payment["amount"] * 100)}).to("payments-in-cents")
