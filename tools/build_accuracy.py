"""Write docs/accuracy.md: what is predicted, how well, and where it is bad.

python tools/build_accuracy.py            # write the page
python tools/build_accuracy.py --check    # exit 1 when the page is stale
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import operator_errors  # noqa: E402
from catalog_build import engines  # noqa: E402

from planner.calibration.spread import RIDGE  # noqa: E402
from planner.calibration.validate import Row, predict_rows  # noqa: E402
from planner.cli.validate import finder  # noqa: E402
from planner.files.catalog import Catalog  # noqa: E402
from planner.files.measurements import read_table  # noqa: E402
from planner.render.accuracy import error_cells, error_tables  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
RUNS = ROOT / "tests" / "data" / "measured" / "serving.csv"

# Mean / median error in % that measured kernel tables (114 MB) have on like rows; empty where it is not known.
_TABLES = {
    "colocated/known-cell": ("25 / 16", "49 / 48"),
    "colocated/new-cell": ("12 / 8", ""),
    "colocated/new-model": ("17 / 14", "35 / 34"),
    "disaggregated/known-cell": ("40 / 34", "67 / 75"),
    "disaggregated/new-cell": ("", ""),
}
_TITLES = {
    "colocated/known-cell": "one engine, unseen curves (5 folds over whole curves)",
    "colocated/new-cell": "one engine, a model on an accelerator left out",
    "colocated/new-model": "one engine, a model left out",
    "disaggregated/known-cell": "two pools, unseen curves (5 folds over whole curves)",
    "disaggregated/new-cell": "two pools, an accelerator left out",
}

# Mean and median error in % of TPOT and of TTFT that were wanted of runs left out: at most, and better.
_WANTED = {
    "colocated/known-cell": (((8.5, 4.9), (7, 4)), ((25, 17), (18, 12))),
    "colocated/new-cell": (((12, 9), (9, 6)), None),
    "colocated/new-model": (((14, 10), (10, 7)), ((34, 28), (25, 20))),
    "disaggregated/known-cell": (((13, 9), (9, 5)), ((48, 40), (30, 20))),
}

_INTRODUCTION = """\
# Accuracy

<!-- Written by tools/build_accuracy.py (`make accuracy`); do not edit. -->

Mean time to first token (TTFT) and mean time per output token (TPOT) of public benchmark runs, predicted and measured:
8 models on 6 accelerators (H100, H200, B200, B300, GB200, GB300) with vLLM, SGLang and TensorRT-LLM, as one engine and
as separate pools. Errors are |predicted / measured - 1| in %, written mean / median. Of {runs:,} runs, {left_out} are
predicted but not scored: their labels are ambiguous, or hide replicas or a cap on running requests.

The constants are 20 numbers per engine, times shrunken deviations of measured groups; `tools/fit_engines.py` rebuilds
them from `tests/data/measured/serving.csv`. A model, accelerator or engine that was never measured has no deviation and
falls back to what all runs share.

## Held-out error

Runs are predicted from constants that never saw their curve, their cell or their model. A curve is one deployment and
length pair at several loads. "Tables" is what measured kernel tables (114 MB; our constants take {kilobytes:.0f} kB)
reach on like runs.

| left out | runs | TPOT | TPOT P90, bias | tables' TPOT | TTFT | TTFT P90, bias | tables' TTFT |
|---|---|---|---|---|---|---|---|
"""

_FLOOR = """\
## What cannot be better on these labels

Runs whose labels are all equal, engine version and date apart, differ by {same_tpot_median:.1f} % of TPOT (median; P90
{same_tpot_p90:.0f} %) and {same_ttft_median:.1f} % of TTFT (P90 {same_ttft_p90:.0f} %), over {same} pairs. No
prediction can be closer. What lies between that and the held-out errors is mostly settings that no label records:

- Speculative decoding and overlap scheduling of DeepSeek-R1: whole curves are off together, up and down, and its
  held-out error is twice that of other models.
