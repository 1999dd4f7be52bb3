"""Who may process a task, and how its results, changes and positions become one: as generators, pure."""
