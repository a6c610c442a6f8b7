"""`interconnects.csv` and `storage_tiers.csv` to one YAML file per link and per storage tier."""

from __future__ import annotations

from pathlib import Path

from catalog_build.writing import Row, number, rate, read_csv, scalar, slug, sourced, write


def build(facts: Path, out: Path) -> None:
    for row in read_csv(facts / "interconnects.csv"):
        write(out / "links" / f"{row['name']}.yaml", _link(row))
    for row in read_csv(facts / "storage_tiers.csv"):
        write(out / "storage" / f"{_tier_id(row)}.yaml", _tier(row))


def _kind(confidence: str) -> str:
    """The weakest kind that a confidence such as "datasheet + from memory" names."""
    for word, kind in (
        ("memory", "estimate"), ("not verified", "estimate"), ("inferred", "estimate"), ("analogy", "estimate"),
        ("announced", "announced"), ("third party", "third-party"), ("arithmetic", "estimate"), ("vendor", "vendor"),
        ("measured", "measured"),
    ):  # fmt: skip
        if word in confidence:
            return kind
    return "datasheet"


def _link(row: Row) -> list[str]:
    kind = _kind(row["confidence"])
    nominal = "datasheet" if kind == "measured" else kind
    lines = [
        "# Rates are one way. Keys: hardware/README.md",
        f"id: {row['name']}",
        f"class: {'switch' if row['link_class'] == 'switch domain' else row['link_class']}",
        f"scope: {scalar(row['scope'])}",
    ]
    if row["gbs_uni"]:
        lines.append(f"rate: {sourced(rate(row['gbs_uni']), row['source'], nominal)}")
    if row["achieved_gbs"]:
        basis = f"{row['achieved_basis']}; {row['source']}"
        lines.append(f"achieved_rate: {sourced(rate(row['achieved_gbs']), basis, kind)}")
    if row["achievable_fraction"]:
        lines.append(f"achieved_fraction: {number(row['achievable_fraction'])}")
    if row["latency_us"]:
        basis = f"{row['latency_basis']}; {row['source']}"
        lines.append(f"latency: {sourced(number(row['latency_us']) + ' us', basis, kind)}")
    if row["domain_size"]:
        lines.append(f"domain: {number(row['domain_size'])}")
    return _end(lines, row)


def _tier_id(row: Row) -> str:
    medium = row["medium"].split("(")[0]
    return slug(medium if medium.casefold().startswith(row["tier"]) else f"{row['tier']} {medium}")


def _tier(row: Row) -> list[str]:
    kind = _kind(row["confidence"])
    lines = [
        "# Keys: hardware/README.md",
        f"id: {_tier_id(row)}",
        f"tier: {row['tier']}",
        f"medium: {scalar(row['medium'])}",
        f"scope: {scalar(row['scope'])}",
    ]
    for key, column in (
        ("read_rate", "read_gbs"), ("write_rate", "write_gbs"),
        ("achieved_read_rate", "achieved_read_gbs"), ("achieved_write_rate", "achieved_write_gbs"),
    ):  # fmt: skip
        if row[column]:
            lines.append(f"{key}: {sourced(rate(row[column]), row['source'], kind)}")
    if row["latency_us"]:
        latency = f"{number(row['latency_us'])} us"
        lines.append(f"latency: {sourced(latency, 'order of magnitude of one small read', 'estimate')}")
    if row["typical_capacity_gb"]:
        capacity = f"{number(row['typical_capacity_gb'])} GB"
        lines.append(f"capacity: {sourced(capacity, 'typical size, assumed', 'estimate')}")
    if row["usd_per_gb"]:
        price = f"{number(row['usd_per_gb'])} USD"
        lines.append(f"price_per_gb: {sourced(price, row['source'], 'third-party')}")
        lines.append(f"price_basis: {scalar(row['usd_kind'])}")
    return _end(lines, row)


def _end(lines: list[str], row: Row) -> list[str]:
    return [*lines, f"notes: {scalar(row['notes'])}"] if row["notes"] else lines
