"""Simulated clients: they speak the protocol in bytes, pipeline, retry, and write down what they were told."""
