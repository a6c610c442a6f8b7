"""What changed between two results and why: inputs first, then catalog values, then results.

A result that moved is `improved`, `regressed` or, where neither direction is better, `changed`; what stands on one side
only is `added` or `removed`. Where a single input can move a result, it is named as the cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from planner import __version__
from planner.metrics import POOLS
from planner.review.result import is_number, scenario_name

Document = dict[str, Any]
Reading = Mapping[str, Any]
Flat = dict[str, Any]

SCHEMA_VERSION = 1
SAME = 1e-9  # relative: what rounding alone may move
_SHAPE = ("mode", "accelerator", "replicas", "tp", "pp", "ep", "dp", "max_batch", "token_budget")

# Of a result's parts: what is compared, by the first name of a path.
_RESULTS = ("verdict", "plan", "prediction", "usd_per_mtok", "energy", "kv", "memory_per_accelerator")
_SKIPPED = ("prediction.intervals.", "plan.price_basis", "kv.tiers")
_LOWER = (
    "prediction.ttft_s.", "prediction.itl_s.", "prediction.tpot_s.", "prediction.e2e_s.", "prediction.ttft_parts_s.",
    "prediction.decode_step_parts_s.", "plan.accelerators", "plan.usd_per_hour", "usd_per_mtok.", "energy.",
    "kv.transfer.mean_s", "kv.bytes_per_token", "kv.state_bytes_per_sequence",
)  # fmt: skip
_HIGHER = ("prediction.requests_per_s_max", "prediction.surplus_fraction", "kv.capacity_tokens")
_UNITS = (
    ("_flops_per_s", "FLOP/s"), ("_bytes_per_s", "bytes/s"), ("requests_per_s_max", "requests/s"),
    ("requests_per_s", "requests/s"), ("_tokens_per_s", "tokens/s"), ("usd_per_mtok", "USD/Mtok"),
    ("usd_per_hour", "USD/h"), ("_watts", "W"), ("watts", "W"), ("_bytes", "bytes"), ("_tokens", "tokens"),
    ("_fraction", "1"), ("utilization", "1"), ("_s", "s"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One value on both sides. `kind` is improved, regressed, changed, added or removed; `cause` names an input."""

    field: str
    kind: str
    old: Any
    new: Any
    unit: str
    change_fraction: float | None
    cause: str | None = None
    source: str | None = None


def diff_document(old: Reading, new: Reading, old_name: str = "old", new_name: str = "new") -> Document:
    """Return what changed from one result document to another, as plain values in a defined order."""
    before, after = flat(old), flat(new)
    inputs = _input_changes(old, new, before, after)
    catalog = _catalog_changes(old, new, before, after)
    explained = [*inputs, *catalog]
    results = [
        replace(change, cause=_cause(change.field, explained, _same_shape(old, new)))
        for change in _changes(before, after, _is_result)
    ]
    notes = _note_changes(old, new)
    moved = _moved_files(old, new)
    kinds = [change.kind for change in results]
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "kind": "diff",
        "old": _side(old, old_name),
        "new": _side(new, new_name),
        "verdict": _verdict(kinds, bool(explained or notes or moved)),
        "inputs": [asdict(change) for change in inputs],
        "catalog_changed": moved,
        "catalog": [asdict(change) for change in catalog],
        "results": [asdict(change) for change in sorted(results, key=_weight)],
        "notes": notes,
        "counts": {kind: kinds.count(kind) for kind in ("improved", "regressed", "changed", "added", "removed")},
    }


def diffs_document(old: Sequence[Reading], new: Sequence[Reading], old_name: str, new_name: str) -> Document:
    """One difference, or one per scenario where a file holds many, paired by name."""
    if len(old) == len(new) == 1:
        return diff_document(old[0], new[0], old_name, new_name)
    ours, theirs = ({scenario_name(one): one for one in side} for side in (old, new))
    diffs = [diff_document(one, theirs[key], old_name, new_name) for key, one in ours.items() if key in theirs]
    added, removed = [key for key in theirs if key not in ours], [key for key in ours if key not in theirs]
    verdicts = [one["verdict"] for one in diffs] + ["changed"] * bool(added or removed)
    order = ("regressed", "improved", "changed", "unchanged")
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "planner", "version": __version__},
        "kind": "diffs",
        "verdict": min(verdicts, key=order.index, default="unchanged"),
        "diffs": diffs,
        "added": added,
        "removed": removed,
    }


def _side(result: Reading, name: str) -> Document:
    return {
        "name": name,
        "scenario": result["inputs"]["scenario"],
        "verdict": result["verdict"],
        "tool_version": result["tool"]["version"],
        "files": result["inputs"]["files"],
    }


def _verdict(kinds: Sequence[str], elsewhere: bool) -> str:
    """One word for the whole: a regression outweighs everything."""
    for kind in ("regressed", "improved"):
        if kind in kinds:
            return kind
    return "changed" if kinds or elsewhere else "unchanged"


