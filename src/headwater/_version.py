"""The version, alone in a file so that packaging and the command line read it without importing anything."""

VERSION = "0.1.0"
