"""JSON Schema for Connect: schemas both ways by Confluent's rules, pure; the converter itself is `converter`."""
