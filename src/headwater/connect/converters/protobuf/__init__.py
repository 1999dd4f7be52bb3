"""The Protobuf converter."""
