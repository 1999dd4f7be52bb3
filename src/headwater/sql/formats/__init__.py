"""Formats: rows to bytes and back. A format makes a serde for given columns; a row is a list of values in their
order.
"""
