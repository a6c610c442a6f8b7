"""`accelerators.csv` to one YAML file per accelerator."""

from __future__ import annotations

from pathlib import Path

from catalog_build.supplement import EXTRA, FITTED_UNITS, SCALEUP_DOMAIN, SPARSE, VISIBLE_MEMORY
from catalog_build.writing import Row, number, rate, read_csv, scalar, sourced, write

_KINDS = {"datasheet": "datasheet", "third party": "third-party", "announced": "announced", "vendor slides": "vendor"}
_PRICE_SURVEY = ("SemiAnalysisAI/InferenceX-app 77ca49a cost constants", "2026-04-03")
_PEAKS = {"bf16_dense": "bf16_tflops", "fp8_dense": "fp8_tflops", "fp4_dense": "fp4_tflops", "int8_dense": "int8_tops"}


def build(facts: Path, out: Path) -> list[str]:
    """Write every accelerator; returns their ids."""
    rows = read_csv(facts / "accelerators.csv")
    for row in rows:
        write(out / "accelerators" / f"{row['name']}.yaml", _lines(row))
    return [row["name"] for row in rows]


def _lines(row: Row) -> list[str]:
    extra = EXTRA[row["name"]]
    lines = [
        "# Peaks are dense unless the key says sparse; rates are one way. Keys: hardware/README.md",
        f"id: {row['name']}",
        f"vendor: {row['vendor']}",
        f"status: {'announced' if row['status'] == 'announced' else 'shipping'}",
        *_memory(row),
        *_peaks(row),
        *_links(row),
        f"node_accelerators: {sourced(str(extra.node_accelerators), extra.node_source, 'estimate')}",
        *_power(row),
        f"compute_units: {sourced(str(extra.compute_units), extra.units_source, _units_kind(extra.units_source))}",
        *_prices(row),
    ]
    if extra.like:
        why = "nearest fitted part by design; a guess, used for operators without fits of its own"
        lines.append(f"efficiency_like: {sourced(extra.like, why, 'estimate')}")
    return [*lines, *_notes(row)]


def _units_kind(source: str) -> str:
    return "datasheet" if source == FITTED_UNITS else "estimate"


def _kind(row: Row) -> str:
    return _KINDS[row["confidence"]]


def _memory(row: Row) -> list[str]:
    basis, size = row["memory_bytes_basis"], row["memory_bytes"]
    source = f"{row['source']}; {row['memory_marketed_gb']} GB on the box, {basis}"
    kind = "measured" if basis.startswith("driver") else _kind(row)
    if row["name"] in VISIBLE_MEMORY:
        (size, source), kind = VISIBLE_MEMORY[row["name"]], "measured"
    return [
        f"memory: {sourced(f'{size} B', source, kind)}",
        f"memory_type: {row['memory_type']}",
        f"memory_rate: {sourced(rate(row['mem_bw_gbs']), row['source'], _kind(row))}",
    ]


def _peaks(row: Row) -> list[str]:
    lines = []
    for key, column in _PEAKS.items():
        if row[column]:
            unit = "TOP/s" if key.startswith("int") else "TFLOP/s"
            lines.append(f"{key}: {sourced(f'{number(row[column])} {unit}', row['source'], _kind(row))}")
    for key, (value, source) in SPARSE.get(row["name"], {}).items():
        lines.append(f"{key}: {sourced(f'{value} TFLOP/s', source, 'datasheet')}")
    return lines


def _links(row: Row) -> list[str]:
    source = row["source"]
    lines = [f"scaleup_name: {scalar(row['scaleup_tech'])}"]
    if row["scaleup_gbs_uni"]:
        lines.append(f"scaleup_rate: {sourced(rate(row['scaleup_gbs_uni']), source, _kind(row))}")
    domain, domain_source = SCALEUP_DOMAIN.get(row["name"], (row["scaleup_domain"], source))
    lines.append(f"scaleup_domain: {sourced(domain, domain_source, _kind(row))}")
    if row["host_gbs_uni"]:
        host = f"{row['host_link']}; line rate"
        lines.append(f"host_rate: {sourced(rate(row['host_gbs_uni']), host, 'datasheet')}")
    if row["nic_gbps_per_gpu"]:
        nic = f"{number(row['nic_gbps_per_gpu'])} Gb/s"
        lines.append(f"nic_rate: {sourced(nic, 'usual network share per accelerator', 'estimate')}")
    return lines


def _power(row: Row) -> list[str]:
    lines = []
    if row["tdp_w"]:
        kind = "estimate" if "TDP" in row["notes"] else _kind(row)
        watts = f"{number(row['tdp_w'])} W"
        lines.append(f"tdp: {sourced(watts, row['source'], kind)}")
    if row["allin_kw_per_gpu"]:
        source, date = _PRICE_SURVEY
        text = f"{source}: facility power with host, network and cooling share"
        power = f"{number(row['allin_kw_per_gpu'])} kW"
        lines.append(f"all_in_power: {sourced(power, text, 'third-party', date)}")
    return lines


def _prices(row: Row) -> list[str]:
    lines = []
    cloud = row["cloud_price_source"]
    cloud_kind = "estimate" if "from memory" in cloud or "not verified" in cloud else "third-party"
    survey, date = _PRICE_SURVEY
    survey_kind = "estimate" if "placeholder" in row["notes"] else "third-party"
    for basis, column, source, kind, retrieved in (
        ("cloud_low", "cloud_usd_hr_low", cloud, cloud_kind, None),
        ("cloud_high", "cloud_usd_hr_high", cloud, cloud_kind, None),
        ("rent3y", "rent3y_usd_hr", f"{survey}, 3-year rent", survey_kind, date),
        ("own_hyperscaler", "own_usd_hr_hyperscaler", f"{survey}, cost of ownership", survey_kind, date),
        ("own_neocloud", "own_usd_hr_neocloud", f"{survey}, cost of ownership", survey_kind, date),
    ):
        if row[column]:
            value = f"{number(row[column])} USD/h"
            text = sourced(value, source, kind, retrieved) if retrieved else sourced(value, source, kind)
            lines.append(f"  {basis}: {text}")
    block = ["prices:", *lines] if lines else []
    if row["purchase_usd"]:
        price = f"{number(row['purchase_usd'])} USD"
        block.append(f"purchase: {sourced(price, _purchase_source(row), 'estimate')}")
    return block


def _purchase_source(row: Row) -> str:
    return next(
        (part.strip() for part in row["notes"].split(";") if "purchase" in part or "MSRP" in part), "list price"
    )


def _notes(row: Row) -> list[str]:
    texts = [row["notes"]] if row["notes"] else []
    if row["second_source"]:
        texts.append(f"also {row['second_source']}")
    if "(CN)" in row["status"]:
        texts.append("sold in China")
    return [f"notes: {scalar('; '.join(texts))}"] if texts else []
