"""Formats whose schemas are in a schema registry: AVRO, JSON_SR, PROTOBUF; and PROTOBUF_NOSR, which writes as PROTOBUF
does, without one.
"""
