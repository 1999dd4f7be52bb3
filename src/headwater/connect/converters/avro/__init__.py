"""Avro for Connect: schemas and values both ways by Confluent's rules, pure; the converter itself is `converter`."""
