"""A finished result to text: table, json."""
