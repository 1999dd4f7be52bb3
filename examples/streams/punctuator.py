"""A punctuator: machines that have not been heard of for a minute are reported,
as time goes on and not when a record comes.
"""

from headwater.streams import App, Context, Processor, Record, key_value_store

SILENT_MS = 60_000


class Watch(Processor):
    def init(self, context: Context) -> None:
        self.seen = context.store("last-seen")
        context.schedule(10_000, "wall", self.report)

    def process(self, record: Record) -> None:
        self.seen.put(record.key, self.context.wall_clock_ms)

    def report(self, now_ms: int) -> None:
        for machine, at in list(self.seen.all()):
            if now_ms - at >= SILENT_MS:
                self.forward(Record(machine, {"silent_for_ms": now_ms - at}, now_ms))
                self.seen.delete(machine)


app = App("heartbeats")
app.add_store(key_value_store("last-seen", value="long"))
app.stream("heartbeats").process(Watch, stores=["last-seen"]).to("silent-machines")
