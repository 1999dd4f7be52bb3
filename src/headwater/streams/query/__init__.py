"""Interactive queries: stores read while an application runs, in this process, over HTTP, of one host or of all."""

from headwater.streams.query.client import connect

__all__ = ["connect"]
