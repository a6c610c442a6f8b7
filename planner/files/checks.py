"""Check expressions, ``ttft.p99 <= 800 ms``: metric, statistic and unit are checked before anything is computed.

The grammar::

    check      ::= measured comparison limit
    measured   ::= metric | "change" "(" metric ")"
    metric     ::= NAME [ "." STATISTIC ]
    comparison ::= "<=" | ">="
    limit      ::= NUMBER [ UNIT ]

NAME is one of `planner.metrics.ALL`. STATISTIC is one that the metric has: mean, p50, p90, p95, p99 or p99.9 of a
latency, a pool of what pools have. UNIT is of the metric's own dimension. Shares take a bare number or "%". In a
change, "%" is of the baseline's value and a unit is a difference; both may be negative. Spaces are free.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any, Literal, cast

from planner import metrics, units
from planner.errors import Fault
from planner.files.nearest import did_you_mean
from planner.files.schema import ScenarioKeys
from planner.files.yamlfile import Document, FieldPath
from planner.metrics import Metric
from planner.records import METRICS, PROBABILITY, STATISTICS, Budget, Check, Note, Target, Workload
from planner.units import format_seconds, shown

EXAMPLE = "ttft.p99 <= 800 ms"
_LEAST, _MOST = 1e-9, 1e18  # of a limit in base units
_SIGNS = {"≤": "<=", "≥": ">="}
_EXPRESSION = re.compile(
    r"""\s*(?P<change>change\s*\(\s*)?
    (?P<metric>[A-Za-z_]\w*)(?:\.(?P<statistic>\w+(?:\.\w+)?))?\s*
    (?P<close>\))?\s*
    (?P<comparison>[<>=!~≤≥]+)\s*
    (?P<limit>[^\s<>=!~≤≥].*?)\s*""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_PERCENT = re.compile(r"(?P<number>[^%]*?)\s*%")


def parse(text: str) -> Check:
    """A check without its place.

    Raises
    ------
    ValueError
        With a sentence for the user: not of the grammar, an unknown metric or statistic with the nearest known one, a
        unit of another dimension.

    Examples
    --------
    >>> parse("change(usd_per_hour) <= 5 %").limit
    0.05
    """
    found = _EXPRESSION.fullmatch(text)
    if found is None or bool(found["change"]) != bool(found["close"]):
        raise ValueError(f'want METRIC <= LIMIT or change(METRIC) <= LIMIT, e.g. "{EXAMPLE}"')
    metric = _metric(found["metric"])
    statistic = _statistic(metric, found["statistic"] or "")
    comparison = _SIGNS.get(found["comparison"], found["comparison"])
    if comparison not in ("<=", ">="):
        raise ValueError(f'"{comparison}" is no comparison of a check; want <= or >=')
    change = found["change"] is not None
    limit, relative = _change(metric, found["limit"]) if change else (_limit(metric, found["limit"]), False)
    sign = cast(Literal["<=", ">="], comparison)
    unit = "1" if relative else metric.unit
    return Check(metric.name, statistic, sign, limit, unit, change, relative, text.strip())


def _metric(name: str) -> Metric:
    metric = metrics.ALL.get(name)
    if metric is None:
        raise ValueError(f'no metric "{name[:60]}"; {did_you_mean(name, metrics.ALL, "metrics are")}')
    return metric


def _statistic(metric: Metric, name: str) -> str:
    statistic = name.replace(".", "_")
    if statistic in metric.statistics or (not statistic and metric.bare):
        return statistic
    known = [metrics.written(one) for one in metric.statistics]
    if not known:
        raise ValueError(f'{metric.name} is one number; write it without ".{name[:60]}"')
    if not statistic:
        raise ValueError(f"{metric.name} needs a statistic, e.g. {metric.name}.{known[-2]}: one of {', '.join(known)}")
    near = did_you_mean(name, known, "want one of")
    raise ValueError(f'{metric.name} has no "{name[:60]}"; {near}')


