"""Catalog entries and listings as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.render.inputs import sourced_row
from planner.render.text import Cell, Pen, Row, columns, value_text, wrapped
from planner.units import format_bytes, format_bytes_per_s, format_count

Document = Mapping[str, Any]


def hardware_list_text(entries: Sequence[Document], pen: Pen) -> str:
    """Accelerators in one table: memory, rates, peaks, the price used first, whose efficiencies."""
    titles = ("id", "vendor", "memory", "rate", "bf16", "fp8", "fp4", "scale-up", "USD/h", "efficiencies")
    rows: list[Row] = [[Cell(title, "dim") for title in titles]]
    for entry in entries:
        prices = entry["usd_per_hour"]
        price = next((prices[basis] for basis in ("rent3y", "cloud_low") if basis in prices), None)
        borrowed = entry["efficiency_like"]
        rows.append(
            [
                entry["id"],
                entry["vendor"] + (" (announced)" if entry["status"] == "announced" else ""),
                format_bytes(entry["memory_bytes"]),
                format_bytes_per_s(entry["memory_bytes_per_s"]),
                *(_tera(entry[f"{dtype}_dense_flops_per_s"]) for dtype in ("bf16", "fp8", "fp4")),
                _scaleup(entry),
                "-" if price is None else f"{price:.2f}",
                f"guessed from {borrowed}" if borrowed else "fitted",
            ]
        )
    note = "Peaks are dense TFLOP/s; scale-up is one way, x accelerators of one domain; - is not known."
    return pen.finish([*columns(rows, "llrrrrrrrl", pen, indent=0), "", *wrapped(note, pen.width)])


def _tera(flops_per_s: float | None) -> str:
    return "-" if flops_per_s is None else f"{flops_per_s / 1e12:,.0f}"


def _scaleup(entry: Document) -> str:
    rate, domain = entry["scaleup_bytes_per_s"], entry["scaleup_domain"]
    if rate is None:
        return "-"
    return f"{format_bytes_per_s(rate)} x {domain}" if domain else format_bytes_per_s(rate)


def hardware_text(document: Document, pen: Pen) -> str:
    """One accelerator: every value with how it is known, its source and date; fits in short; notes."""
    told = ", ".join(filter(None, (document["vendor"], document["status"], document["scaleup_name"])))
    lines = [pen.heading(f"{document['id']}: {told}")]
    lines += columns([sourced_row(name, item) for name, item in document["values"].items()], "lrllw", pen)
    borrowed = document["efficiency_like"]
    title = f"Operator efficiencies, borrowed from {borrowed}: a guess" if borrowed else "Operator efficiencies, fitted"
    fits: list[Row] = [
        [
            fit["operator"],
            ", ".join(fit["dtypes"]),
            ", ".join(fit["engines"]),
            ", ".join(f"{count} {trust}" for trust, count in fit["trust"].items()),
        ]
        for fit in document["fits"]
    ]
    if fits:
        head: Row = [Cell(text, "dim") for text in ("operator", "formats", "engines", "fits by trust")]
        lines += ["", pen.heading(title), *columns([head, *fits], "llll", pen)]
    if document["notes"]:
        lines += ["", *wrapped(f"Notes: {document['notes']}", pen.width)]
    return pen.finish([*lines, "", f"sha256 {document['sha256']}"])


def system_list_text(entries: Sequence[Document], pen: Pen) -> str:
    """Systems in one table: what is in them, and what one accelerator has of the network."""
    titles = ("id", "level", "accelerators", "hosts", "scale-up", "NIC each", "host memory", "SSD", "power")
    rows: list[Row] = [[Cell(title, "dim") for title in titles]]
    for entry in entries:
        size = {name: item["value"] for name, item in entry["values"].items()}
        rows.append(
            [
                entry["id"],
                entry["level"] + (" (announced)" if entry["status"] == "announced" else ""),
                f"{size['accelerators']} x {entry['parts']['accelerator']}",
                str(size.get("hosts", 1)),
                f"{entry['parts']['scaleup']} x {entry['scaleup_domain']}" if "scaleup" in entry["parts"] else "-",
                format_bytes_per_s(size["nic_bytes_per_s"]) if "nic_bytes_per_s" in size else "-",
                *(format_bytes(size[name]) if name in size else "-" for name in ("host_memory_bytes", "ssd_bytes")),
                value_text(size["power_watts"], "W") if "power_watts" in size else "-",
            ]
        )
    note = "Sizes are of the whole system, the NIC rate is one accelerator's share, one way; - is not known."
    return pen.finish([*columns(rows, "lllrlrrrr", pen, indent=0), "", note])


def system_text(document: Document, pen: Pen) -> str:
    """One system: its parts, its sizes with their sources."""
    size = f"{document['values']['accelerators']['value']} x {document['parts']['accelerator']}"
    lines = [pen.heading(f"{document['id']}: {document['level']} of {size}, {document['status']}")]
    facts = {**document["parts"], "scaleup_domain": str(document["scaleup_domain"])}
    lines += columns([[name, fact] for name, fact in facts.items()], "ll", pen)
    lines += ["", *columns([sourced_row(name, item) for name, item in document["values"].items()], "lrllw", pen)]
    if document["notes"]:
        lines += ["", *wrapped(f"Notes: {document['notes']}", pen.width)]
    lines += [
        "",
        *wrapped(f"Name it among the accelerators of a scenario: accelerators: [{document['id']}]", pen.width),
    ]
    return pen.finish([*lines, "", f"sha256 {document['sha256']}"])


def model_list_text(entries: Sequence[Document], pen: Pen) -> str:
    """Models in one table: parameters in billions, KV bytes per token in bf16, longest context, stored format."""
    titles = ("id", "total", "active", "mixers", "layers", "KV B/token", "context", "stored as")
    rows: list[Row] = [[Cell(title, "dim") for title in titles]]
    rows += [
        [
            entry["id"],
            _short_billions(entry["parameters"]),
            _short_billions(entry["active_parameters"]),
            ", ".join(entry["mixers"]),
            str(entry["layers"]),
            value_text(entry["kv_bytes_per_token"], ""),
            value_text(entry["max_context_tokens"], ""),
            entry["checkpoint_format"],
        ]
        for entry in entries
    ]
    note = "Parameters in billions; KV bytes of one more token in bf16 while every window still grows."
    return pen.finish([*columns(rows, "lrrlrrrl", pen, indent=0), "", note])


def _short_billions(parameters: int | None) -> str:
    return "-" if parameters is None else f"{parameters / 1e9:.2f}"


def model_text(document: Document, pen: Pen) -> str:
    """One model: parameters, layers, what a sequence holds, what the weights take, how it can be split."""
    total, active = document["parameters"], document["active_parameters"]
    facts: list[Row] = [
        ["parameters", _billions(total)],
        ["active per token", _billions(active)],
        ["attention", f"{document['attention']}: {document['layer_map']}"],
        ["layers", f"{document['layers']}, hidden {document['hidden']:,}, vocabulary {document['vocabulary']:,}"],
        *(["", _layers_text(kind)] for kind in document["layer_kinds"]),
        [f"KV in {document['kv_dtype']}", _kv_text(document)],
        ["state", f"{value_text(document['state_bytes_per_sequence'], 'bytes')} per sequence"],
        *_tokens_rows(document["tokens_for"]),
        ["context", f"{format_count(document['max_context_tokens'])} tokens"],
        ["checkpoint", _stored_text(document)],
        *([way, _ways_text(ways)] for way, ways in document["parallelism"].items()),
    ]
    if document["encoder_parameters"]:
        facts.append(["encoders", f"about {_billions(document['encoder_parameters'])}, counted apart"])
    if document["draft_layers"]:
        facts.append(["draft layers", f"{document['draft_layers']}, in the checkpoint, not counted"])
    lines = [pen.heading(f"{document['id']} ({document['architecture']})"), *columns(facts, "lw", pen)]
    lines += ["", pen.heading("Weights, and what one of tp ranks holds"), *_weights_lines(document, pen)]
    for note in document["notes"]:
        lines += ["", *wrapped(f"Note: {note}", pen.width)]
    if document["source"]:
        lines += ["", *wrapped(f"Source: {document['source']}", pen.width)]
    return pen.finish(lines)


def _tokens_rows(found: Document | None) -> list[Row]:
    if found is None:
        return []
    tokens = "any number of" if found["tokens"] is None else f"{found['tokens']:,}"
    return [[f"in {format_bytes(found['bytes'])}", f"{tokens} tokens of one sequence"]]


def _stored_text(document: Document) -> str:
    other = document["checkpoint_other_format"]
    return f"{document['checkpoint_format']}{f', outside the experts {other}' if other else ''}"


def _ways_text(ways: Document) -> str:
    """Degrees that run, and the reason of the first that does not."""
    allowed = ", ".join(str(degree) for degree in ways["allowed"])
    return f"{allowed}; {ways['refused'][0]['reason']}" if ways["refused"] else allowed


def _weights_lines(document: Document, pen: Pen) -> list[str]:
    split = document["weight_bytes_per_rank"][1:5]
    head: Row = [Cell(text, "dim") for text in ("", "whole", *(f"tp {rank['tp']}" for rank in split))]
    rows: list[Row] = [
        [name, value_text(size, "bytes"), *(value_text(rank[name], "bytes") for rank in split)]
        for name, size in document["weight_bytes"].items()
    ]
    return columns([head, *rows], "l" + "r" * (1 + len(split)), pen)


def _billions(parameters: int) -> str:
    return f"{parameters / 1e9:,.2f} billion ({parameters:,})"


def _kv_text(document: Document) -> str:
    window, beyond = document["window_tokens"], document["kv_bytes_per_token_beyond_window"]
    text = f"{document['kv_bytes_per_token']:,.0f} bytes per token"
    return f"{text}, {beyond:,.0f} beyond the window of {window:,} tokens" if window else text


def _layers_text(kind: Document) -> str:
    borrowed = ", keys and values of earlier layers" if kind["borrowed_kv"] else ""
    return f"{kind['count']} x {_mixer_text(kind['mixer'])}{borrowed}, {_feed_forward_text(kind['feed_forward'])}"


def _mixer_text(mixer: Document | None) -> str:
    if mixer is None:
        return "no mixer"
    if mixer["type"] == "latent":
        return _latent_text(mixer)
    if mixer["type"] == "recurrent":
        return f"{mixer['kind']}, {mixer['value_heads']} heads of {mixer['key_dim']} x {mixer['value_dim']}"
    window = f", window {mixer['window_tokens']:,} tokens" if mixer["window_tokens"] else ""
    return f"attention, {mixer['query_heads']} heads over {mixer['kv_heads']} KV heads of {mixer['key_dim']}{window}"


def _latent_text(mixer: Document) -> str:
    text = f"latent attention, {mixer['query_heads']} heads, latent {mixer['kv_rank']} + {mixer['rope_dim']}"
    if mixer["compression_tokens"]:
        text += f", one for {mixer['compression_tokens']} tokens"
    if mixer["window_tokens"]:
        text += f", window {mixer['window_tokens']:,} tokens"
    return text + (f", top {mixer['index_top_k']:,}" if mixer["index_top_k"] else "")


def _feed_forward_text(block: Document | None) -> str:
    if block is None:
        return "no feed-forward"
    if block["type"] == "dense":
        return f"feed-forward {block['intermediate']:,}"
    shared = f" + shared {block['shared_intermediate']:,}" if block["shared_intermediate"] else ""
    return (
        f"{block['experts']} experts of {block['intermediate']:,}, {block['top_k']} per token{shared}{_narrow(block)}"
    )


def _narrow(block: Document) -> str:
    return f", in a latent of {block['hidden']:,}" if block["hidden"] else ""
