"""The functions of the language: scalar, aggregate and table-valued, with ksqlDB's names and its rules for NULL."""
