"""The KV report as text: where prompts find their KV, what it saves, how that moves with size and load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.render.section import notes_section
from planner.render.table import verdict_line
from planner.render.text import Pen, Row, columns, percent_text, seconds_text, value_text, wrapped
from planner.units import format_bytes, format_bytes_per_s, format_count

Document = Mapping[str, Any]

BAR = 24
FULL_WRITES = "drive writes per day"


def to_text(document: Document, pen: Pen, notes: bool = True) -> str:
    """The report, with a final newline."""
    kv = document["kv"]
    sections = [
        [verdict_line(document, pen), *_summary(document, kv)],
        _tiers(document, pen),
        _sizes(kv, pen),
        _states(kv, pen),
        _loads(kv, pen),
        _cliffs(kv, pen),
        _routing(kv, pen),
        _burst(kv, pen),
        _decode_side(kv, pen),
        notes_section(document["notes"]).lines(pen) if notes else [],
    ]
    lines: list[str] = []
    for section in filter(None, sections):
        lines += [*section, ""]
    return pen.finish(lines[:-1])


# ------------------------------------------------------------------------------------------------------------- summary


def _summary(document: Document, kv: Document) -> list[str]:
    model = document["inputs"]["model"]
    lines = [f"{model['id']}, KV in {model['kv_dtype']}: {format_bytes(kv['bytes_per_token'])} per token"]
    found = f"{percent_text(kv['hit_fraction'])} of prompt tokens are found"
    if kv["ceiling_fraction"] is not None:
        found += f", {percent_text(kv['ceiling_fraction'])} with room for everything"
    lines.append(found)
    if kv["accelerators_saved"] is not None:
        plan, usd = document["plan"], kv["usd_per_hour_without"]
        saved = f"{kv['accelerators_without']} accelerators without reuse, {plan['accelerators']} with it"
        if usd is not None and plan["usd_per_hour"] is not None:
            saved += f": {value_text(usd - plan['usd_per_hour'], 'USD/h')} saved"
        lines.append(saved)
    return lines


# --------------------------------------------------------------------------------------------------------------- tiers


def _tiers(document: Document, pen: Pen) -> list[str]:
    rows = document["kv"]["tiers"]
    if "hit_fraction" not in rows[0]:
        return []
    size: list[Row] = [("", "per node", "tokens", "hits", "read", "of", "write", "of", "")]
    size += [_size_row(row) for row in rows]
    time: list[Row] = [("", "fetch", "compute", "break-even", "TTFT +p50", "+p99", "saves", "USD/h")]
    time += [_time_row(row) for row in rows]
    return [
        pen.heading("Where KV is, what it holds and what it must move, per node"),
        *columns(size, "lrrrrrrrl", pen),
        "",
        pen.heading("The mean prefix found there: fetched, or computed; what the hits save"),
        *columns(time, "lrrrrrrr", pen),
    ]


def _size_row(row: Document) -> Row:
    return (
        row["tier"],
        format_bytes(row["capacity_bytes"]),
        format_count(row["capacity_tokens"]),
        f"{100 * row['hit_fraction']:.1f}%",
        format_bytes_per_s(row["read_bytes_per_s"]),
        format_bytes_per_s(row["read_bytes_per_s_max"]),
        format_bytes_per_s(row["write_bytes_per_s"]),
        format_bytes_per_s(row["write_bytes_per_s_max"]),
        "; ".join(_strains(row)),
    )


def _strains(row: Document) -> Iterator[str]:
    """What a tier may break under besides bytes."""
    if row["utilization"] > 1.0:
        yield "TOO SLOW"
    if row["drive_writes_per_day"] is not None:
        yield f"{row['drive_writes_per_day']:.1f} of {row['drive_writes_per_day_max']:g} {FULL_WRITES}"
    if row["messages_per_s_max"]:
        most = format_count(row["messages_per_s_max"])
        yield f"{format_count(row['messages_per_s'])} of {most} messages/s per card"


def _time_row(row: Document) -> Row:
    near, added = row["tier"] == "hbm", row["added_ttft_s"]
    even = row["break_even_tokens"]
    return (
        row["tier"],
        "-" if near else seconds_text(row["fetch_s"]),
        seconds_text(row["recompute_s"]),
        "-" if near else "never" if even is None else f"{format_count(even)} tokens",
        "-" if near else seconds_text(added["p50"]),
        "-" if near else seconds_text(added["p99"]),
        f"{row['saved_accelerators']:z.1f}",
        "-" if row["saved_usd_per_hour"] is None else f"{row['saved_usd_per_hour']:+z.2f}",
    )


# -------------------------------------------------------------------------------------------------------------- curves


def _sizes(kv: Document, pen: Pen) -> list[str]:
    if not kv.get("size_curve"):
        return []
    rows: list[Row] = [("", "per node", "tokens", "hits", "", "TTFT mean", "prefill on", "USD/h", "")]
    rows += [
        (
            point["tier"],
            format_bytes(point["capacity_bytes"]),
            format_count(point["capacity_tokens"]) if point["capacity_bytes"] else "-",
            percent_text(point["hit_fraction"]),
            pen.bar(point["hit_fraction"], BAR),
            seconds_text(point["ttft_mean_s"]),
            f"{point['prefill_accelerators']:.1f}",
            "-" if point["usd_per_hour"] is None else f"{point['usd_per_hour']:.2f}",
            "does not hold" if not point["meets_targets"] else "at the edge" if point["on_edge"] else "",
        )
        for point in kv["size_curve"]
    ]
    return [pen.heading("One size moved, the others as they are"), *columns(rows, "lrrrlrrrl", pen)]


def _users_text(users: float) -> str:
    """Users, and parts of one only where there are few."""
    return f"{users:.1f}" if users < 9.95 else f"{users:,.0f}"


def _loads(kv: Document, pen: Pen) -> list[str]:
    if not kv.get("load_curve"):
        return []
    users = kv["load_curve"][0]["users"] is not None
    rows: list[Row] = [("users" if users else "load", "from warm", "", "from cold", "TTFT mean", "requests/s")]
    rows += [
        (
            _users_text(point["users"]) if users else f"{point['load_factor']:.2f}x",
            _levels_text(point["warm"]["hit_fractions"]),
            _levels_bar(point["warm"]["hit_fractions"], pen),
            percent_text(sum(point["cold"]["hit_fractions"])),
            seconds_text(point["cold"]["ttft_mean_s"]),
            f"{point['cold']['requests_per_s']:.3g}",
        )
        for point in kv["load_curve"]
    ]
    names = " + ".join(row["tier"] for row in kv["tiers"])
    return [pen.heading(f"More and less load: hits by place ({names})"), *columns(rows, "rllrrr", pen)]


def _levels_text(hits: Sequence[float]) -> str:
    return " + ".join(percent_text(share) for share in hits)


def _levels_bar(hits: Sequence[float], pen: Pen) -> str:
    """One bar of all levels, each with a shade of its own."""
    shades = "█▓▒░·" if pen.unicode else "#=-.:"
    return "".join(shade * round(BAR * share) for shade, share in zip(shades, hits, strict=False))


def _states(kv: Document, pen: Pen) -> list[str]:
    """What a full and an empty cache settle at; one row where that is the same."""
    if not kv.get("settled"):
        return []
    rows: list[Row] = [("start", "hits", "", "TTFT mean", "requests/s")]
    rows += [
        (
            "full" if start == "warm" else "empty",
            percent_text(sum(state["hit_fractions"])),
            _levels_bar(state["hit_fractions"], pen),
            seconds_text(state["ttft_mean_s"]),
            f"{state['requests_per_s']:.3g}",
        )
        for start, state in kv["settled"].items()
    ]
    return [pen.heading("At the load asked, from a full and from an empty cache"), *columns(rows, "lrlrr", pen)]


def _cliffs(kv: Document, pen: Pen) -> list[str]:
    if not kv.get("cliffs"):
        return []
    rows: list[Row] = [("", "half are lost at", "an empty cache refills below", "margin")]
    for cliff in kv["cliffs"]:
        if cliff["lost_at"] is None:
            rows.append((cliff["tier"], "-", "-", "hits hold over all loads tried"))
            continue
        back, margin = cliff["recovers_below"], cliff["margin_fraction"]
        rows.append(
            (
                cliff["tier"],
                _load_text(cliff["lost_at"], cliff["unit"]),
                "-" if back is None else _load_text(back, cliff["unit"]),
                percent_text(margin) if margin >= 0 else "ALREADY LOST at the load asked",
            )
        )
    return [pen.heading("The cliff, with everything nearer counted in"), *columns(rows, "lrrl", pen)]


def _load_text(load: float, unit: str) -> str:
    return f"{load:,.0f} users" if unit == "users" else f"{load:.3g} requests/s"


# --------------------------------------------------------------------------------------------------------------- parts


def _routing(kv: Document, pen: Pen) -> list[str]:
    routing = kv.get("routing")
    if not routing:
        return []
    rows: list[Row] = [
        ("each instance its own cache, requests at random", percent_text(routing["random_fraction"]), ""),
        (
            "requests go where their prefix is",
            percent_text(routing["aware_fraction"]),
            f"saves {routing['aware_saves_accelerators']:.1f} accelerators of prefill",
        ),
        (
            "one pool of the same size for all",
            percent_text(routing["pool_fraction"]),
            f"saves {routing['pool_saves_accelerators']:.1f}",
        ),
    ]
    heading = f"Who keeps a prefix: hits in the memory of {routing['instances']} instances"
    return [pen.heading(heading), *columns(rows, "lrl", pen)]


def _burst(kv: Document, pen: Pen) -> list[str]:
    burst = kv.get("burst")
    if not burst:
        return []
    fits = "fits beside what runs" if burst["has_room"] else "does not fit beside what runs: some of it must move"
    text = (
        f"{burst['children']} sub-agents end with {format_count(burst['demand_tokens'])} tokens; a worker has "
        f"{format_count(burst['headroom_tokens'])} free, so it {fits}. Held in place it takes the memory of "
        f"{burst['headroom_accelerators']:.2f} accelerators; moved it is {format_bytes(burst['migration_bytes'])} "
        f"and {seconds_text(burst['migration_s'])} of a worker's network cards; computed again it is "
        f"{seconds_text(burst['recompute_s'])}."
    )
    return [pen.heading("A burst of sub-agents"), *("  " + line for line in wrapped(text, pen.width - 2))]


def _decode_side(kv: Document, pen: Pen) -> list[str]:
    side = kv.get("decode_side")
    if not side:
        return []
    rows: list[Row] = [
        ("prompts on their way, per worker", f"{format_count(side['staging_tokens'])} tokens", ""),
        ("bytes on the ranks over bytes of the sequence", f"{side['replication_factor']:.2f}", ""),
        (
            f"a context of {format_count(side['context_tokens'])} tokens to host memory",
            seconds_text(side["swap_out_s"]),
            f"{format_bytes(side['offload_bytes'])}; as long on the way back",
        ),
    ]
    if side["think_s"] is not None:
        word = "pays" if side["offload_pays"] else "does not pay"
        rows.append(("pause between turns", seconds_text(side["think_s"]), f"moving a context out meanwhile {word}"))
    return [pen.heading("Memory beside the decode"), *columns(rows, "lrl", pen)]
