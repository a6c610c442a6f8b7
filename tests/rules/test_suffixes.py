"""Names of float fields and parameters end with their unit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "planner"

UNITS = (
    "_s",
    "_ms",
    "_bytes",
    "_flops",
    "_tokens",
    "_fraction",
    "_fractions",
    "_factor",
    "_factors",
    "_usd",
    "_watts",
    "_joules",
    "_erlangs",
    "_per_token",
    "_per_day",
    "_per_hour",
    "_per_mtok",
    "_per_output_token",
    "_per_request",
    "_per_sequence",
)

# Words that carry their unit by themselves, alone or last in a name: ratios, counts, degrees, and values whose unit is
# that of what they are passed with.
PLAIN = {
    "utilization",  # 1
    "coverage",  # 1
    "exponent",  # 1
    "multiplier",  # 1
    "probability",  # 1
    "scv",  # squared coefficient of variation, 1
    "weights",  # probabilities of atoms
    "batch",  # sequences
    "steps",  # steps
    "requests",  # requests
    "replicas",  # replicas
    "budgets",  # tokens of a step
    "elements",  # elements
    "dim",  # elements
    "width",  # elements
    "intermediate",  # elements
    "tp",  # ranks
    "pp",  # ranks
    "ep",  # ranks
    "dp",  # ranks
    "value",  # in the unit beside it
    "low",  # ends of the range of a value
    "high",
    "values",  # of any unit
    "limit",  # in the unit beside it
    "mean",  # of any unit
    "means",  # of any unit
    "variances",  # of any unit, squared
    "clients",  # clients
    "users",  # users
    "accelerators",  # accelerators, and parts of them where a rate of work is shared out
    "more",  # of any unit
    "peak",  # in the unit of what is divided by it
}
RATIOS = {"IntervalFactors"}  # records that hold factors only, and say so in their name
STATISTICS = ("_mean", "_variance", "_max", "_min", "_p50", "_p99", "_low", "_high")
FLOATS = ("float", "Floats", "ArrayLike")


def named(annotation: ast.expr | None) -> bool:
    """Whether an annotation is a float, an array of floats, or optional."""
    return annotation is not None and any(part.strip() in FLOATS for part in ast.unparse(annotation).split("|"))


def with_unit(name: str) -> bool:
    bare = name
    for statistic in STATISTICS:
        bare = bare.removesuffix(statistic)
    return bare.rpartition("_")[2] in PLAIN or f"_{bare}".endswith(UNITS)


def fields(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name not in RATIOS:
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and named(item.annotation):
                    yield item.target.id, item.lineno


def parameters(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if named(argument.annotation):
                    yield argument.arg, argument.lineno


def unnamed(path: Path, found: Iterator[tuple[str, int]]) -> list[str]:
    return [f"{path.name}:{line}: {name}" for name, line in found if not with_unit(name)]


def test_record_fields_end_with_their_unit() -> None:
    faults = []
    for path in sorted((ROOT / "records").glob("*.py")):
        faults += unnamed(path, fields(ast.parse(path.read_text(encoding="utf-8"))))
    assert faults == []


@pytest.mark.parametrize("room", ["roofline", "serving"])
def test_parameters_of_formulas_end_with_their_unit(room: str) -> None:
    faults = []
    for path in sorted((ROOT / room).glob("*.py")):
        faults += unnamed(path, parameters(ast.parse(path.read_text(encoding="utf-8"))))
    assert faults == []


def test_the_rule_sees_a_name_without_a_unit() -> None:
    tree = ast.parse("def step(time: float, memory_bytes: Floats, context: float | None, tp: int): ...")
    assert [name for name, _ in parameters(tree) if not with_unit(name)] == ["time", "context"]
