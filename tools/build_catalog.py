"""Write the hardware catalog from tables of facts.

    python tools/build_catalog.py --facts DIR [--measured FILE] [--out hardware]

`DIR` holds accelerators.csv, interconnects.csv, storage_tiers.csv and operator_fits.csv; FILE is a table of measured
serving runs, from which the engine profiles list the model and accelerator pairs that their constants were fitted on.
The same tables give the same bytes. Files of the catalog that no table names any more are left alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from catalog_build import accelerators, engines, fits, links

DEFAULT_OUT = Path(__file__).resolve().parent.parent / "hardware"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write the hardware catalog from tables of facts.")
    parser.add_argument("--facts", type=Path, required=True, help="folder of fact tables")
    parser.add_argument("--measured", type=Path, help="CSV of measured serving runs; engines are skipped without it")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="catalog folder to write")
    options = parser.parse_args(arguments)
    names = accelerators.build(options.facts, options.out)
    fitted = fits.build(options.facts, options.out)
    links.build(options.facts, options.out)
    if options.measured:
        engines.build(options.measured, options.out)
    print(f"{len(names)} accelerators, {len(fitted)} with fits of their own, in {options.out}")


if __name__ == "__main__":
    main()
