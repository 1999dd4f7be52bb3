"""Writing to topics: options, the digest of what a task wrote, the decisions, and the hands that do the protocol's steps."""
