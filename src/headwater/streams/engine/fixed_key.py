"""`process_values`: a processor that may change everything but the key, so that no repartitioning is needed after
it.
"""

from typing import Any

from headwater.base.errors import UserError
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record


class FixedKeyContext:
    """The context of the node, with a `forward` that refuses another key."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.key: Any = None
        self.in_process = False

    def forward(self, record: Record, child: str | None = None) -> None:
        changes = isinstance(record, Record) and record.key is not self.key and record.key != self.key
        if self.in_process and changes:
            raise UserError(
                f"{self._context.node_name} forwards the key {record.key!r} for {self.key!r}",
                "process_values must not change keys",
                "use process(...)",
            )
        self._context.forward(record, child)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class FixedKeyProcessor(Processor):
    """A user's processor within."""

    def __init__(self, inner: Processor) -> None:
        self.inner = inner
        self._fixed: FixedKeyContext | None = None

    def init(self, context: Context) -> None:
        self._fixed = fixed = FixedKeyContext(context)
        self.inner.context = fixed
        self.inner.forward = fixed.forward
        self.inner.init(fixed)

    def process(self, record: Record) -> None:
        fixed = self._fixed
        assert fixed is not None
        fixed.key, fixed.in_process = record.key, True
        try:
            self.inner.process(record)
        finally:  # a failure may be survived, and a punctuator comes next
            fixed.in_process = False

    def close(self) -> None:
        self.inner.close()