def _weight(change: Change) -> tuple[int, int]:
    """Verdict first, then what got worse, then the order of a report."""
    order = {"regressed": 1, "improved": 2, "changed": 3, "removed": 4, "added": 5}
    part = change.field.partition(".")[0]
    rank = _RESULTS.index(part) if part in _RESULTS else len(_RESULTS)
    return (0 if change.field == "verdict" else order[change.kind], rank)


# ------------------------------------------------------------------------------------------------------------ flatten


def flat(value: Any, path: str = "") -> Flat:
    """Every leaf of a document by its dotted path; items of lists by what identifies them, else by their place."""
    if isinstance(value, Mapping):
        items = [(f"{path}.{key}" if path else str(key), part) for key, part in value.items()]
    elif isinstance(value, list):
        items = [(f"{path}[{_identity(part, index)}]", part) for index, part in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for key, part in items for name, leaf in flat(part, key).items()}


def _identity(item: Any, index: int) -> str:
    if isinstance(item, Mapping):
        if "metric" in item and "statistic" in item:
            return f"{item['metric']}.{item['statistic']}"
        for key in ("id", "name", "path", "tier"):
            if isinstance(item.get(key), str):
                return str(item[key])
    return str(index)


def _changes(before: Flat, after: Flat, wanted: Any) -> Iterator[Change]:
    for field in dict.fromkeys((*before, *after)):
        if wanted(field):
            change = _change(field, before.get(field), after.get(field))
            if change is not None:
                yield change


def _change(field: str, old: Any, new: Any) -> Change | None:
    if _equal(old, new):
        return None
    fraction = None
    if is_number(old) and is_number(new) and old:
        fraction = (new - old) / abs(old)
    return Change(field, _kind(field, old, new), old, new, unit_of(field), fraction)


def _equal(old: Any, new: Any) -> bool:
    if is_number(old) and is_number(new):
        return math.isclose(old, new, rel_tol=SAME, abs_tol=1e-15)
    return bool(old == new)


def _kind(field: str, old: Any, new: Any) -> str:
    """A latency that loses its bound regresses: it is null in the document."""
    if field == "verdict":
        return "improved" if new == "feasible" else "regressed"
    better = -1 if field.startswith(_LOWER) else 1 if field.startswith(_HIGHER) else 0
    unbounded = field.startswith(("prediction.ttft_s.", "prediction.itl_s.", "prediction.tpot_s.", "prediction.e2e_s."))
    if old is None or new is None:
        if unbounded:
            return "regressed" if new is None else "improved"
        return "added" if old is None else "removed"
    if not better or not (is_number(old) and is_number(new)):
        return "changed"
    return "improved" if (new - old) * better > 0 else "regressed"


def unit_of(field: str) -> str:
    """The unit that a path ends with, from the last of its names that states one; empty for counts and words."""
    if field.startswith("inputs.targets["):
        return "s"
    if field.startswith("inputs.budgets["):
        name = field[len("inputs.budgets[") :].partition("]")[0]
        return next((unit for ending, unit in _UNITS if name.startswith(ending)), "")
    names = [part.partition("[")[0] for part in field.split(".")]
    for name in reversed([name for name in names if name not in ("value", "limit")]):
        for ending, unit in _UNITS:
            if name == ending or (name.endswith(ending) and "_per_token" not in name):
                return unit
    return "bytes" if "bytes_per_token" in field else ""


def _is_result(field: str) -> bool:
    return field.partition(".")[0] in _RESULTS and not field.startswith(_SKIPPED)


# ------------------------------------------------------------------------------------------------- inputs and catalog


def _input_changes(old: Reading, new: Reading, before: Flat, after: Flat) -> list[Change]:
    """What the user wrote differently; a file's bytes only where nothing that was read from it differs."""
    found = [*_candidates(old, new), *_changes(before, after, _is_input)]
    limits = [_whole_limit(change) for change in found]
    if limits:
        return limits
    return [
        Change(f"inputs.files[{path}]", "changed", ours, theirs, "", None)
        for path, (ours, theirs) in _files(old, new).items()
        if ours and theirs and ours != theirs
    ]


def _whole_limit(change: Change) -> Change:
    """A target or budget by its name alone."""
    if change.field.startswith(("inputs.targets[", "inputs.budgets[")):
        return replace(change, field=change.field.rpartition("]")[0] + "]")
    return change


def _is_input(field: str) -> bool:
    if field in ("inputs.model.id", "inputs.model.weight_dtype", "inputs.model.kv_dtype", "inputs.engine.id"):
        return True
    if field.startswith(("inputs.targets[", "inputs.budgets[")):
        return field.endswith((".limit_s", ".limit"))
    first = field.removeprefix("inputs.").partition(".")[0].partition("[")[0]
    skipped = ("scenario", "files", "model", "engine", "accelerators", "targets", "budgets")
    return field.startswith("inputs.") and first not in skipped and field != "inputs.workload.description"


