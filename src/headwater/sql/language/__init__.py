"""The text of statements and what they mean: tokens, syntax trees, types. Pure."""
