"""What a fleet costs to own, and which price decides: annuities, power, parts priced apart (MODELLING §11)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from planner.errors import FieldError
from planner.records import (
    Accelerator,
    Alternative,
    CostLine,
    Costs,
    Deployment,
    Floats,
    OwnCosts,
    PriceFlip,
    Provenance,
    Quoted,
    Scenario,
)

HOURS_PER_YEAR = 8760.0
OWN, SHEET = "own", "sheet"
BYTES_PER_GB = 1e9
FABRIC = "fabric"
FLIPS_SHOWN = 3


def capital_recovery_fraction(interest_fraction: ArrayLike, years: ArrayLike) -> Floats:
    """Yearly payment per USD borrowed: i (1 + i)^n / ((1 + i)^n - 1), and 1 / n without interest. Broadcasts.

    Parameters
    ----------
    interest_fraction : i, per year, >= 0.
    years : n, > 0.

    Examples
    --------
    >>> round(float(capital_recovery_fraction(0.08, 4.0)), 4)
    0.3019
    """
    rate, count = np.broadcast_arrays(np.asarray(interest_fraction, dtype=float), np.asarray(years, dtype=float))
    grown = -np.expm1(-count * np.log1p(rate))
    return np.asarray(np.where(rate > 0.0, rate / np.where(grown > 0.0, grown, 1.0), 1.0 / count))


def owned_usd_per_hour(purchase_usd: ArrayLike, interest_fraction: ArrayLike, years: ArrayLike) -> Floats:
    """What a purchase costs per hour of its life, interest included [USD/h]."""
    hourly = capital_recovery_fraction(interest_fraction, years) / HOURS_PER_YEAR
    return np.asarray(np.asarray(purchase_usd, dtype=float) * hourly)


def power_usd_per_hour(watts: ArrayLike, pue_factor: ArrayLike, usd_per_kwh: ArrayLike) -> Floats:
    """Energy of machines that draw `watts`, cooling and losses by the PUE [USD/h]."""
    return np.asarray(np.asarray(watts, dtype=float) / 1e3 * np.asarray(pue_factor) * np.asarray(usd_per_kwh))


def own_lines(accelerator: Accelerator, costs: Costs) -> Mapping[str, CostLine]:
    """Price of one accelerator-hour by part; low and high take every quote at its cheap and at its dear end.

    Raises FieldError where the accelerator has no purchase price or no power.
    """
    own = _own(costs)
    bought = costs.purchase_usd.get(accelerator.id) or _catalog_price(accelerator)
    watts = accelerator.tdp_watts
    if bought is None or watts is None:
        lacking = "purchase price" if bought is None else "power"
        text = f"{accelerator.id} has no {lacking} in the catalog, so owning it has no price"
        raise FieldError("cost.basis", f"{text}; give a sheet with purchase: {{{accelerator.id}: 30000 USD}}")
    per_node = 1.0 / accelerator.node_accelerators
    capital = {
        "accelerators": bought,
        "hosts": _times(own.host_usd, per_node),
        "host DRAM": _product(own.dram_usd_per_gb, own.dram_bytes, per_node / BYTES_PER_GB),
        "SSD": _product(own.ssd_usd_per_gb, own.ssd_bytes, per_node / BYTES_PER_GB),
        FABRIC: _sum(own.nic_usd, own.switch_usd),
    }
    lines = {name: _line(name, part, own) for name, part in capital.items()}
    return lines | {"power": _power_line(own, watts)}


def _own(costs: Costs) -> OwnCosts:
    if costs.own is None:
        raise FieldError("cost.basis", "the scenario has no sheet of what owning costs")
    return costs.own


def _catalog_price(accelerator: Accelerator) -> Quoted | None:
    usd = accelerator.purchase_usd
    if usd is None:
        return None
    source = accelerator.provenance.get("purchase_usd", Provenance("catalog", "", "estimate"))
    return Quoted(usd, 0.7 * usd, 1.3 * usd, source)  # unit prices differ by 20 to 40 % between sources


def _line(name: str, part: Quoted, own: OwnCosts) -> CostLine:
    """A purchase as USD/h: its annuity, and operations as a share of it a year."""

    def hourly(usd: float, end: str) -> float:
        interest, years = _end(own.interest_fraction, end), _end(own.years, _other(end))
        operations = usd * _end(own.operations_fraction, end) / HOURS_PER_YEAR
        return float(owned_usd_per_hour(usd, interest, years)) + operations

    return CostLine(
        name, hourly(part.value, "value"), hourly(part.low, "low"), hourly(part.high, "high"), part.provenance
    )


def _end(quote: Quoted, end: str) -> float:
    return {"low": quote.low, "high": quote.high}.get(end, quote.value)


def _other(end: str) -> str:
    """A longer life is the cheap end."""
    return {"low": "high", "high": "low"}.get(end, end)


def _power_line(own: OwnCosts, accelerator_watts: float) -> CostLine:
    def hourly(end: str) -> float:
        watts = (accelerator_watts + _end(own.host_watts, end)) * _end(own.power_use_fraction, end)
        return float(power_usd_per_hour(watts, _end(own.pue_factor, end), _end(own.electricity_usd_per_kwh, end)))

    return CostLine("power", hourly("value"), hourly("low"), hourly("high"), own.electricity_usd_per_kwh.provenance)


def _times(part: Quoted, factor: float) -> Quoted:
    return Quoted(part.value * factor, part.low * factor, part.high * factor, part.provenance)


def _product(price: Quoted, size: Quoted, factor: float) -> Quoted:
    """A price times a size as chosen: the range is that of the price."""
    return _times(price, size.value * factor)


def _sum(first: Quoted, second: Quoted) -> Quoted:
    return Quoted(first.value + second.value, first.low + second.low, first.high + second.high, second.provenance)


# ------------------------------------------------------------------------------------------------------------- scenario


def priced(scenario: Scenario) -> Scenario:
    """The scenario whose candidates have the prices that it asks for, as one more basis of each.

    Raises FieldError where a candidate has none: bases are never mixed.
    """
    costs = scenario.costs
    if not costs.basis:
        return scenario
    changed = replace(
        scenario,
        prefill_accelerators=tuple(_priced(one, costs) for one in scenario.prefill_accelerators),
        decode_accelerators=tuple(_priced(one, costs) for one in scenario.decode_accelerators),
    )
    every = {one.id: one for one in (*changed.prefill_accelerators, *changed.decode_accelerators)}
    lacking = [one for one in every.values() if costs.basis not in one.usd_per_hour]
    if lacking:
        one = lacking[0]
        known = ", ".join([OWN, *sorted(set(one.usd_per_hour) - {OWN, SHEET})])
        text = f"{', '.join(each.id for each in lacking)} has no price on the basis {costs.basis}; known: {known}"
        raise FieldError("cost.basis", text)
    return changed


def _priced(accelerator: Accelerator, costs: Costs) -> Accelerator:
    prices, fabric = dict(accelerator.usd_per_hour), dict(accelerator.fabric_usd_per_hour)
    if costs.basis == OWN:
        lines = own_lines(accelerator, costs)
        prices[OWN] = sum(line.usd_per_hour for name, line in lines.items() if name != FABRIC)
        fabric[OWN] = lines[FABRIC].usd_per_hour
    elif accelerator.id in costs.rent_usd_per_hour:
        prices[SHEET] = costs.rent_usd_per_hour[accelerator.id].value
    return replace(accelerator, usd_per_hour=prices, fabric_usd_per_hour=fabric)


# ----------------------------------------------------------------------------------------------------------- explained


def cost_lines(scenario: Scenario, deployment: Deployment, basis: str) -> tuple[CostLine, ...]:
    """The price of a deployment by part, every accelerator's own added up; they sum to its USD per hour."""
    found: dict[str, CostLine] = {}
    for pool in deployment.pools:
        accelerator = scenario.accelerator(pool.accelerator)
        for line in _lines_of(accelerator, scenario, basis, _apart(deployment, accelerator)):
            scaled = _scaled(line, float(pool.accelerators))
            before = found.get(line.name)
            found[line.name] = _added(before, scaled) if before else scaled
    return tuple(found.values())


