"""Parts of `tools/build_catalog.py`: facts in CSV files to the YAML catalog in `hardware/`."""
