"""Catalog documents to the frozen records of `planner.records`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner import units
from planner.errors import Fault
from planner.files.catalog_fields import Fields, finish
from planner.files.catalog_tables import ACCELERATOR_COUNTS, ACCELERATOR_QUANTITIES, STATUSES
from planner.files.nearest import did_you_mean
from planner.files.yamlfile import Document
from planner.records import (
    Accelerator,
    OperatorFit,
    Provenance,
)

DEFAULT_SIBLING = "h100-sxm"
ASSUMED = Provenance("not given; assumed", "", "estimate")
_DEFAULT_NODE = 8
_DEFAULT_UNITS = 132

# The dense peak that the compute fraction of a dtype is of; weight-only formats compute in bf16.
_PEAK_OF_DTYPE = {
    "fp8": "fp8_dense_flops_per_s", "fp8_block": "fp8_dense_flops_per_s", "mxfp4_fp8": "fp8_dense_flops_per_s",
    "nvfp4": "fp4_dense_flops_per_s", "int8_int8": "int8_dense_flops_per_s",
}  # fmt: skip
_DTYPES = ("bf16", "fp8", "fp8_block", "nvfp4", "int8", "int8_int8", "int4", "mxfp4", "mxfp4_fp8")
_ENGINES = ("vllm", "sglang", "tensorrt-llm", "any")
_TRUSTS = ("high", "medium", "low")

# Column of an efficiency table -> field of OperatorFit, and the largest value physics allows for fractions.
_COLUMNS = {
    "dtype": "dtype", "engine": "engine", "kv_dtype": "kv_dtype", "head_dim": "head_dim", "ranks": "ranks",
    "window": "window", "start_up": "start_up_s", "compute_fraction": "compute_fraction",
    "memory_fraction": "memory_fraction", "exponent": "exponent", "sequence": "sequence_s",
    "softmax_tokens": "softmax_tokens", "gather_factor": "gather_factor", "latency": "latency_s",
    "link_fraction": "link_fraction", "trust": "trust",
}  # fmt: skip
_TIMES = ("start_up", "sequence", "latency")
_COUNTS = ("head_dim", "ranks")
_MOST = {"compute_fraction": 1.0, "memory_fraction": 1.0, "link_fraction": 1.1}  # a switch that reduces passes 1
_CHOICES = {"dtype": _DTYPES, "engine": _ENGINES, "kv_dtype": ("", *_DTYPES), "trust": _TRUSTS}


def read_accelerator(document: Document, stem: str) -> tuple[Accelerator, str]:
    """The accelerator of `document` without fits, and the id whose fits it asks to borrow ("" when it names none).

    Raises InputError with every fault of the file: missing or unknown keys, wrong units, values of zero.
    """
    faults: list[Fault] = []
    fields = Fields(document, faults)
    fields.text("kind", choices=("accelerator",))
    name = fields.require_id(stem)
    read: dict[str, Any] = {
        key.field: fields.quantity(key.name, key.kind, key.field, key.example if key.required else "")
        for key in ACCELERATOR_QUANTITIES
    }
    counts: dict[str, Any] = {key.name: fields.count(key.name, key.field) for key in ACCELERATOR_COUNTS}
    sibling = fields.text("efficiency_like")
    if sibling:
        fields.provenance["efficiency_like"] = fields.origin("efficiency_like")
    fields.text("memory_type")
    prices = _prices(fields)
    reading: dict[str, Any] = {
        "vendor": fields.text("vendor"),
        "status": fields.text("status", "shipping", STATUSES),
        "scaleup_name": fields.text("scaleup_name"),
        "notes": fields.text("notes"),
    }
    _check_densities(fields, read)
    fields.refuse_unknown()
    finish(faults)
    assumed_domain = _DEFAULT_NODE if read["scaleup_bytes_per_s"] else 1
    accelerator = Accelerator(
        id=name,
        scaleup_domain=counts["scaleup_domain"] or assumed_domain,
        node_accelerators=counts["node_accelerators"] or _DEFAULT_NODE,
        compute_units=counts["compute_units"] or _DEFAULT_UNITS,
        usd_per_hour=prices,
        fits=(),
        efficiency_like="",
        provenance=_with_assumed(fields.provenance),
        sha256=document.sha256,
        **read,
        **reading,
    )
    return accelerator, sibling


def _prices(fields: Fields) -> dict[str, float]:
    inner = fields.inner("prices")
    if inner is None:
        return {}
    prices = {}
    for basis in inner.values:
        price = inner.quantity(basis, "usd_per_hour", f"usd_per_hour.{basis}")
        if price is not None:
            prices[basis] = price
    fields.provenance |= inner.provenance
    return prices


def _check_densities(fields: Fields, peaks: Mapping[str, float | None]) -> None:
    for dtype in ("bf16", "fp8", "fp4"):
        dense, sparse = peaks[f"{dtype}_dense_flops_per_s"], peaks[f"{dtype}_sparse_flops_per_s"]
        if dense and sparse and dense > sparse:
            fields.fault((f"{dtype}_dense",), f"is larger than {dtype}_sparse; a dense peak is at most the sparse one")


def _with_assumed(provenance: dict[str, Provenance]) -> dict[str, Provenance]:
    """Provenance also of the counts that a short file leaves out."""
    return {**dict.fromkeys(("scaleup_domain", "node_accelerators", "compute_units"), ASSUMED), **provenance}


def read_fits(document: Document, stem: str) -> tuple[OperatorFit, ...]:
    """The operator fits of an efficiency file: per operator one table with named columns.

    Raises InputError with every fault of the file: unknown columns, rows of another length, values past physics.
    """
    faults: list[Fault] = []
    fields = Fields(document, faults)
    fields.text("kind", choices=("efficiency",))
    fields.require_id(stem)
    tables = fields.inner("fits", required=True)
    fits: list[OperatorFit] = []
    if tables is not None:
        for operator in tables.values:
            table = tables.inner(operator)
            if table is not None:
                fits += _table(operator, table)
    fields.refuse_unknown()
    finish(faults)
    return tuple(fits)


def _table(operator: str, table: Fields) -> list[OperatorFit]:
    before = len(table.faults)
    columns = _list(table, "columns")
    rows = _list(table, "rows")
    sources = table.inner("sources")
    named = {engine: str(source) for engine, source in sources.values.items()} if sources else {}
    table.refuse_unknown()
    for index, column in enumerate(columns):
        if column not in _COLUMNS:
            table.fault(("columns", index), f"{units.shown(column)}: {did_you_mean(str(column), _COLUMNS, 'columns')}")
    for needed in ("dtype", "engine"):
        if needed not in columns:
            table.fault(("columns",), f'has no column "{needed}"')
    if len(table.faults) > before:
        return []
    read = [_row(operator, table, columns, index, row) for index, row in enumerate(rows)]
    return [] if len(table.faults) > before else [_sourced(fit, read, named) for fit in read]


def _list(table: Fields, key: str) -> list[Any]:
    table.known[key] = None
    value = table.values.get(key)
    if isinstance(value, list) and value:
        return value
    table.fault((key,), "is missing or not a list")
    return []


def _row(operator: str, table: Fields, columns: list[str], index: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, list) or len(row) != len(columns):
        table.fault(("rows", index), f"has not one value for each of the {len(columns)} columns")
        return {}
    values: dict[str, Any] = {"operator": operator}
    for position, (column, cell) in enumerate(zip(columns, row, strict=True)):
        try:
            values[_COLUMNS[column]] = _cell(column, cell)
        except ValueError as error:
            table.fault(("rows", index, position), f"{column}: {error}")
    return values


def _cell(column: str, cell: Any) -> Any:
    if column in _CHOICES:
        if cell not in _CHOICES[column]:
            raise ValueError(f"{units.shown(cell)} is not possible; want one of {', '.join(_CHOICES[column])}")
        return cell
    if column == "window":
        if not isinstance(cell, bool):
            raise ValueError(f"{units.shown(cell)} is neither true nor false")
        return cell
    if column in _COUNTS:
        return int(units.parse(cell, "count"))
    number = units.parse(cell, "seconds" if column in _TIMES else "ratio")
    if number > _MOST.get(column, number):
        raise ValueError(f"{units.shown(cell)} is more than {_MOST[column]:g}")
    return number


def _sourced(values: dict[str, Any], table: list[dict[str, Any]], sources: Mapping[str, str]) -> OperatorFit:
    """A fit with its source; `any` names the engines whose median it is."""
    engine = values.get("engine", "any")
    source = sources.get(engine, "")
    if engine == "any":
        keys = ("dtype", "kv_dtype", "head_dim", "ranks", "window")
        engines = [
            other["engine"]
            for other in table
            if other.get("engine") != "any" and all(other.get(key) == values.get(key) for key in keys)
        ]
        source = f"median over {', '.join(engines)}" if engines else source
    return OperatorFit(**values, source=source)


def with_fits(
    accelerator: Accelerator, own: tuple[OperatorFit, ...], borrowed: tuple[OperatorFit, ...], sibling: str
) -> Accelerator:
    """`accelerator` with its own fits and, for operators that have none, those of `sibling`.

    Rows of a dtype that the accelerator has no peak for are left out. `efficiency_like` is set, and its provenance
    kept, only when no fit is its own.
    """
    operators = {fit.operator for fit in own}
    loans = tuple(_on_loan(fit, sibling, bool(own)) for fit in borrowed if fit.operator not in operators)
    fits = tuple(fit for fit in (*own, *loans) if _has_peak(accelerator, fit))
    provenance = dict(accelerator.provenance)
    if own:
        provenance.pop("efficiency_like", None)
    else:
        provenance.setdefault("efficiency_like", ASSUMED)
    return replace(
        accelerator,
        fits=fits,
        efficiency_like="" if own else sibling,
        provenance=provenance,
    )


def _has_peak(accelerator: Accelerator, fit: OperatorFit) -> bool:
    return getattr(accelerator, _PEAK_OF_DTYPE.get(fit.dtype, "bf16_dense_flops_per_s")) is not None


def _on_loan(fit: OperatorFit, sibling: str, beside_own: bool) -> OperatorFit:
    """A sibling's row; beside own fits it is of low trust, alone its trust still ranks it among its like."""
    trust = "low" if beside_own else fit.trust
    return replace(fit, trust=trust, source=f"borrowed from {sibling}: {fit.source}")
