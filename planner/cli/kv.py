"""`planner kv`: where a plan's prompts find their KV, and when they no longer do."""

from __future__ import annotations

from functools import partial

from planner.cli.money import currency_of, in_currency, told
from planner.cli.options import CatalogOption, CurrencyOption, FormatOption, OutOption, QuietOption, VerboseOption
from planner.cli.plots import PlotOption, check_plots
from planner.cli.size import NOTHING_FITS, ScenarioArgument

TRACES = (".jsonl", ".csv", ".gz")


def kv(
    scenario: ScenarioArgument,
    shape: FormatOption = "table",
    out: OutOption = None,
    plot: PlotOption = None,
    catalog: CatalogOption = None,
    currency: CurrencyOption = "",
    verbose: VerboseOption = 0,
    quiet: QuietOption = 0,
) -> int:
    """Size the places that keep KV, and find the load at which their hits are lost.

    For memory and every tier: capacity, hits, rates needed and there, fetching against computing, what it adds to a
    first token, accelerators and USD per hour saved. How the answer moves with size and load, what cache-aware routing
    is worth, and the memory beside the decode. The workload must say what its prompts share: a trace with block ids,
    sessions, or a prefix_hit_ratio.

    Exit code 0 when the plan holds, 1 when nothing fits, 2 when the input is at fault.
    """
    from planner.cli.formats import write
    from planner.cli.reading import placed
    from planner.cli.streams import tell
    from planner.errors import InputError
    from planner.files.scenario import load_scenario

    if scenario.suffix.lower() in TRACES:
        text = "`planner trace show` has its curve; for tiers give a scenario with workload: {trace: {path: ...}}"
        raise InputError(f"{scenario} is a trace by its name, not a scenario: {text}")
    plots = check_plots(plot, None, ["tiers"], inputs=[scenario], out=out, shape=shape)
    money = currency_of(currency, shape)
    asked = load_scenario(scenario, tuple(catalog or ()))
    with placed(scenario):
        from planner.sizing.kv import kv as report_of  # only now: faults of the files come without the formulas

        report = report_of(asked)
    from planner.render.figures.reuse import kv_figures
    from planner.render.kv import to_text
    from planner.render.table import verdict_line
    from planner.review.kv import kv_document

    result = kv_document(report)
    figures = plots.draw(kv_figures, result, f"planner kv: {result['inputs']['scenario']}")
    write(result, shape, out, partial(to_text, notes=quiet < 1), {}, quiet, money)
    plots.show(figures)
    if out is not None and quiet < 2:
        tell(f"{told(verdict_line(in_currency(result, money)), money)}  ({out})")
    return NOTHING_FITS if report.plan.verdict == "infeasible" and asked.deployment is None else 0
