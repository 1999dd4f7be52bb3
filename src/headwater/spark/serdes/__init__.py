"""Typed keys and values in Spark: options, Spark's types of a schema and back, decoding in the source, encoding in the
sink.
"""
