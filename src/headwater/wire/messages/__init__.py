"""One file per API, named like the API. Structs stand before the messages that hold them."""
