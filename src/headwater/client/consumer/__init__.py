"""Reading from topics: alone or as a member of a group."""