def _apart(deployment: Deployment, accelerator: Accelerator) -> bool:
    """Whether the fabric between nodes is needed: caches cross it, or a worker does."""
    return deployment.prefill is not None or spans_nodes(deployment.decode.worker_accelerators, accelerator)


def spans_nodes(worker_accelerators: int, accelerator: Accelerator) -> bool:
    return worker_accelerators > max(accelerator.node_accelerators, accelerator.scaleup_domain)


def _lines_of(accelerator: Accelerator, scenario: Scenario, basis: str, apart: bool) -> Iterator[CostLine]:
    if basis == OWN:
        for name, line in own_lines(accelerator, scenario.costs).items():
            if name != FABRIC or apart:
                yield line
        return
    yield _rent_line(accelerator, scenario.costs, basis)


def _rent_line(accelerator: Accelerator, costs: Costs, basis: str) -> CostLine:
    """Rent, with everything in it; its range is what the catalog quotes on any basis."""
    name, usd = f"rent of {accelerator.id}", accelerator.usd_per_hour[basis]
    if basis == SHEET:
        quote = costs.rent_usd_per_hour[accelerator.id]
        return CostLine(name, quote.value, quote.low, quote.high, quote.provenance)
    quotes = [price for other, price in accelerator.usd_per_hour.items() if other not in (OWN, SHEET)]
    source = accelerator.provenance.get(f"usd_per_hour.{basis}", Provenance("catalog", "", "estimate"))
    return CostLine(name, usd, min(quotes), max(quotes), source)


