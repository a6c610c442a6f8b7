"""`planner hardware` and `planner model`."""

from __future__ import annotations

import json
from pathlib import Path

from running import Run

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_hardware_list_has_every_file(run: Run) -> None:
    listed = json.loads(run("hardware", "list", "--format", "json").stdout)
    shipped = Path(__file__).parents[2] / "hardware" / "accelerators"
    assert [entry["id"] for entry in listed] == sorted(path.stem for path in shipped.glob("*.yaml"))
    assert all("path" not in entry for entry in listed)


def test_hardware_list_as_a_table(run: Run) -> None:
    lines = run("hardware", "list", COLUMNS="20").stdout.splitlines()
    row = next(line for line in lines if line.startswith("h200-sxm "))
    assert row.split()[:7] == ["h200-sxm", "nvidia", "151.4", "GB", "4.80", "TB/s", "989"]


def test_hardware_show_states_source_date_and_kind(run: Run) -> None:
    shown = json.loads(run("hardware", "show", "h200", "--format", "json").stdout)  # an alias
    assert shown["id"] == "h200-sxm"
    for name, item in shown["values"].items():
        assert item["source"] and item["kind"], name
    text = run("hardware", "show", "h200-sxm").stdout
    assert "2026-08-22" in text and "datasheet" in text and "Operator efficiencies, fitted" in text


def test_borrowed_efficiencies_are_called_a_guess(run: Run) -> None:
    assert "borrowed from l40s: a guess" in run("hardware", "show", "l4").stdout


def test_own_catalog_wins(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    fields = "memory: 100 GB\nmemory_rate: 2 TB/s\nbf16_dense: 500 TFLOP/s\n"
    (folder / "ours-1.yaml").write_text(f"id: ours-1\nvendor: us\n{fields}", encoding="utf-8")
    shown = json.loads(run("hardware", "show", "ours-1", "--catalog", "mine", "--format", "json").stdout)
    assert shown["values"]["memory_bytes"]["value"] == 100e9


def test_hardware_list_sorted(run: Run) -> None:
    listed = json.loads(run("hardware", "list", "--sort", "hbm_bandwidth", "--format", "json").stdout)
    rates = [entry["memory_bytes_per_s"] for entry in listed]
    assert rates == sorted(rates, reverse=True)
    prices = [
        min(entry["usd_per_hour"].values(), default=float("inf"))
        for entry in json.loads(run("hardware", "list", "--sort", "price", "--format", "json").stdout)
    ]
    assert prices == sorted(prices)
    assert run("hardware", "list", "--sort", "beauty").returncode == 2


def test_hardware_lint(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    card = folder / "card.yaml"
    card.write_text("id: card\nmemory: 80 GB\nmemory_rate: 2 TB/s\nbf16_dense: 500 TFLOP/s\n", encoding="utf-8")
    done = run("hardware", "lint", "mine")
    assert done.returncode == 1
    assert done.stdout.startswith("mine/card.yaml:2:1: memory: ")
    assert json.loads(run("hardware", "lint", "mine", "--format", "json").stdout)[0]["line"] == 2
    assert run("hardware", "lint", str(Path(__file__).parents[2] / "hardware")).stdout == ""
    missing = run("hardware", "lint", "none")
    assert (missing.returncode, missing.stderr) == (2, "none: no such file or folder\n")


OWN = """\
id: my-card
vendor: us
memory: 96 GiB
memory_rate: 2.4 TB/s
bf16_dense: 400 TFLOP/s
fp8_dense: 800 TFLOP/s
scaleup_name: bridge
scaleup_rate: 300 GB/s
scaleup_domain: 4
node_accelerators: 4
host_rate: 63 GB/s
nic_rate: 400 Gb/s
tdp: 350 W
prices: {list: 1.20 USD/h}
efficiency_like: l40s
"""


def test_own_accelerator_in_fifteen_lines_is_sized(run: Run, tmp_path: Path) -> None:
    assert len(OWN.splitlines()) == 15
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my-card.yaml").write_text(OWN, encoding="utf-8")
    (tmp_path / "s.yaml").write_text(
        "model: meta-llama/Llama-3.1-8B\nweights: fp8\nhardware: {accelerators: [my-card]}\n"
        "workload: {requests: 2 /s, input_tokens: 1000, output_tokens: 200}\n"
        "targets: {ttft: {p95: 3 s}, itl: {p95: 100 ms}}\n",
        encoding="utf-8",
    )
    done = run("size", "s.yaml", "--catalog", "mine", "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    assert "my-card" in done.stdout


def test_schemas(run: Run) -> None:
    for kind, needed in (("hardware", "memory"), ("model", "layers"), ("scenario", "targets")):
        assert needed in json.loads(run("schema", kind).stdout)["properties"]
    assert run("schema", "weather").returncode == 2


def test_model_show_of_the_catalog(run: Run) -> None:
    shown = json.loads(run("model", "show", "meta-llama/Llama-3.1-70B", "--kv-dtype", "fp8", "--format", "json").stdout)
    # 80 layers * 2 (K and V) * 8 heads * 128 elements * 1 byte
    assert shown["kv_bytes_per_token"] == 163840
    assert shown["attention"] == "gqa"
    assert shown["tp_choices"][:4] == [1, 2, 4, 8]


def test_model_show_of_a_config_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    shown = json.loads(run("model", "show", "config.json", "--format", "json").stdout)
    # Llama-3.1-8B: 8.03 B parameters, 32 * 2 * 8 * 128 * 2 bytes = 131,072 per token
    assert round(shown["parameters"] / 1e9, 2) == 8.03
    assert shown["kv_bytes_per_token"] == 131072
    text = run("model", "show", ".").stdout
    assert "32 x attention, 32 heads over 8 KV heads of 128, feed-forward 14,336" in text


def test_model_list(run: Run) -> None:
    lines = run("model", "list").stdout.splitlines()
    row = next(line for line in lines if line.startswith("meta-llama/Llama-3.1-70B "))
    assert row.split()[1] == "70.55" and "327,680" in row


def test_model_list_of_a_kind(run: Run) -> None:
    listed = json.loads(run("model", "list", "--kind", "hybrid", "--format", "json").stdout)
    assert {"moonshotai/Kimi-K3", "Qwen/Qwen3.5-27B"} <= {entry["id"] for entry in listed}
    assert "meta-llama/Llama-3.1-70B" not in {entry["id"] for entry in listed}


def test_tokens_for(run: Run) -> None:
    # 40e9 / 70,272 bytes per token
    assert (
        "569,216 tokens of one sequence"
        in run("model", "show", "deepseek-ai/DeepSeek-V3", "--tokens-for", "40 GB").stdout
    )
    assert "any number of tokens" in run("model", "show", "Mistral-7B-v0.1", "--tokens-for", "40 GB").stdout
    wrong = run("model", "show", "Mistral-7B-v0.1", "--tokens-for", "40")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith('--tokens-for: "40" has no unit')


def test_model_import_writes_a_file_that_is_the_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "odd_head_width": 3}), encoding="utf-8")
    done = run("model", "import", "config.json", "-o", "models/us--small.yaml")
    assert (done.returncode, done.stderr) == (
        2,
        "models/us--small.yaml: cannot be written: No such file or directory\n",
    )
    (tmp_path / "models").mkdir()
    done = run("model", "import", "config.json", "-o", "models/us--small.yaml")
    assert (done.returncode, done.stdout) == (0, "")
    assert "8.03 billion" in done.stderr
    assert "not read, and taken to leave the shape alone: odd_head_width" in done.stderr
    shown = json.loads(run("model", "show", "us/small", "--catalog", ".", "--format", "json").stdout)
    assert (shown["id"], round(shown["parameters"] / 1e9, 2), shown["kv_bytes_per_token"]) == ("us/small", 8.03, 131072)
    again = run("model", "import", "config.json", "-o", "models/us--small.yaml")
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert run("model", "import", "config.json", "-o", "models/us--small.yaml", "--force").returncode == 0
    assert run("model", "import", "config.json").stdout.splitlines()[1].startswith("id: ")


