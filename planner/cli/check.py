"""`planner check`: scenarios held to their targets, budgets and checks, for pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.many import answers, usable_cores
from planner.cli.money import currency_of
from planner.cli.options import (
    CatalogOption,
    CheckFormatOption,
    CurrencyOption,
    OutOption,
    QuietOption,
    VerboseOption,
)
from planner.cli.plots import Plots
from planner.cli.size import figure_kinds

if TYPE_CHECKING:
    from planner.files.catalog import Catalog
    from planner.records import Plan, Scenario

FAILED, INPUT, BUG = 1, 2, 3

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one scenario: its result, or what is wrong with it."""

    scenario: str
    result: Document | None = None
    faults: tuple[Document, ...] = ()
    bug: str = ""  # the traceback, when it is our own fault


def check(
    scenarios: Annotated[list[Path], typer.Argument(metavar="SCENARIO...", help="Scenario files, YAML.")],
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="RESULT", help="Earlier result, JSON, that change(...) compares with."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A check at risk fails.")] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 also when a check fails.")] = False,
    witness: Annotated[
        bool, typer.Option("--witness", help="Simulate each plan token step by token step; disagreement fails.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, max=256, show_default="cores", help="Processes at most.")
    ] = None,
    shape: CheckFormatOption = "table",
    out: OutOption = None,
    catalog: CatalogOption = None,
    currency: CurrencyOption = "",
    verbose: VerboseOption = 0,
    quiet: QuietOption = 0,
) -> int:
    """Hold scenarios to their targets, budgets and checks.

    A scenario with a deployment is evaluated, any other is sized. Every limit is one line: value, interval, slack, and
    pass, fail, or at risk, where the value keeps the limit but the bad end of its interval does not. Lines of --witness
    compare the prediction with a simulation.

    Exit code 0 when nothing fails, 1 when a check does, 2 when a scenario cannot be read (the others are still
    checked).
    """
    from planner.cli.formats import write_document

    money = currency_of(currency, shape)
    old = _baseline(baseline)
    kinds = figure_kinds(Plots(), shape)
    work = partial(outcome, catalog=tuple(catalog or ()), baseline=old, witness=witness, kinds=kinds)
    found = list(answers(work, _once(scenarios), jobs or usable_cores(), warm))
    from planner.review.document import gate_document  # only now: processes are told first how to share the cores

    broken = [{"scenario": one.scenario, "faults": list(one.faults)} for one in found if one.result is None]
    result = gate_document([one.result for one in found if one.result is not None], broken, strict)
    shown = _without_faults(result) if shape == "table" else result
    write_document(shown, shape, out, verbose, quiet, money)
    if quiet < 2:
        _tell_faults(found)
    _raise_bug(found)
    if broken:
        return INPUT
    return FAILED if result["verdict"] == "fail" and not exit_zero else 0


def _once(paths: Sequence[Path]) -> list[Path]:
    """Each file once, in the order of first mention."""
    return list(dict.fromkeys(paths))


def _baseline(path: Path | None) -> Document | None:
    if path is None:
        return None
    from planner.files.results import load_result

    return load_result(path)


def _without_faults(result: Document) -> Document:
    """The document with the broken scenarios by name only: what is wrong with them goes to stderr."""
    return {**result, "broken": [{**one, "faults": []} for one in result["broken"]]}


def _tell_faults(found: Sequence[Outcome]) -> None:
    """Faults of the input for people; the error that ends the command tells a bug."""
    from planner.cli.streams import tell
    from planner.render.gate import fault_text

    for one in found:
        for fault in () if one.bug else one.faults:
            tell(fault_text(fault))


def _raise_bug(found: Sequence[Outcome]) -> None:
    bugs = [one for one in found if one.bug]
    if bugs:
        raise RuntimeError(f"{bugs[0].scenario}: {bugs[0].faults[0]['text']}\n{bugs[0].bug}")


def warm() -> None:
    """Load what every scenario needs, so that processes forked from here share it."""
    import scipy.special  # noqa: F401

    import planner.files.scenario
    import planner.review.figures
    import planner.sizing  # noqa: F401


@cache
def _opened(dirs: tuple[Path, ...]) -> Catalog:
    from planner.files.catalog import Catalog

    return Catalog(dirs)


def outcome(
    path: Path, catalog: tuple[Path, ...], baseline: Document | None, witness: bool, kinds: tuple[str, ...]
) -> Outcome:
    """Read, compute and judge one scenario; whatever goes wrong with it is told and stops no other."""
    from planner.errors import InputError

    try:
        return Outcome(str(path), result=_result(path, catalog, baseline, witness, kinds))
    except InputError as error:
        faults = ({"path": f.path, "line": f.line, "column": f.column, "text": f.message} for f in error.faults)
        return Outcome(str(path), faults=tuple(faults))
    except Exception as error:
        import traceback

        text = f"internal error: {type(error).__name__}: {error}"
        fault = {"path": str(path), "line": 0, "column": 0, "text": text}
        return Outcome(str(path), faults=(fault,), bug="".join(traceback.format_exception(error)))


def _result(
    path: Path, catalog: tuple[Path, ...], baseline: Document | None, witness: bool, kinds: tuple[str, ...]
) -> Document:
    from planner.cli.reading import judge, placed, plan_of
    from planner.files.scenario import load_scenario

    scenario = load_scenario(path, catalog, lambda dirs: _opened(tuple(dirs)), judge)
    old = _of_baseline(scenario, baseline)
    plan = plan_of(scenario, path)
    from planner.review.figures import drawable

    result = drawable(plan, kinds, baseline=old)
    with placed(path):
        return _witnessed(plan, result) if witness else result


def _witnessed(plan: Plan, result: Document) -> Document:
    """The result with a simulation beside it, where there is anything to simulate."""
    from planner.review.checks import checks_of
    from planner.review.witness import can_be_simulated, with_witness
    from planner.simulation.simulate import simulate

    if plan.deployment is None or not can_be_simulated(result):
        return result
    return with_witness(result, checks_of(plan.scenario), simulate(plan.scenario, plan.deployment))


def _of_baseline(scenario: Scenario, baseline: Document | None) -> Document | None:
    """The earlier result of this scenario. InputError where a change has nothing to compare with."""
    from planner.errors import Fault, InputError
    from planner.files.results import result_of
    from planner.review.checks import needs_baseline

    found = result_of(baseline, scenario.inputs[0].path, scenario.name) if baseline is not None else None
    needed = needs_baseline(scenario.checks) if found is None else ()
    if not needed:
        return found
    reason = "needs --baseline RESULT.json" if baseline is None else "the baseline holds no result of this scenario"
    raise InputError([Fault(f'"{one.text}": {reason}', one.path, one.line, one.column) for one in needed])