- SGLang's interval of receiving requests: a first token waits 7 to 10 decode steps in runs of GLM-5 and of all models
  on H200, and in those of DeepSeek-R1 and Qwen3.5-397B on B200 and B300 about 18 below 16 clients and 28 from there on,
  as a polling interval that a script raises would make. A left-out model gets the middle of these and is 40 % off
  either way. Tried without gain on left-out models: other prior widths, prompts that arrive during a poll sharing its
  prefill, steps without prefill in place of mixed ones, no level for accelerators, weights or origins.
- Runs of Llama-3.1-8B on TensorRT-LLM keep one request fewer running than clients, so that their TTFT holds (decode
  time) / N; runs of Qwen3-32B of the same origin do not. A constant of the cell learns it; nothing else can know.
- TPOT of left-out models: 10 % where the model's kernels were never fitted (gpt-oss-120b is 11 % slow, Qwen3.5-397B
  11 % fast, GLM-5 9 % fast), and whole curves that share a switch. Runs with counted kernels would tell these apart.
- Two pools of TensorRT-LLM: decode slots are a setting. Where clients exceed them by an eighth, as at 9 of 8 or 36 of
  32 slots a worker, an eighth of a decode (1 to 10 s) is in each TTFT; where they do not, nothing is.

What would settle it: accepted draft length, `stream-interval`, `scheduler-recv-interval` and `max_batch` of each run.
`planner validate` takes the first of these as columns.

"""

_WEAK = """\
## Where it is bad

- DeepSeek-R1 curves differ by more than 20 % with equal labels: multi-token prediction and overlap scheduling are
  switches that no label records. Its median held-out error of about 11 % is what such labels allow; the accepted draft
  length of each run would settle it.
- TTFT of two pools holds what a router does: some runs wait most of a decode for a slot, others with the same labels do
  not. Trust whether a pool saturates, not the milliseconds.
- TTFT of SGLang: some public runs start with 7 to 9 s at any load, an artefact of their start.
- At 128 clients of a small model the front end of TensorRT-LLM limits; that is not modeled.
- Colocated runs with more than about 90 requests on one H100 of gpt-oss-120b meet a cap that no label records.
- Nothing but NVIDIA accelerators was measured. Others borrow kernel efficiencies; their intervals are twice as wide in
  logs, by judgement.
- A model left out and a new accelerator at once hardly occur in the runs; the same judgement covers them.
- Almost every disaggregated run is of DeepSeek-R1.

"""

_INTERVALS = """\
## Intervals

The 80 % interval of a prediction is the spread of held-out errors of its class: a cell that was measured, a new cell of
a measured model, a new model. Its two ends are quantiles of the class in log, stretched by engine, accelerator and both
together, and in measured cells by kind of model (dense, experts, latent attention) and load. All stretches are fitted
at once to the pinball loss of the quantiles, with a ridge that {ridge:.0f} runs outweigh; no class is narrower than one
that knows more. The share inside above is of the runs that the constants were fitted to and so lies higher than on new
ones. Jackknifed, each group of curves, cells or models judged by intervals that the others gave, it is as below.
Groups of 100 runs and more outside 76 to 88 %, of which a few cells or models are all there is, so that one of them
moves a share by ten points:

{outside}

All shares, in %:

| class | group | runs | TPOT inside | TTFT inside |
|---|---|---|---|---|
"""

_OPERATORS = """\

## Operators

Kernel times by the formulas and fitted constants of the catalog against a slice of the timing tables they were fitted
to (AIConfigurator 0.12.0, `tests/data/facts/measured_points.csv`), low-trust fits left out. `tools/operator_errors.py`
does the same for a table of your own. Wanted is 0.10, better 0.07. Decode MLA misses it: 8-bit latents are priced by
the kernels of bf16 ones, and their compute is bound at 0.8 of the peak; a bound of 1 brings it to 0.10 and left-out
models no nearer. Prefill attention misses it barely: it has no memory term, which short prompts show. W8A8 has no fit
and borrows the fractions of other formats: 44 SmoothQuant products of an A100 are met at 0.09.

