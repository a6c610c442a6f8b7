"""Scenario files: what the examples say, and the exact words and places for everything that can be wrong."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from planner.errors import Fault, FieldError, InputError
from planner.files import yamlfile
from planner.files.scenario import field_fault, load_scenario
from planner.files.schema import scenario_schema
from planner.records import Budget, Pool, Scenario, Target

DATA = Path(__file__).parent.parent / "data"
EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.yaml"))

GOOD: dict[str, str] = {
    "model": "meta-llama/Llama-3.1-70B",
    "hardware": "{accelerators: [h100-sxm, h200-sxm]}",
    "workload": "{requests: 12 /s, input_tokens: 4000, output_tokens: 500}",
    "targets": "{ttft: {p99: 800 ms}}",
}


def write(tmp_path: Path, text: str | bytes = b"", **sections: str | None) -> Path:
    """The good scenario, one section a line in the order of `GOOD`, with some sections replaced, added or removed."""
    lines = {**GOOD, **sections}
    path = tmp_path / "s.yaml"
    content = text or "\n".join(f"{key}: {value}" for key, value in lines.items() if value is not None)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(tmp_path: Path, **sections: str | None) -> Scenario:
    return load_scenario(write(tmp_path, **sections))


def faults(path: Path) -> list[str]:
    with pytest.raises(InputError) as refusal:
        load_scenario(path)
    return [str(fault).replace(f"{path.parent}/", "") for fault in refusal.value.faults]


def texts(scenario: Scenario) -> str:
    return "\n".join(f"{note.level}: {note.text}" for note in scenario.notes)


# ---------------------------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("name", NAMES)
def test_examples_load(name: str) -> None:
    scenario = load_scenario(EXAMPLES / name)
    assert scenario.name == name.removesuffix(".yaml")
    assert scenario.workload.lengths.weights.sum() == pytest.approx(1)
    assert scenario.inputs[0].path == str(EXAMPLES / name)
    assert scenario.inputs[0].sha256 == hashlib.sha256((EXAMPLES / name).read_bytes()).hexdigest()


def test_the_traced_example() -> None:
    scenario = load_scenario(EXAMPLES / "llama-3.1-70b-azure.yaml")
    assert (scenario.model.id, scenario.weights, scenario.kv_dtype) == ("meta-llama/Llama-3.1-70B", "fp8", "fp8")
    assert scenario.engine.id == "vllm"
    assert [accelerator.id for accelerator in scenario.decode_accelerators] == ["h100-sxm", "h200-sxm"]
    assert scenario.network_bytes_per_s == 50e9
    assert scenario.targets == (Target("ttft", "p99", 1.0), Target("itl", "p99", 0.04))
    assert scenario.budgets == (Budget("accelerators", 32, "accelerators"),)
    assert scenario.deployment is None
    arrivals = scenario.workload.arrivals
    assert arrivals is not None
    assert scenario.workload.requests_per_s == pytest.approx(20)
    assert (arrivals.time_s.size - 1) / arrivals.duration_s == pytest.approx(20)
    assert scenario.inputs[1].path == "data/azure_conversation.csv"
    assert "trace time is stretched from 4.77 /s to 20.0 /s" in texts(scenario)


def test_the_heterogeneous_example() -> None:
    scenario = load_scenario(EXAMPLES / "heterogeneous.yaml")
    assert [accelerator.id for accelerator in scenario.prefill_accelerators] == ["h100-sxm"]
    assert [accelerator.id for accelerator in scenario.decode_accelerators] == ["h200-sxm"]
    assert scenario.deployment is not None
    assert scenario.deployment.mode == "disaggregated"
    assert scenario.deployment.prefill == Pool("h100-sxm", 5, tp=4)
    assert scenario.deployment.decode == Pool("h200-sxm", 4, tp=2, max_batch=128)
    assert scenario.deployment.accelerators == 28  # 5 x 4 + 4 x 2


def test_checkpoint_format_is_the_default(tmp_path: Path) -> None:
    assert load_scenario(EXAMPLES / "deepseek-r1-mooncake.yaml").weights == "fp8_block"
    scenario = read(tmp_path)
    assert (scenario.weights, scenario.kv_dtype, scenario.engine.id) == ("bf16", "bf16", "generic")


# ---------------------------------------------------------------------------------------------------------- workload


def test_fixed_lengths_are_one_atom(tmp_path: Path) -> None:
    lengths = read(tmp_path).workload.lengths
    assert lengths.input_tokens.tolist() == pytest.approx([4000])
    assert lengths.output_tokens.tolist() == pytest.approx([500])


@pytest.mark.parametrize(
    ("law", "mean", "scv"),
    [
        ("{mean: 500, p99: 2000}", 500, 0.636),  # sigma 0.70175: exp(0.49246) - 1
        ("{mean: 500, scv: 0.5}", 500, 0.5),
        ("{p50: 400, p99: 2000}", 508, 0.614),  # sigma = ln 5 / 2.32635 = 0.69182; 400 exp(0.23931)
        ("{mean: 500}", 500, 0),
    ],
)
def test_length_laws(tmp_path: Path, law: str, mean: float, scv: float) -> None:
    workload = f"{{requests: 12 /s, input_tokens: 4000, output_tokens: {law}}}"
    scenario = read(tmp_path, workload=workload)
    lengths = scenario.workload.lengths
    measured = lengths.weights @ lengths.output_tokens
    assert measured == pytest.approx(mean, rel=1e-3)
    assert lengths.weights @ lengths.output_tokens**2 / measured**2 - 1 == pytest.approx(scv, rel=0.02, abs=1e-12)
    assert ("gives a mean only" in texts(scenario)) == (law == "{mean: 500}")


@pytest.mark.parametrize(
    "where", ["peak: {factor: 1.9, duration: 5 min}", "arrivals: {peak: {factor: 1.9, duration: 300 s}}"]
)
def test_peak(tmp_path: Path, where: str) -> None:
    workload = read(tmp_path, workload=f"{{requests: 12 /s, input_tokens: 9, output_tokens: 5, {where}}}").workload
    assert (workload.requests_per_s, workload.peak_factor, workload.peak_duration_s) == (12, 1.9, 300)
    assert "peaks of 1.9 times for 5.00 min" in workload.description


def test_lengths_only_trace_needs_a_rate(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("num_prefill_tokens,num_decode_tokens\n10,1\n20,3\n")
    for workload in ("{trace: l.csv, requests: 5 /s}", "{trace: {path: l.csv, requests: 5 /s}}"):
        scenario = read(tmp_path, workload=workload)
        assert scenario.workload.arrivals is None
        assert scenario.workload.requests_per_s == 5
        assert scenario.workload.lengths.weights @ scenario.workload.lengths.input_tokens == 15
    assert faults(write(tmp_path, workload="{trace: l.csv}")) == [
        "s.yaml:3:12: workload.trace: l.csv has lengths but no arrival times; add requests: with a rate, e.g. 12 /s"
    ]


def test_faults_of_a_trace_keep_their_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("time_s,input_tokens,output_tokens\n0,5,3\n1,x,3\n")
    path = write(tmp_path, workload="{trace: t.csv}", targets="{}")
    assert faults(path) == [
        "s.yaml:4:1: targets: is empty; write e.g. targets: {ttft: {p99: 800 ms}, itl: {p99: 30 ms}}",
        't.csv:3: input_tokens is "x"; want a whole number of tokens',
    ]


def test_an_empty_trace_is_named_at_its_key(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("time_s,input_tokens,output_tokens\n0,5,0\n1,4,0\n")
    assert faults(write(tmp_path, workload="{trace: {path: t.csv}}")) == [
        "s.yaml:3:12: workload.trace: t.csv: none of its 2 requests has output tokens (0 means it failed)"
    ]


# ------------------------------------------------------------------------------------------------ targets and budgets


def test_targets_and_budgets(tmp_path: Path) -> None:
    scenario = read(
        tmp_path,
        targets="{itl: {p99.9: 1 s, mean: 20 ms}, e2e: {p50: 1 min}, tpot: {p90: 30 ms}}",
        budgets="{usd_per_hour: 200 USD/h, usd_per_mtok_output: 1.20 USD/Mtok, usd_per_mtok_input: 0.1 USD/Mtok}",
    )
    assert scenario.targets == (
        Target("itl", "mean", 0.02),
        Target("itl", "p99_9", 1.0),
        Target("tpot", "p90", 0.03),
        Target("e2e", "p50", 60.0),
    )
    assert scenario.budgets == (
        Budget("usd_per_hour", 200, "USD/h"),
        Budget("usd_per_mtok_output", 1.2, "USD/Mtok"),
        Budget("usd_per_mtok_input", 0.1, "USD/Mtok"),
    )


def test_a_redundant_target_is_named(tmp_path: Path) -> None:
    scenario = read(tmp_path, targets="{ttft: {p50: 3 s, p99.9: 2 s, mean: 9 s}, itl: {p50: 10 ms, p99: 20 ms}}")
    warning = "warning: targets.ttft.p50 <= 3.00 s is redundant: p99.9 <= 2.00 s is stricter"
    assert texts(scenario) == warning


# --------------------------------------------------------------------------------------------------------- deployment


@pytest.mark.parametrize("mode", ["colocated", "colocated-chunked", "colocated-whole-prompt"])
def test_colocated_deployment(tmp_path: Path, mode: str) -> None:
    pool = "{accelerator: h200, replicas: 2, tp: 2, dp: 2, ep: 4, token_budget: 4096}"
    deployment = read(tmp_path, deployment=f"{{mode: {mode}, colocated: {pool}}}").deployment
    assert deployment is not None
    assert deployment.mode == ("colocated-chunked" if mode == "colocated" else mode)
    assert deployment.prefill is None
    assert deployment.decode == Pool("h200-sxm", 2, tp=2, dp=2, ep=4, token_budget=4096)


def test_a_deployment_can_name_the_hardware(tmp_path: Path) -> None:
    pools = "prefill: {accelerator: h100, replicas: 1}, decode: {accelerator: b200, replicas: 2}"
    scenario = read(tmp_path, hardware=None, deployment=f"{{mode: disaggregated, {pools}}}")
    assert [accelerator.id for accelerator in scenario.prefill_accelerators] == ["h100-sxm"]
    assert [accelerator.id for accelerator in scenario.decode_accelerators] == ["b200"]
    assert scenario.accelerator("b200").id == "b200"


def test_the_only_candidate_needs_no_name(tmp_path: Path) -> None:
    deployment = "{mode: colocated, colocated: {replicas: 3}}"
    scenario = read(tmp_path, hardware="{accelerators: [h100-sxm]}", deployment=deployment)
    assert scenario.deployment is not None
    assert scenario.deployment.decode == Pool("h100-sxm", 3)
    assert faults(write(tmp_path, deployment=deployment)) == [
        "s.yaml:5:31: deployment.colocated: needs the key accelerator, one of h100-sxm, h200-sxm"
    ]


# -------------------------------------------------------------------------------------------------------------- faults


def one_fault_files() -> list[tuple[dict[str, str | None], str]]:
    """Changed sections and the fault they cause, from the blocks of a text file."""
    text = (DATA / "scenario_faults.txt").read_text()
    cases: list[tuple[dict[str, str | None], str]] = []
    for block in text.split("\n\n")[1:]:
        *lines, fault = block.strip().split("\n")
        parts = [(line[1:], "", None) if line[0] == "-" else line.partition(":") for line in lines]
        sections = {key: value and value.strip() for key, _, value in parts}
        cases.append((sections, fault.removeprefix("=> ")))
    return cases


@pytest.mark.parametrize(("sections", "message"), one_fault_files(), ids=lambda value: str(value)[:40])
def test_one_fault(tmp_path: Path, sections: dict[str, str | None], message: str) -> None:
    found = faults(write(tmp_path, **sections))
    assert len(found) == 1
    start, _, end = message.partition("…")
    assert found[0].startswith(f"s.yaml:{start}")
    assert found[0].endswith(end)
    assert "…" in message or found[0] == f"s.yaml:{message}"


def test_every_fault_at_once_in_order(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        model="nobody/nothing",
        hardware="{accelerators: [h100-smx], network: 400}",
        workload="{requests: 12, input_tokens: -5, trase: x.csv}",
        targets="{ttft: {p99: 800}, itl: [30 ms]}",
        engine="vlm",
        budgets="{accelerators: none}",
        deployment="{mode: disagregated, decode: {tp: 0}}",
    )
    found = faults(path)
    places = [tuple(map(int, fault.split(":")[1:3])) for fault in found]
    assert places == sorted(places)
    assert [fault.split(": ")[1] for fault in found] == [
        "model",
        "hardware.accelerators[0]",
        "hardware.network",
        "workload.requests",
        "workload.input_tokens",
        "workload.trase",
        "targets.ttft.p99",
        "targets.itl",
        "engine",
        "budgets.accelerators",
        "deployment.mode",
        "deployment.decode",
        "deployment.decode.tp",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "s.yaml:1:1: is empty"),
        (b"- a\n- b\n", "s.yaml:1:1: want a mapping with the keys model, hardware, workload, targets; got a list"),
        (
            b"just words",
            's.yaml:1:1: want a mapping with the keys model, hardware, workload, targets; got "just words"',
        ),
        (b"\x89PNG\r\n\x00", "s.yaml:2:1: is a binary file; want UTF-8 text"),
        (
            b"model: a\n\tengine: b",
            "s.yaml:2:1: is not YAML: found a tab character that violates indentation (while scanning a plain scalar)",
        ),
        (
            b"model: a\r\nmodel: b\r\n---\r\nc: 1\r\n",
            's.yaml:2:1: key "model" is already on line 1\ns.yaml:3:1: holds a second document after "---"; want one',
        ),
        (
            b"\xef\xbb\xbfmodel: a\n- b",
            "s.yaml:2:1: is not YAML: did not find expected key (while parsing a block mapping)",
        ),
        (b"base: &b {a: 1}\n<<: *b\n", 's.yaml:2:1: merge key "<<" is not followed; write the keys out'),
        (
            b"model: a\nengine: caf\xe9\n",
            "s.yaml:2:12: is not UTF-8 text: byte 0xe9 cannot be read; save the file as UTF-8",
        ),
        ("model: a".encode("utf-16"), "s.yaml:1:1: is UTF-16 text; save it as UTF-8"),
        (b"model: \x1b[31mred", "s.yaml:1:8: control character U+001B is not allowed in YAML"),
        (b"a: &a [1, *a]", 's.yaml:1:11: alias "*a" stands inside its own anchor'),
        (
            b"a: &a [1]\n"
            + b"".join(
                b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%s" % (b"%d" % (n - 1) if n > 1 else b"")] * 9))
                for n in range(1, 9)
            ),
            "s.yaml:6:5: aliases expand to more than 100,000 values",
        ),
        (b"- " * 50_000, "s.yaml:1:81: is nested deeper than 40 levels"),
        (b"\n".join(b"k%d: 0%d" % (n, n) for n in range(1, 30)), None),
        (b"model: " + b"[" * 50 + b"]" * 50, "s.yaml:1:47: is nested deeper than 40 levels"),
    ],
)
def test_files_that_are_no_scenario(tmp_path: Path, text: bytes, message: str | None) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(text)
    if message is None:
        assert faults(path)[-1] == "s.yaml:20:6: and perhaps more: the reading stopped after 20 faults"
    else:
        assert "\n".join(faults(path)) == message


def test_files_of_any_line_ending_and_mark_are_read(tmp_path: Path) -> None:
    text = write(tmp_path).read_bytes()
    path = tmp_path / "s.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
    assert load_scenario(path).model.id == "meta-llama/Llama-3.1-70B"
    path.write_bytes(text.replace(b"{ttft", b"&t {ttft") + b"\nbudgets: {accelerators: 64}\n...\n")
    assert load_scenario(path).budgets == (Budget("accelerators", 64, "accelerators"),)


def test_a_huge_file_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    assert faults(path) == ["s.yaml: is larger than 10 MB"]


def test_a_link_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.symlink_to(path)
    assert faults(path) == ["s.yaml: cannot be read: Too many levels of symbolic links"]


def test_faults_of_values_and_of_meaning_come_together(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "model: meta-llama/Llama-3.1-71B\nhardware: {accelerators: [017, h100-smx]}\nworkload: {requests: .inf, "
        "input_tokens: 4, output_tokens: 5}\ntargets: {ttft: {p99: 1 s}}\ntargets: {itl: {p99: 3}}\nversion: !v 1\n",
    )
    found = [fault.replace("\n", " ") for fault in faults(path)]
    assert [fault.split(": ")[0] for fault in found] == [
        "s.yaml:1:1", "s.yaml:2:27", "s.yaml:2:32", "s.yaml:3:22", "s.yaml:5:1", "s.yaml:6:10"
    ]  # fmt: skip
    assert [fault.partition(": ")[2][:24] for fault in found[1:]] == [
        '017 has a leading zero; ', 'hardware.accelerators[1]', ".inf is not a finite num", 'key "targets" is already',
        'tag "!v" is not allowed;',
    ]  # fmt: skip


def test_faults_of_a_config_have_a_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{\n  "model_type": "llama",\n  "architectures": ["LlamaForCausalLM"],\n  "hidden_size": "x",\n'
        '  "num_attention_heads": 32, "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 100\n}'
    )
    found = faults(write(tmp_path, model="./config.json"))
    assert [fault.split(": ")[0] for fault in found] == ["config.json:1:1", "config.json:4:3"]


def test_no_message_reaches_the_terminal_raw(tmp_path: Path) -> None:
    found = faults(write(tmp_path, model='"red\\e[31m"', engine='"a\\nb"'))
    assert found == [
        's.yaml:1:1: model: "red\\x1b[31m" holds a control character; want printable text',
        's.yaml:5:1: engine: "a\\nb" holds a control character; want printable text',
    ]
    assert str(Fault("x\x1b]0;\u202ey\n\x9bz é ✓")) == "x\\x1b]0;\\u202ey\\n\\x9bz é ✓"


def test_missing_and_folder(tmp_path: Path) -> None:
    assert faults(tmp_path / "absent.yaml") == ["absent.yaml: no such file"]
    assert faults(tmp_path) == [f"{tmp_path}: is a folder; want a file".replace(f"{tmp_path.parent}/", "")]


def test_combinations_with_a_trace(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("time_s,input_tokens,output_tokens\n0,5,3\n1,4,3\n2,4,3\n")
    workload = "{trace: t.csv, requests: 5 /s, input_tokens: 3, peak: {factor: 2, duration: 1 min}}"
    assert faults(write(tmp_path, workload=workload)) == [
        "s.yaml:3:26: workload.requests: the trace comes at 1.00 /s by itself; "
        "to stretch it write trace: {path, requests}",
        "s.yaml:3:42: workload.input_tokens: stands beside trace:, which has its own lengths; keep one",
        "s.yaml:3:59: workload.peak: stands beside trace:, which has its own peaks; keep one",
    ]


def test_long_requests_are_noted(tmp_path: Path) -> None:
    workload = "{requests: 1 /s, input_tokens: {mean: 30000, p99: 200000}, output_tokens: 5}"
    assert "of the requests exceed the 131,072 tokens of context" in texts(read(tmp_path, workload=workload))


# ------------------------------------------------------------------------------------------------------------ overlays


def test_a_hardware_folder_beside_the_scenario(tmp_path: Path) -> None:
    shipped = EXAMPLES.parent.parent / "hardware" / "accelerators" / "h100-sxm.yaml"
    (tmp_path / "hardware").mkdir()
    (tmp_path / "hardware" / "my-card.yaml").write_text(shipped.read_text().replace("id: h100-sxm", "id: my-card"))
    scenario = read(tmp_path, hardware="{accelerators: [my-card]}")
    assert [accelerator.id for accelerator in scenario.decode_accelerators] == ["my-card"]


def test_field_faults_have_lines(tmp_path: Path) -> None:
    pool = "\n  colocated:\n    accelerator: h200-sxm\n    replicas: 1\n    tp: 16"
    document = yamlfile.load(write(tmp_path, deployment=f"\n  mode: colocated{pool}"))
    fault = field_fault(document, FieldError("deployment.decode.tp", "16 does not divide 64 heads"))
    assert str(fault) == f"{tmp_path}/s.yaml:10:5: deployment.colocated.tp: 16 does not divide 64 heads"
    listed = field_fault(document, FieldError("hardware.accelerators[1]", "is announced only"))
    assert (listed.line, listed.column) == (2, 37)
    assert field_fault(document, FieldError("targets.ttft.p99_9", "x")).message == "targets.ttft.p99.9: x"
    assert field_fault(document, FieldError("", "nothing fits")).line == 1


# -------------------------------------------------------------------------------------------------------- JSON Schema


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = scenario_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


@pytest.mark.parametrize("name", NAMES)
def test_schema_takes_the_examples(validator: Any, name: str) -> None:
    assert [error.message for error in validator.iter_errors(yamlfile.load(EXAMPLES / name).value)] == []


@pytest.mark.parametrize(
    "sections",
    [
        {"verson": "1"},
        {"model": None},
        {"hardware": "[h100-sxm]"},
        {"workload": "{requests: 12, input_tokens: 4, output_tokens: 5}"},
        {"workload": "{requests: 12 /s, input_tokens: 4k, output_tokens: 5}"},
        {"workload": "{trace: 5}"},
        {"targets": "{ttft: {p9: 1 s}}"},
        {"weights": "fp9"},
        {"kv_tiers": "{host-dram: {sise: 1 TB}}"},
        {"deployment": "{mode: colocated, colocated: {accelerator: h200}}"},
    ],
)
def test_schema_refuses_what_the_reader_refuses(
    validator: Any, tmp_path: Path, sections: dict[str, str | None]
) -> None:
    path = write(tmp_path, **sections)
    assert faults(path)
    assert list(validator.iter_errors(yamlfile.load(path).value))


def test_values_are_finite(tmp_path: Path) -> None:
    lengths = read(tmp_path).workload.lengths
    assert np.isfinite(lengths.weights).all()
