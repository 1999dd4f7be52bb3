"""The connectors that come with Headwater."""
