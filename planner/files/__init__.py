"""Text to records: YAML with line numbers, catalogs, model configs, traces."""