def _candidates(old: Reading, new: Reading) -> Iterator[Change]:
    ours, theirs = (", ".join(item["id"] for item in side["inputs"]["accelerators"]) for side in (old, new))
    if ours != theirs:
        yield Change("inputs.accelerators", "changed", ours, theirs, "", None)


def _files(old: Reading, new: Reading) -> dict[str, tuple[str | None, str | None]]:
    ours, theirs = ({file["path"]: file["sha256"] for file in side["inputs"]["files"]} for side in (old, new))
    return {path: (ours.get(path), theirs.get(path)) for path in dict.fromkeys((*ours, *theirs))}


def _entries(side: Reading) -> dict[tuple[str, str], Reading]:
    """Everything a result took from the catalog, by kind and id."""
    inputs = side["inputs"]
    found = {("model", inputs["model"]["id"]): inputs["model"], ("engine", inputs["engine"]["id"]): inputs["engine"]}
    return found | {("accelerator", item["id"]): item for item in inputs["accelerators"]}


def _moved_files(old: Reading, new: Reading) -> list[Document]:
    """Catalog entries of both sides whose content has another hash."""
    ours, theirs = _entries(old), _entries(new)
    return [
        {"kind": kind, "id": name, "old_sha256": entry["sha256"], "new_sha256": theirs[kind, name]["sha256"]}
        for (kind, name), entry in ours.items()
        if (kind, name) in theirs and entry["sha256"] != theirs[kind, name]["sha256"]
    ]


def _catalog_changes(old: Reading, new: Reading, before: Flat, after: Flat) -> list[Change]:
    """Values of entries that both sides use; their source is that of the new side."""
    kept = set(_entries(old)) & set(_entries(new))
    prefixes = tuple(
        f"inputs.accelerators[{name}]." if kind == "accelerator" else f"inputs.{kind}." for kind, name in sorted(kept)
    )

    def wanted(field: str) -> bool:
        last = field.rpartition(".")[2]
        known = last in ("id", "sha256", "source", "retrieved", "kind", "weight_dtype", "kv_dtype")
        applied = field.startswith("inputs.engine.applied.")  # follows from the constants and what they apply to
        return bool(prefixes) and field.startswith(prefixes) and not known and not applied

    found = [*_tool(old, new)]
    for change in _changes(before, after, wanted):
        source = after.get(change.field.removesuffix(".value") + ".source")
        found.append(replace(change, field=change.field.removesuffix(".value"), source=source))
    return found


def _tool(old: Reading, new: Reading) -> Iterator[Change]:
    ours, theirs = old["tool"]["version"], new["tool"]["version"]
    if ours != theirs:
        yield Change("tool.version", "changed", ours, theirs, "", None)


# -------------------------------------------------------------------------------------------------------------- causes


def _same_shape(old: Reading, new: Reading) -> bool:
    """Whether both plans are the same deployment, so that only what it runs under has changed."""
    return bool(_shape(old) == _shape(new))


def _shape(side: Reading) -> Any:
    plan = side["plan"]
    if plan is None:
        return None
    pools = {name: [plan[name].get(key) for key in _SHAPE] for name in POOLS if name in plan}
    return plan["mode"], pools


def _cause(field: str, changes: Sequence[Change], same_shape: bool) -> str | None:
    """The one change that can have moved a result; None where several can, or none."""
    able = [change.field for change in changes if _can_move(change.field, field, same_shape)]
    return able[0] if len(able) == 1 else None


def _can_move(cause: str, field: str, same_shape: bool) -> bool:
    if field.startswith(("kv.bytes_per_token", "kv.state_bytes_per_sequence")):
        return cause.startswith(("inputs.model.", "tool."))
    if not same_shape:
        return True
    price, limit = ".usd_per_hour." in cause, cause.startswith(("inputs.targets[", "inputs.budgets["))
    power = cause.endswith(("tdp_watts", "all_in_watts"))
    if field == "verdict":
        return not power
    if field.startswith("plan.usd_per_hour"):
        return price or cause.startswith("tool.")
    if field.startswith("energy.watts"):
        return power or cause.startswith("tool.")
    if field.startswith("usd_per_mtok"):
        return not limit and not power
    if field.startswith("energy."):
        return not limit and not price
    return not (price or limit or power)


def _note_changes(old: Reading, new: Reading) -> list[Document]:
    ours, theirs = ({note["text"]: note["level"] for note in side["notes"]} for side in (old, new))
    gone = [{"kind": "removed", "level": level, "text": text} for text, level in ours.items() if text not in theirs]
    come = [{"kind": "added", "level": level, "text": text} for text, level in theirs.items() if text not in ours]
    return [*come, *gone]
