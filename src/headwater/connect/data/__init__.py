"""Connect's data model: schemas, structs, records, and how values are written as text. Pure."""
