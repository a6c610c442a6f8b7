"""The `workload:` section to a record: a rate with length laws, or a trace, and everything that cannot be combined."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from pathlib import Path

import numpy as np

from planner import units
from planner.errors import Fault, InputError
from planner.files import lengths
from planner.files.schema import LengthKeys, PeakKeys, SessionKeys, TraceKeys, WorkloadKeys
from planner.files.sessions import session_workload
from planner.files.traces import Trace, load_trace, rate_per_s, rescaled
from planner.files.yamlfile import Document, FieldPath
from planner.records import Floats, InputFile, Lengths, Note, Workload

_RATE = "requests: with a rate, e.g. 12 /s"


class WorkloadReader:
    """Reads one section; `faults`, `notes` and `inputs` fill as it goes. `broken` are places already reported.

    `most_tokens` : context of the model, 0 where it is not known.
    """

    def __init__(
        self, document: Document, keys: WorkloadKeys, folder: Path, broken: Set[FieldPath], most_tokens: int = 0
    ) -> None:
        self.document = document
        self.keys = keys
        self.folder = folder
        self.broken = broken
        self.most_tokens = most_tokens
        self.faults: list[Fault] = []
        self.notes: list[Note] = []
        self.inputs: list[InputFile] = []

    def read(self) -> Workload | None:
        """The workload, or None after a fault."""
        peak = self._peak()
        workload = self._sent(peak)
        return None if self.faults or workload is None else self._cached(workload)

    def _sent(self, peak: PeakKeys | None) -> Workload | None:
        if any(path[:2] == ("workload", "sessions") for path in self.broken):
            return None
        if self.keys.sessions is not None:
            return self._in_sessions(self.keys.sessions)
        return self._stated(peak) if self.keys.trace is None else self._traced(self.keys.trace, peak)

    def _in_sessions(self, keys: SessionKeys) -> Workload | None:
        """Sessions bring their own rate, lengths and reuse."""
        for name in ("requests", "arrivals", "peak", "input_tokens", "output_tokens", "trace", "prefix_hit_ratio"):
            if getattr(self.keys, name) is not None:
                self._fault("stands beside sessions:, which has its own; keep one", name)
        workload, notes = session_workload(keys, self.most_tokens)
        self.notes += notes
        return workload

    def _cached(self, workload: Workload) -> Workload:
        """With the stated share of its prompt tokens in a cache."""
        ratio = self.keys.prefix_hit_ratio
        if not ratio:
            return workload
        text = f"{workload.description}, {units.format_fraction(ratio)} of prompt tokens in a cache"
        return replace(workload, prefix_hit_fraction=ratio, description=text, blocks=None)

    def _fault(self, message: str, *path: str) -> None:
        self.faults.append(self.document.fault(("workload", *path), message))

    def _lacks(self, name: str) -> bool:
        """Whether a key is neither there nor already reported as broken."""
        return getattr(self.keys, name) is None and ("workload", name) not in self.broken

    def _peak(self) -> PeakKeys | None:
        nested = self.keys.arrivals.peak if self.keys.arrivals else None
        if nested and self.keys.peak:
            self._fault("stands here and under arrivals; keep one", "peak")
        return self.keys.peak or nested

    def _stated(self, peak: PeakKeys | None) -> Workload | None:
        """A rate, and independent lengths of prompts and outputs."""
        if ("workload", "trace") in self.broken:
            return None
        if self._lacks("requests"):
            self._fault(f"needs {_RATE}, or trace: with a file")
        for name in ("input_tokens", "output_tokens"):
            if self._lacks(name):
                self._fault(f"needs {name}:, e.g. 500 or {{mean: 500, p99: 2000}}, or trace: with a file")
        inputs, outputs, rate = self.keys.input_tokens, self.keys.output_tokens, self.keys.requests
        if rate is None or inputs is None or outputs is None:
            return None
        joint = lengths.independent(inputs.law(), outputs.law())
        self._note_spread("input_tokens", inputs)
        self._note_spread("output_tokens", outputs)
        text = f"{_described('input', inputs)}, {_described('output', outputs)}, independent"
        return _workload(rate, joint, peak, text)

    def _note_spread(self, name: str, keys: LengthKeys) -> None:
        if keys.mean is not None and keys.p99 is None and keys.scv is None:
            text = f"workload.{name} gives a mean only: every request is taken at {keys.mean:,.0f} tokens"
            self.notes.append(Note("caution", text))

    def _traced(self, keys: TraceKeys, peak: PeakKeys | None) -> Workload | None:
        for name in ("input_tokens", "output_tokens"):
            if getattr(self.keys, name) is not None:
                self._fault("stands beside trace:, which has its own lengths; keep one", name)
        trace = self._load(keys.path)
        if trace is None:
            return None
        self.inputs.append(InputFile(keys.path, trace.sha256))
        self.notes.extend(trace.notes)
        if trace.arrivals is None:
            return self._lengths_of(trace, keys, peak)
        arrivals, own_rate = trace.arrivals, rate_per_s(trace.arrivals)
        if self.keys.requests is not None:
            own = units.format_rate(own_rate)
            self._fault(
                f"the trace comes at {own} by itself; to stretch it write trace: {{path, requests}}", "requests"
            )
        if peak is not None:
            self._fault("stands beside trace:, which has its own peaks; keep one", "peak")
        if keys.requests is not None:
            arrivals = rescaled(arrivals, keys.requests)
            text = f"trace time is stretched from {units.format_rate(own_rate)} to {units.format_rate(keys.requests)}"
            self.notes.append(Note("info", text))
        rate = rate_per_s(arrivals)
        text = f"{units.format_rate(rate)}, trace {keys.path}"
        return Workload(rate, trace.lengths, arrivals, description=text, blocks=trace.blocks)

    def _lengths_of(self, trace: Trace, keys: TraceKeys, peak: PeakKeys | None) -> Workload | None:
        rate = keys.requests or self.keys.requests
        if rate is None and self._lacks("requests"):
            self._fault(f"{keys.path} has lengths but no arrival times; add {_RATE}", "trace")
        if keys.requests is not None and self.keys.requests is not None:
            self._fault("stands here and under trace; keep one", "requests")
        return _workload(rate, trace.lengths, peak, f"lengths of {keys.path}") if rate is not None else None

    def _load(self, written: str) -> Trace | None:
        try:
            return load_trace(self.folder / written)
        except InputError as error:
            for fault in error.faults:
                if fault.line:
                    self.faults.append(fault)
                else:
                    self._fault(f"{written}: {fault.message}", "trace")
            return None


def _workload(rate: float, joint: Lengths, peak: PeakKeys | None, text: str) -> Workload:
    factor, duration_s = (peak.factor, peak.duration) if peak else (1.0, 0.0)
    busy = f", peaks of {factor:g} times for {units.format_seconds(duration_s)}" if peak else ""
    description = f"{units.format_rate(rate)} (Poisson){busy}, {text}"
    return Workload(rate, joint, None, factor, duration_s, description)


def _described(name: str, keys: LengthKeys) -> str:
    law = keys.law()
    if law.sigma == 0:
        return f"{name} {law.mean:,.0f} tokens"
    return f"{name} mean {law.mean:,.0f} and p99 {law.p99:,.0f} tokens (lognormal)"


def beyond_context_fraction(joint: Lengths, most_tokens: int) -> float:
    """Share of requests whose prompt and output together pass `most_tokens`."""
    total: Floats = joint.input_tokens + joint.output_tokens
    return float(np.sum(joint.weights[total > most_tokens]))