def _limit(metric: Metric, text: str) -> float:
    percent = _PERCENT.fullmatch(text)
    if percent and metric.kind == "ratio":
        value = units.parse(percent["number"], "ratio") / 100.0
    else:
        value = units.parse(text, metric.kind)
    if value == 0.0 and metric.kind == "ratio":
        return value
    if value == 0.0:
        raise ValueError(f"{shown(text)} is not above zero")
    if not _LEAST <= value <= _MOST:
        raise ValueError(f"{shown(text)} is far outside what can be")
    return value


def _change(metric: Metric, text: str) -> tuple[float, bool]:
    """The limit of a difference, and whether it is relative."""
    sign = -1.0 if text.startswith("-") else 1.0
    bare = text.lstrip("+-").lstrip()
    percent = _PERCENT.fullmatch(bare)
    if percent is None and metric.kind in ("count", "ratio"):
        value = units.parse(bare, "ratio")
    else:
        value = units.parse(percent["number"], "ratio") / 100.0 if percent else units.parse(bare, metric.kind)
    if value > _MOST:
        raise ValueError(f"{shown(text)} is far outside what can be")
    return sign * value, percent is not None


# ------------------------------------------------------------------------------------------------- a scenario's checks


class CheckReader:
    """All that a scenario asks for, in one list: `targets:` and `budgets:` as checks, then `checks:` itself.

    `faults` and `notes` fill as it is read. `broken` are places already reported.
    """

    def __init__(self, document: Document, keys: ScenarioKeys, broken: Set[FieldPath]) -> None:
        self.document = document
        self.keys = keys
        self.broken = {path[0] if path else "" for path in broken}
        self.faults: list[Fault] = []
        self.notes: list[Note] = []
        self.checks: list[Check] = [*self._of_targets(), *self._of_budgets()]

    def read(self) -> tuple[Check, ...]:
        """Every check with its place."""
        for index, text in enumerate(self.keys.checks or ()):
            place: FieldPath = ("checks", index)
            if not isinstance(text, str):
                self._fault(place, f'{shown(text)} is not an expression; want text, e.g. "{EXAMPLE}"')
                continue
            try:
                check = parse(text)
            except ValueError as error:
                self._fault(place, f"{shown(text)}: {error}")
                continue
            self._add(self._placed(check, place), place)
        judged = ", ".join(check.text for check in only_judged(self.checks))
        if judged and self.keys.deployment is None:
            self.notes.append(Note("info", f"judged by `planner check`, not searched for: {judged}"))
        return tuple(self.checks)

    def targets(self, workload: Workload | None) -> tuple[Target, ...]:
        """The latencies that are limited: at least one, none of a gap where there is none."""
        targets = targets_of(self.checks)
        if not targets and not {"", "targets", "checks"} & self.broken:
            if self.keys.targets is not None:
                example = "ttft: {p99: 800 ms}"
                self._fault(("targets",), f"holds no limit; want at least one of ttft, itl, tpot, e2e, e.g. {example}")
            elif not self.faults:
                self._fault((), "needs the key targets, e.g. targets: {ttft: {p99: 800 ms}, itl: {p99: 30 ms}}")
        if workload and workload.lengths.output_tokens.max() <= 1:
            for metric in sorted({target.metric for target in targets} & {"itl", "tpot"}):
                place = place_of(self.document, ("targets", metric))
                self._fault(place, "every request has one output token, so there is no gap to limit")
        self.notes += _redundant(targets)
        return targets

    def _add(self, check: Check, place: FieldPath) -> None:
        same = [one for one in self.checks if _subject(one) == _subject(check)]
        if same:
            self._fault(place, f"{shown(check.text)}: {name_of(check)} is already limited so on line {same[0].line}")
        else:
            self.checks.append(check)

    def _of_targets(self) -> Iterator[Check]:
        for metric in METRICS:
            limits = getattr(self.keys.targets, metric, None)
            for statistic in STATISTICS if limits is not None else ():
                limit_s = getattr(limits, statistic)
                if limit_s is not None:
                    place = ("targets", metric, metrics.written(statistic))
                    yield self._sugar(metric, statistic, limit_s, place)

    def _of_budgets(self) -> Iterator[Check]:
        for name, limit in (self.keys.budgets.model_dump(exclude_none=True) if self.keys.budgets else {}).items():
            yield self._sugar(name, "", float(limit), ("budgets", name))

    def _sugar(self, metric: str, statistic: str, limit: float, place: FieldPath) -> Check:
        """A key of `targets:` or `budgets:` as the expression it stands for."""
        value: Any = self.document.value
        for part in place:
            value = value[part] if isinstance(value, dict) and part in value else None
        text = f"{metrics.name_of(metric, statistic)} <= {value}"
        check = Check(metric, statistic, "<=", limit, metrics.ALL[metric].unit, text=text)
        return self._placed(check, place)

    def _placed(self, check: Check, place: FieldPath) -> Check:
        line, column = self.document.mark(place)
        return replace(check, path=self.document.path, line=line, column=column)

    def _fault(self, path: FieldPath, message: str) -> None:
        self.faults.append(self.document.fault(path, message))