def _scaled(line: CostLine, factor: float) -> CostLine:
    return replace(
        line,
        usd_per_hour=line.usd_per_hour * factor,
        low_usd_per_hour=line.low_usd_per_hour * factor,
        high_usd_per_hour=line.high_usd_per_hour * factor,
    )


def _added(first: CostLine, second: CostLine) -> CostLine:
    return replace(
        first,
        usd_per_hour=first.usd_per_hour + second.usd_per_hour,
        low_usd_per_hour=first.low_usd_per_hour + second.low_usd_per_hour,
        high_usd_per_hour=first.high_usd_per_hour + second.high_usd_per_hour,
    )


def price_flips(
    scenario: Scenario, deployment: Deployment, alternatives: tuple[Alternative, ...], basis: str
) -> tuple[PriceFlip, ...]:
    """Prices at which an alternative that holds would cost as much: one price changed, all others kept.

    With C and A the prices of plan and alternative, and c and a what one price contributes to each, it is the factor
    x with C + (x - 1) c = A + (x - 1) a.
    """
    if not basis:
        return ()
    ours = _by_price(scenario, deployment, basis)
    total = sum(line.usd_per_hour for line in ours.values())
    found = []
    for index, other in enumerate(alternatives):
        theirs = _by_price(scenario, other.deployment, basis)
        gap = sum(line.usd_per_hour for line in theirs.values()) - total
        for name in {*ours, *theirs} if other.feasible else ():
            mine, its = (lines[name].usd_per_hour if name in lines else 0.0 for lines in (ours, theirs))
            factor = 1.0 + gap / (mine - its) if mine != its else 0.0
            if factor > 0.0:
                line = ours.get(name) or theirs[name]
                low, high = (end / line.usd_per_hour for end in (line.low_usd_per_hour, line.high_usd_per_hour))
                found.append(PriceFlip(name, factor, index, low <= factor <= high))
    found.sort(key=lambda flip: (abs(math.log(flip.factor)), flip.name))
    return tuple(found[:FLIPS_SHOWN])


def _by_price(scenario: Scenario, deployment: Deployment, basis: str) -> dict[str, CostLine]:
    """Lines of a deployment by the price they hang on: accelerators by kind, other parts as they are."""
    found: dict[str, CostLine] = {}
    for pool in deployment.pools:
        accelerator = scenario.accelerator(pool.accelerator)
        for line in _lines_of(accelerator, scenario, basis, _apart(deployment, accelerator)):
            name = f"{accelerator.id}" if line.name == "accelerators" else line.name
            scaled = replace(_scaled(line, float(pool.accelerators)), name=name)
            found[name] = _added(found[name], scaled) if name in found else scaled
    return found
