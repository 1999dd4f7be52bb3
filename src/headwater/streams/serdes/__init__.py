"""Bytes to objects and back: the stock serdes, typed records, and the names by which people give them."""

from headwater.streams.serdes.port import Serde, SerdeError
from headwater.streams.serdes.resolving import resolve
from headwater.streams.serdes.stock import BYTES, DOUBLE, FLOAT, INT, JSON, LONG, SHORT, TEXT, VOID

__all__ = ["BYTES", "DOUBLE", "FLOAT", "INT", "JSON", "LONG", "SHORT", "TEXT", "VOID", "Serde", "SerdeError", "resolve"]