| operator | points | median error in log | bias in log |
|---|---|---|---|
"""

_TABLE = """\

## Memory

The KV pools of logged engines are met by the memory rule of their own version (`engine_version`): vLLM 0.19 with
DeepSeek-R1 in NVFP4 on four B200 within 1 % of 62.24 GiB, with Llama-70B in NVFP4 on one within 0.1 % of 119.35 GiB.
Without a version, the rule of the newest one is taken, whose default share of the memory is 0.92 and no longer 0.9:
the same pools are then 7 and 3 % larger.

## A table of your own runs

`planner validate FILE.csv` prints the tables of this page for your runs. One row is one closed loop. Columns: `id`,
`model`, `accelerator`, `engine`, `weights`, `input_tokens_max`, `output_tokens_max`, `concurrency`; `mode` (aggregated
or disaggregated), `length_law` (`uniform...`: lengths drawn evenly from [0.8 L, L]; else all equal), `kv_dtype`; `tp`,
`attention_dp`, `moe_ep`, or the same with `prefill_` and `decode_` in front and `prefill_workers`, `decode_workers`;
`ttft_ms`, `tpot_ms`; `draft_tokens` with `accepted_tokens` or `acceptance_rate`, and `draft_layers`, as
[in a scenario](scenario.md#speculation); `engine_version`, `origin`, `flags`. Other columns are left alone.

`planner calibrate` fits constants to them, and to results of vLLM `bench serve`, SGLang `bench_serving`, AIPerf,
genai-perf, GuideLLM, inference-perf, `trtllm-bench`, genai-bench, llmperf, LMBenchmark, vLLM's multi-turn benchmark,
LLMServingSim's recorder and the llm-d report: summaries, or records of single requests. Times are medians where a file
has them. Where load was open, the requests in flight follow from Little's law.
"""

LEAST_RUNS = 60  # of a group in the table of intervals


def page() -> str:
    fit = json.loads(engines.FIT.read_text(encoding="utf-8"))
    rows = predict_rows(read_table(RUNS), finder((), None))
    size = sum((ROOT / "hardware" / "engines" / f"{name}.yaml").stat().st_size for name in fit["constants"])
    left_out = sum(not row.scored for row in rows)
    text = _INTRODUCTION.format(runs=len(rows), left_out=left_out, kilobytes=size / 1000)
    for name, title in _TITLES.items():
        text += _held_out_row(title, fit["held_out"][name]["all"], _TABLES[name]) + "\n"
    text += "\n" + _wanted_rows(fit["held_out"])
    text += "\n## Held-out error by group\n\nUnseen curves; by engine, accelerator, model and requests in flight N.\n\n"
    text += "| group | runs | TPOT | P90, bias | TTFT | P90, bias |\n|---|---|---|---|---|---|\n"
    for family in ("colocated", "disaggregated"):
        for group, values in sorted(fit["held_out"][f"{family}/known-cell"].items()):
            if group != "all":
                text += _group_row(f"{family}: {group}", values) + "\n"
    text += "\n## Of the runs the constants were fitted to\n\nErrors in %; `inside` the 80 % interval.\n\n"
    text += "| | runs | TPOT mean | median | P90 | bias | inside | TTFT mean | median | P90 | bias | inside |\n"
    text += "|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    for groups in error_tables(rows).values():
        for group, both in groups.items():
            text += f"| {group} | {' | '.join(error_cells(both))} |\n"
    text += "\n" + _FLOOR.format(**repeats(rows)) + _WEAK
    text += _INTERVALS.format(ridge=RIDGE, outside=_outside(fit["inside"]))
    for name, title in _TITLES.items():
        text += _inside_rows(title, fit["inside"][name])
    text += _OPERATORS
    points = operator_errors.read_points(operator_errors.POINTS)
    for name, (count, size_, bias) in operator_errors.table(points, Catalog()).items():
        text += f"| {name} | {count} | {size_:.3f} | {bias:+.3f} |\n"
    return text + _TABLE


def repeats(rows: Sequence[Row]) -> dict[str, float]:
    """How far runs with equal labels lie apart, in %: the noise that no prediction can beat."""
    same: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row.scored:
            one = row.measurement
            lengths = (one.input_tokens, one.output_tokens, one.equal_lengths, one.clients)
            same.setdefault((one.model, one.engine, one.weights, one.origin, one.deployment, *lengths), []).append(row)
    apart: dict[str, list[float]] = {"tpot": [], "ttft": []}
    for group in same.values():
        for first, second in pairwise(group):
            for name, found in apart.items():
                values = [getattr(row.measurement, f"{name}_s") for row in (first, second)]
                found.append(100.0 * (max(values) / min(values) - 1.0))
    found = {f"same_{name}_median": median(values) for name, values in apart.items()}
    found |= {f"same_{name}_p90": quantiles(values, n=10)[-1] for name, values in apart.items()}
    return {**found, "same": len(apart["tpot"])}


def _wanted_rows(held_out: Mapping[str, Mapping[str, list[float]]]) -> str:
    """What was wanted, what is, and whether the aim is met."""
    text = "| left out | | is | at most | aim | aim met |\n|---|---|---|---|---|---|\n"
    for name, both in _WANTED.items():
        values = held_out[name]["all"]
        for quantity, at, wanted in zip(("TPOT", "TTFT"), (1, 5), both, strict=True):
            if wanted is not None:
                found, (most, aim) = values[at : at + 2], wanted
                met = "yes" if all(one <= best for one, best in zip(found, aim, strict=True)) else "no"
                cells = (f"{mean:g} / {middle:g}" for mean, middle in (found, most, aim))
                text += f"| {_TITLES[name]} | {quantity} | {' | '.join(cells)} | {met} |\n"
    return text


def _outside(classes: Mapping[str, Mapping[str, list[float]]]) -> str:
    """Every group of 100 runs or more whose share inside lies outside 76 to 88 %."""
    found = [
        f"- {name} of {group}, {_TITLES[key]}: {share:.1f} %"
        for key, groups in classes.items()
        for group, (runs, *shares) in groups.items()
        for name, share in zip(("TPOT", "TTFT"), shares, strict=True)
        if runs >= 100 and not 76.0 <= share <= 88.0
    ]
    return "\n".join(found) or "- none"


def _inside_rows(title: str, groups: Mapping[str, list[float]]) -> str:
    return "".join(
        f"| {title} | {group} | {runs:,} | {tpot:.0f} | {ttft:.0f} |\n"
        for group, (runs, tpot, ttft) in sorted(groups.items())
        if runs >= LEAST_RUNS
    )


def _held_out_row(title: str, values: list[float], tables: tuple[str, str]) -> str:
    runs, mean, median, p90, bias, ttft_mean, ttft_median, ttft_p90, ttft_bias = values
    return (
        f"| {title} | {runs:,} | {mean:.1f} / {median:.1f} | {p90:.1f}, {bias:+.1f} | {tables[0]} "
        f"| {ttft_mean:.1f} / {ttft_median:.1f} | {ttft_p90:.1f}, {ttft_bias:+.1f} | {tables[1]} |"
    )


def _group_row(title: str, values: list[float]) -> str:
    runs, mean, median, p90, bias, ttft_mean, ttft_median, ttft_p90, ttft_bias = values
    return (
        f"| {title} | {runs:,} | {mean:.1f} / {median:.1f} | {p90:.1f}, {bias:+.1f} "
        f"| {ttft_mean:.1f} / {ttft_median:.1f} | {ttft_p90:.1f}, {ttft_bias:+.1f} |"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the page is current")
    wanted: Mapping[str, bool] = vars(parser.parse_args(arguments))
    text = page()
    if wanted["check"]:
        return int(text != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
