"""One module per verb or family of verbs, each imported when it is called."""
