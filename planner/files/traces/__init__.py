"""Request traces: arrival times, lengths and prompt blocks from public formats, told apart by what they hold.

    source, tables     lines read in pieces; CSV and JSON lines of one request each
    agents, servegen   agent sessions (a file or a folder of them), and clients given as rates and laws
    formats, rows      what columns are called, cells into arrays, malformed rows into faults
    blocks, repair     block ids and sizes; failed requests, order and ticks of time

A row without output is a failed request: it is dropped and counted. Times that come in ticks are spread evenly over
their tick, because sixteen requests that share a three-second tick did not arrive at one instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.files.lengths import from_rows
from planner.files.reading import sha256
from planner.files.traces.blocks import block_tokens, chain_notes, chosen, numbered, with_own_ids
from planner.files.traces.formats import KNOWN, SERVEGEN, SESSION
from planner.files.traces.reading import read_all
from planner.files.traces.repair import clocked, late_rows, rate_per_s, rescaled, served_requests, spread_ties
from planner.files.traces.rows import Ints, Rows
from planner.records import Arrivals, Floats, Note, PromptBlocks, Trace
from planner.units import format_rate, format_seconds

__all__ = ["KNOWN", "STAGGER_S", "Trace", "load_trace", "load_traces", "rate_per_s", "rescaled", "spread_ties"]

STAGGER_S = 60.0  # from the start of one session file to that of the next, unless said


def load_trace(path: Path) -> Trace:
    """Read one trace, as `load_traces` does."""
    return load_traces([path])


def load_traces(
    paths: Sequence[Path], *, given_block_tokens: int | None = None, stagger_s: float | None = None
) -> Trace:
    """Read files of one format as one trace: rows of all files on one clock, block ids of one name space.

    Formats: Azure 2023, 2024 and 2025 CSV, BurstGPT v1 and v2 CSV, Vidur CSV, ``time_s,input_tokens,output_tokens``
    CSV, Mooncake, RAGPulse and TraceLab JSON lines, agent sessions (a JSON file each, or a folder of them), ServeGen
    clients, and CSV with lengths only. Sessions have clocks and ids of their own: each starts `stagger_s` (60 s unless
    given) after the one before.

    Returns
    -------
    Trace
        Arrivals in seconds from the first request, in time order; the law of lengths; notes on what was repaired.

    Raises
    ------
    InputError
        When a file cannot be read as one of these; every malformed row up to ten with its line, then their number.
        When formats differ, a block size contradicts lengths, or an option has nothing to act on.
    """
    files = read_all(tuple(paths))
    form = files[0].form
    _check_options(files, given_block_tokens, stagger_s)
    step_s = (STAGGER_S if stagger_s is None else stagger_s) if form is SESSION else 0.0
    size, notes = _block_size(files, given_block_tokens)
    notes += [note for rows in files for note in (*rows.notes, *late_rows(rows.time_s))]
    merged = _merged(with_own_ids(files), step_s)
    path = str(paths[0])
    order, dropped = _order(merged, path)
    inputs, outputs = merged.input_tokens[order], merged.output_tokens[order]
    arrivals, repairs = _arrivals(merged, order, inputs, outputs, path)
    blocks = _blocks(merged, order, size)
    trace = Trace(
        arrivals=arrivals,
        lengths=from_rows(inputs, outputs),
        notes=(*dropped, *repairs, *notes, *(chain_notes(blocks) if blocks else ())),
        sha256=files[0].sha256 if len(files) == 1 else sha256("".join(rows.sha256 for rows in files).encode()),
        format=form.name,
        input_tokens=inputs,
        output_tokens=outputs,
        blocks=blocks,
        cached_tokens=None if merged.cached_tokens is None else merged.cached_tokens[order],
    )
    name = paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"
    return replace(trace, notes=(_summary(trace, name, len(files), step_s), *trace.notes))


def _order(rows: Rows, path: str) -> tuple[Ints, list[Note]]:
    """Places of the served requests in order of time, or of the file where there is none."""
    served, notes = served_requests(rows.input_tokens, rows.output_tokens, path)
    order = np.flatnonzero(served)
    return (order[np.argsort(rows.time_s[order], kind="stable")] if rows.form.time else order), notes


def _arrivals(
    rows: Rows, order: Ints, inputs: Floats, outputs: Floats, path: str
) -> tuple[Arrivals | None, list[Note]]:
    if not rows.form.time:
        return None, []
    time_s, notes = clocked(rows.time_s[order], path, ticks=rows.form is not SERVEGEN)
    return Arrivals(time_s, inputs, outputs, float(time_s[-1])), notes


def _check_options(files: list[Rows], given_block_tokens: int | None, stagger_s: float | None) -> None:
    form = files[0].form
    if stagger_s is not None and form is not SESSION:
        raise InputError(f"--stagger is for session files, whose clocks start at 0; {form.name} has a clock of its own")
    if given_block_tokens is not None and all(rows.blocks is None for rows in files):
        raise InputError(f"--block-tokens: {files[0].path} ({form.name}) has no block ids")


def _block_size(files: list[Rows], given: int | None) -> tuple[int | None, list[Note]]:
    """One size for all files."""
    found = [block_tokens(rows, given) for rows in files if rows.blocks is not None]
    sizes = {size for size, _ in found}
    if len(sizes) > 1:
        listed = " and ".join(str(size) for size in sorted(filter(None, sizes)))
        raise InputError(f"{files[0].path} and the other files have blocks of {listed} tokens; give files of one size")
    return (sizes.pop(), found[0][1]) if found else (None, [])


def _merged(files: list[Rows], step_s: float) -> Rows:
    """Rows of all files one after another; with the k-th file k steps later."""
    if len(files) == 1:
        return files[0]

    def joined(name: str) -> NDArray[Any] | None:
        parts = [getattr(rows, name) for rows in files]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    return replace(
        files[0],
        time_s=np.concatenate([rows.time_s + place * step_s for place, rows in enumerate(files)]),
        input_tokens=np.concatenate([rows.input_tokens for rows in files]),
        output_tokens=np.concatenate([rows.output_tokens for rows in files]),
        blocks=joined("blocks"),
        sizes=joined("sizes"),
        cached_tokens=joined("cached_tokens"),
    )


def _blocks(rows: Rows, order: Ints, size: int | None) -> PromptBlocks | None:
    if rows.blocks is None or rows.sizes is None:
        return None
    ids, offsets = chosen(rows.blocks, rows.sizes, order)
    return PromptBlocks(numbered(ids), offsets, size)


def _summary(trace: Trace, name: str, files: int, step_s: float) -> Note:
    count, mean_in, mean_out = trace.input_tokens.size, trace.input_tokens.mean(), trace.output_tokens.mean()
    if trace.arrivals is None:
        return Note("info", f"trace {name}: {count:,} requests, lengths only")
    apart = f", {files} sessions that start {format_seconds(step_s)} apart" if step_s and files > 1 else ""
    text = (
        f"trace {name} ({trace.format}{apart}): {count:,} requests in {format_seconds(trace.arrivals.duration_s)}, "
        f"{format_rate(rate_per_s(trace.arrivals))}, mean input {mean_in:,.0f} and output {mean_out:,.0f} tokens"
    )
    return Note("info", text)
