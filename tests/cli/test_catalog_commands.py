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
