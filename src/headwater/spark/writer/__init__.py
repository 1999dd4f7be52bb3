"""Writing to topics: options, the digest of what a task wrote, the decisions, and the driver that does the protocol's
steps.
"""
