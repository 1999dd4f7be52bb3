"""What connectors, tasks, converters and transforms are configured with: one table each, and how a config is checked
against it.
"""