def place_of(document: Document, field_path: FieldPath) -> FieldPath:
    """Where a target or budget stands: its own key, else the expression of `checks:` that says the same.

    `field_path` is ("budgets", NAME), ("targets", METRIC) or ("targets", METRIC, STATISTIC).
    """
    value: Any = document.value
    section = value.get(field_path[0]) if isinstance(value, dict) else None
    expressions = value.get("checks") if isinstance(value, dict) else None
    if not isinstance(expressions, list) or (isinstance(section, dict) and field_path[1] in section):
        return field_path
    for index, text in enumerate(expressions):
        try:
            check = parse(text) if isinstance(text, str) else None
        except ValueError:
            continue
        wanted = (field_path[1], *(str(part).replace(".", "_") for part in field_path[2:3]))
        if check and (check.metric, check.statistic)[: len(wanted)] == wanted and _bounds(check):
            return "checks", index
    return field_path


def _subject(check: Check) -> tuple[str, str, str, bool, bool]:
    return check.metric, check.statistic, check.comparison, check.change, check.relative


def name_of(check: Check) -> str:
    """A check's subject as it is written: ttft.p99, change(usd_per_hour)."""
    name = metrics.name_of(check.metric, check.statistic)
    return f"{metrics.CHANGE}({name})" if check.change else name


def targets_of(checks: Sequence[Check]) -> tuple[Target, ...]:
    """Limits of latencies, which a search must meet: metric by metric, mean first and then by rising percentile."""
    limits = {(one.metric, one.statistic): one.limit for one in checks if _bounds(one)}
    return tuple(
        Target(metric, statistic, limits[metric, statistic])
        for metric in METRICS
        for statistic in STATISTICS
        if (metric, statistic) in limits
    )


def _redundant(targets: Sequence[Target]) -> Iterator[Note]:
    """A lower percentile allowed more than a higher one can never bind."""
    for target in targets:
        tighter = [
            other
            for other in targets
            if other.metric == target.metric
            and {other.statistic, target.statistic} <= PROBABILITY.keys()
            and PROBABILITY[other.statistic] > PROBABILITY[target.statistic]
            and other.limit_s < target.limit_s
        ]
        if tighter:
            first, name = tighter[0], metrics.name_of(target.metric, target.statistic)
            text = (
                f"targets.{name} <= {format_seconds(target.limit_s)} is redundant: "
                f"{metrics.written(first.statistic)} <= {format_seconds(first.limit_s)} is stricter"
            )
            yield Note("warning", text)


def budgets_of(checks: Sequence[Check]) -> tuple[Budget, ...]:
    """Limits on what is bought, which a search must meet."""
    return tuple(
        Budget(one.metric, one.limit, one.unit)
        for one in checks
        if _bounds(one) and one.metric in metrics.SEARCHED and not one.statistic
    )


def only_judged(checks: Sequence[Check]) -> list[Check]:
    """Checks that bound no search: they are judged on the plan that comes out of it."""
    return [
        one
        for one in checks
        if not _bounds(one) or not (one.metric in METRICS or (one.metric in metrics.SEARCHED and not one.statistic))
    ]


def _bounds(check: Check) -> bool:
    return check.comparison == "<=" and not check.change
