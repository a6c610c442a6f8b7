"""Finding and reading catalog files: shipped ones, a user's own, and broken ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files import catalog
from planner.files.catalog import Catalog, accelerator_id, engine_id, listing, shipped_folder

MINIMAL = "id: {}\nmemory: 96 GB\nmemory_rate: 2.4 TB/s\nbf16_dense: 400 TFLOP/s\n"


def write(folder: Path, name: str, text: str = "") -> Path:
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or MINIMAL.format(Path(name).name))
    return path


def faults(extra: Path, name: str = "card") -> list[str]:
    with pytest.raises(InputError) as caught:
        Catalog([extra]).accelerator(name)
    return [str(fault) for fault in caught.value.faults]


def test_a_short_file_is_enough(tmp_path: Path) -> None:
    write(tmp_path, "card")
    card = Catalog([tmp_path]).accelerator("card")
    assert (card.memory_bytes, card.memory_bytes_per_s, card.bf16_dense_flops_per_s) == (96e9, 2.4e12, 400e12)
    assert card.fp8_dense_flops_per_s is None
    assert (card.scaleup_domain, card.node_accelerators, card.usd_per_hour) == (1, 8, {})
    assert card.efficiency_like == "h100-sxm"
    assert card.provenance["efficiency_like"].kind == "estimate"
    assert card.provenance["compute_units"].kind == "estimate"
    assert card.provenance["memory_bytes"].source == str(tmp_path / "card.yaml")
    assert {fit.dtype for fit in card.fits} == {"bf16", "int4", "mxfp4"}  # nothing that needs 8-bit units


def test_every_key(tmp_path: Path) -> None:
    text = MINIMAL.format("card") + (
        "kind: accelerator\nvendor: acme\nstatus: announced\n"
        "fp8_dense: {value: 800 TFLOP/s, source: leaflet, kind: vendor}\n"
        "fp4_dense: 1600 TFLOP/s\nint8_dense: 800 TOP/s\nbf16_sparse: 800 TFLOP/s\nscaleup_name: bridge\n"
        "scaleup_rate: 300 GB/s\nscaleup_domain: 4\nnode_accelerators: 4\nhost_rate: 63 GB/s\nnic_rate: 400 Gb/s\n"
        "tdp: 350 W\nall_in_power: 0.9 kW\ncompute_units: 120\nprices: {list: 1.20 USD/h}\npurchase: 9000 USD\n"
        "efficiency_like: l40s\nnotes: fast\n"
    )
    write(tmp_path, "card", text)
    card = Catalog([tmp_path]).accelerator("card")
    assert (card.vendor, card.status, card.notes, card.scaleup_name) == ("acme", "announced", "fast", "bridge")
    assert (card.fp8_dense_flops_per_s, card.int8_dense_flops_per_s) == (800e12, 800e12)
    assert (card.scaleup_bytes_per_s, card.scaleup_domain, card.node_accelerators) == (300e9, 4, 4)
    assert (card.nic_bytes_per_s, card.tdp_watts, card.all_in_watts) == (50e9, 350, 900)
    assert (card.usd_per_hour, card.purchase_usd, card.compute_units) == ({"list": 1.2}, 9000, 120)
    assert card.provenance["fp8_dense_flops_per_s"].source == "leaflet"
    assert card.efficiency_like == "l40s"
    assert "fp8" in {fit.dtype for fit in card.fits}


def test_a_scale_up_rate_alone_means_a_domain_of_eight(tmp_path: Path) -> None:
    write(tmp_path, "card", MINIMAL.format("card") + "scaleup_rate: 300 GB/s\n")
    assert Catalog([tmp_path]).accelerator("card").scaleup_domain == 8


def test_a_users_file_wins_and_the_first_folder_wins_over_the_second(tmp_path: Path) -> None:
    write(tmp_path / "one", "h100-sxm")
    write(tmp_path / "two", "h100-sxm", MINIMAL.format("h100-sxm").replace("96 GB", "12 GB"))
    write(tmp_path / "two" / "accelerators", "mirrored")
    mine = Catalog([tmp_path / "one", tmp_path / "two"])
    assert mine.accelerator("h100").memory_bytes == 96e9
    assert mine.accelerator("h100-sxm").efficiency_like == ""  # the shipped fits of that id still hold
    assert "mirrored" in mine.accelerator_ids()
    assert Catalog().accelerator("h100-sxm").memory_bytes == 80 * 2**30


def test_a_single_file_is_a_catalog_too(tmp_path: Path) -> None:
    assert Catalog([write(tmp_path, "card")]).accelerator("card").memory_bytes == 96e9


def test_fits_of_a_users_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        "efficiency/mi300x",
        "id: mi300x\nfits:\n  gemm:\n    sources: {any: my runs}\n"
        "    columns: [dtype, engine, start_up, compute_fraction, memory_fraction, exponent]\n"
        "    rows:\n      - [bf16, any, 5 us, 0.6, 0.8, 2]\n",
    )
    part = Catalog([tmp_path]).accelerator("mi300x")
    assert part.efficiency_like == ""
    (gemm,) = [fit for fit in part.fits if fit.operator == "gemm"]
    assert (gemm.start_up_s, gemm.compute_fraction, gemm.source) == (pytest.approx(5e-6), 0.6, "my runs")
    others = [fit for fit in part.fits if fit.operator != "gemm"]
    assert others
    assert all(fit.source.startswith("borrowed from h100-sxm") and fit.trust == "low" for fit in others)


def test_flat_files_of_another_kind_are_told_by_their_kind(tmp_path: Path) -> None:
    shipped = (shipped_folder() / "engines" / "vllm.yaml").read_text()
    write(tmp_path, "mine", "kind: engine\n" + shipped.replace("id: vllm", "id: mine"))
    write(tmp_path, "wire", "kind: link\nid: wire\nclass: nic\nscope: per port\nrate: 100 Gb/s\n")
    mine = Catalog([tmp_path])
    assert mine.engine("mine").colocated == Catalog().engine("vllm").colocated
    assert {link.id: link.bytes_per_s for link in mine.links()}["wire"] == 12.5e9
    assert "mine" not in mine.accelerator_ids()


def test_every_fault_of_a_file_with_its_place(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "card",
        "id: card\nmemory: 96\nmemory_rate: 2.4 TB\nfp8_dense: {value: 0 TFLOP/s, sauce: x}\ntpd: 300 W\n"
        "prices: {list: 1.2}\nstatus: sold\n",
    )
    found = faults(tmp_path)
    assert [message.split(": ")[0] for message in found] == [
        f"{path}:{place}" for place in ("1:1", "2:1", "3:1", "4:13", "4:31", "5:1", "6:10", "7:1")
    ]
    assert 'bf16_dense: is missing; want e.g. "989.4 TFLOP/s"' in found[0]
    assert 'memory: 96 has no unit; want e.g. "96 GB"' in found[1]
    assert "memory_rate" in found[2]
    assert "must be more than 0" in found[3]
    assert "fp8_dense.sauce: unknown key" in found[4]
    assert 'tpd: unknown key; did you mean "tdp"?' in found[5]
    assert "prices.list" in found[6]
    assert 'status: "sold" is not possible' in found[7]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bf16_sparse: 399 TFLOP/s", "bf16_dense: is larger than bf16_sparse"),
        ("efficiency_like: h100x", 'no operator fits of "h100x"; did you mean "h100-sxm"?'),
        ("prices: 3 USD/h", "prices: "),
        ("scaleup_domain: 2.5", "scaleup_domain: "),
        ("vendor: 5", "vendor: 5 is not text"),
        ("tdp: {source: leaflet}", "tdp: is missing; want a value"),
    ],
)
def test_single_faults(tmp_path: Path, line: str, message: str) -> None:
    write(tmp_path, "card", MINIMAL.format("card") + line + "\n")
    (found,) = faults(tmp_path)
    assert message in found
    assert ":" in found.split("card.yaml")[1]


def test_the_id_is_the_name_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, "card", MINIMAL.format("other"))
    assert "rename the file to other.yaml" in faults(tmp_path)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("columns: [dtype, engine, speed]\n    rows: [[bf16, any, 1]]", "fits.gemm.columns[2]"),
        ("columns: [dtype, trust]\n    rows: [[bf16, high]]", 'has no column "engine"'),
        ("columns: [dtype, engine]\n    rows: [[bf16]]", "fits.gemm.rows[0]: has not one value for each"),
        ("columns: [dtype, engine, compute_fraction]\n    rows: [[bf16, any, 1.2]]", "1.2 is more than 1"),
        ("columns: [dtype, engine, start_up]\n    rows: [[bf16, any, 5]]", "start_up: 5 has no unit"),
        ("columns: [dtype, engine]\n    rows: [[fp7, any]]", '"fp7" is not possible'),
        ("columns: [dtype, engine, window]\n    rows: [[bf16, any, 1]]", "neither true nor false"),
        ("rows: [[bf16]]", "fits.gemm.columns: is missing"),
    ],
)
def test_faults_of_an_efficiency_file(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "card")
    write(tmp_path, "efficiency/card", f"id: card\nfits:\n  gemm:\n    {text}\n")
    assert message in "\n".join(faults(tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("scheduling: mixed", "scheduling: mixd"), 'did you mean "mixed"'),
        (("  kernel_gap: ", "  kernel_gap: about "), "colocated.kernel_gap"),
        (("  basis: total", "  basis: all"), "memory.basis"),
        (("  collective_factor:", "  colective_factor:"), 'did you mean "collective_factor"'),
        (("colocated/known-cell: [0.", "colocated/known-cell: [9."), "low before high"),
        (("colocated/common: [", "colocated/common: [9, "), "want 20 log factors"),
        (("interval_growth:\n", "interval_growth:\n  2: [1, 1]\n"), "want a share between 0 and 1"),
        (("interval_widths:\n", "interval_widths:\n  a/b/c: [1]\n"), "TTFT low, TTFT high], factors on log intervals"),
        (("token_budget: 8192", "token_budget: 0"), "must be more than 0"),
        (("block_tokens: 16", "block_tokens: 1 kB"), "memory.block_tokens"),
    ],
)
def test_faults_of_an_engine_file(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    shipped = (shipped_folder() / "engines" / "vllm.yaml").read_text()
    assert change[0] in shipped
    write(tmp_path, "engines/vllm", shipped.replace(*change))
    with pytest.raises(InputError) as caught:
        Catalog([tmp_path]).engine("vllm")
    assert message in str(caught.value)


def test_unknown_ids_and_folders(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        Catalog().accelerator("h1000")
    with pytest.raises(KeyError):
        Catalog().engine("llama.cpp")
    with pytest.raises(InputError, match="no such file or folder"):
        Catalog([tmp_path / "none"])


def test_faults_lists_what_is_wrong_in_a_whole_folder(tmp_path: Path) -> None:
    write(tmp_path, "one", "id: one\nmemory: 1 GB\n")
    write(tmp_path, "two", "[")
    write(tmp_path, "links/wire", "id: wire\nclass: nic\nrate: 5 GB\n")
    named = {Path(fault.path).name for fault in Catalog([tmp_path]).faults()}
    assert named == {"one.yaml", "two.yaml", "wire.yaml"}


def test_spellings() -> None:
    assert [engine_id(name) for name in ("TRTLLM", "trt-llm", "vLLM", "other")] == [
        "tensorrt-llm", "tensorrt-llm", "vllm", "other",
    ]  # fmt: skip
    assert [accelerator_id(name) for name in ("H100", "h200", "NVIDIA GB200 NVL72", "mi300_x", "a100")] == [
        "h100-sxm", "h200-sxm", "gb200", "mi300-x", "a100-sxm-80",
    ]  # fmt: skip
    assert Catalog().accelerator("H200").id == "h200-sxm"
    assert Catalog().engine("trtllm").id == "tensorrt-llm"


def test_the_hash_covers_the_file_and_the_fits_it_uses(tmp_path: Path) -> None:
    write(tmp_path, "card")
    first = Catalog([tmp_path]).accelerator("card").sha256
    assert first == Catalog([tmp_path]).accelerator("card").sha256
    fits = (shipped_folder() / "efficiency" / "h100-sxm.yaml").read_text()
    write(tmp_path, "efficiency/h100-sxm", fits + "# changed\n")
    assert Catalog([tmp_path]).accelerator("card").sha256 != first


def test_a_wheel_holds_the_catalog_inside_and_a_checkout_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "planner"
    package.mkdir(parents=True)
    monkeypatch.setattr(catalog, "_PACKAGE", package)
    with pytest.raises(FileNotFoundError, match="reinstall"):
        shipped_folder()
    write(tmp_path / "site" / "hardware" / "accelerators", "beside")
    assert Catalog().accelerator_ids() == ("beside",)
    write(package / "hardware" / "accelerators", "inside")
    assert Catalog().accelerator_ids() == ("inside",)


def test_listing_is_short_and_ordered(tmp_path: Path) -> None:
    write(tmp_path, "a0")
    rows = listing([tmp_path])
    assert rows[0].id == "a0"
    assert [row.id for row in rows] == sorted(row.id for row in rows)
    h100 = next(row for row in rows if row.id == "h100-sxm")
    assert (h100.usd_per_hour["cloud_low"], h100.efficiency_like) == (1.99, "")
    assert next(row for row in rows if row.id == "mi300x").efficiency_like == "h100-sxm"


def test_listing_loads_no_array_library() -> None:
    code = "import sys; from planner.files.catalog import listing; listing(); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_file_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = Catalog()
    read: list[Path] = []
    load = catalog.load

    def counted(path: Path) -> object:
        read.append(path)
        return load(path)

    monkeypatch.setattr(catalog, "load", counted)
    assert shipped.accelerator("mi300x") is shipped.accelerator("mi300x")
    assert [path.stem for path in read] == ["mi300x", "h100-sxm"]