def test_import_of_what_cannot_be_counted_writes_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({**CONFIG, "model_type": "novel", "hidden_act": "silu", "num_memory_layers": 4}), encoding="utf-8"
    )
    done = run("model", "import", "config.json", "-o", "m.yaml")
    assert (done.returncode, done.stdout, (tmp_path / "m.yaml").exists()) == (2, "", False)
    first, hint = done.stderr.splitlines()[:2]
    assert first == "config.json:1:327: not understood, and may change the shape of the model: num_memory_layers"
    assert "describe it by hand" in hint


def test_bad_model_files_are_one_line_each(run: Run, tmp_path: Path) -> None:
    """Each refused with exit code 2, one line that names the file, and nothing on stdout."""
    cases: dict[str, tuple[bytes, str]] = {
        "cut.json": (b'{"hidden_size": 4096,', "is not JSON, or cut short"),
        "infinite.json": (
            json.dumps({**CONFIG, "hidden_size": float("inf")}).encode(), "hidden_size: inf is not a whole number"
        ),
        "list.json": (json.dumps({**CONFIG, "hidden_size": [1, 2]}).encode(), "hidden_size: [1, 2] is not a whole"),
        "negative.json": (json.dumps({**CONFIG, "vocab_size": -5}).encode(), "vocab_size: -5 is not between"),
        "absurd.json": (json.dumps({**CONFIG, "hidden_size": 10**9}).encode(), "hidden_size: 1000000000 is not"),
        "huge.json": (b" " * 10_000_001, "is larger than 10 MB"),
        "model.safetensors": (b"\x10\0\0\0\0\0\0\0{}", "holds weights; give the config.json beside it"),
        "weights.json": (b"\x10\0\0\0\0\0\0\0{}", "is a binary file"),
        "adapter.json": (b'{"peft_type": "LORA", "base_model_name_or_path": "a/b"}', 'give its base model "a/b"'),
        "bert.json": (b'{"architectures": ["BertForMaskedLM"], "model_type": "bert"}', "generates no text"),
        "t5.json": (b'{"architectures": ["T5Model"], "is_encoder_decoder": true}', "has an encoder and a decoder"),
        "flux.json": (b'{"_class_name": "FluxTransformer2DModel"}', "part of a diffusion pipeline"),
    }  # fmt: skip
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        done = run("model", "show", f"./{name}")
        assert (done.returncode, done.stdout) == (2, ""), name
        assert done.stderr.startswith(f"{name}:") and done.stderr.count("\n") == 1, done.stderr
        assert message in done.stderr, done.stderr
    (tmp_path / "empty").mkdir()
    assert "holds no config.json" in run("model", "show", "./empty").stderr
