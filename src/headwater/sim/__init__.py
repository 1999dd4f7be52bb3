"""The simulated world: clock, disk and scheduler behind the same ports as the server's, from one seed."""
