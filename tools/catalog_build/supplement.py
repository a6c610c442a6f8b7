"""What the accelerator table does not hold: host size, compute units, sparse peaks, whose efficiency to borrow."""

from __future__ import annotations

from typing import NamedTuple

FITTED_UNITS = "multiprocessors of the part, as used in the prefill attention fits"
PUBLISHED_UNITS = "vendor architecture description, from memory, not checked again"
GUESSED_UNITS = "not published in this form; order of magnitude only"


class Extra(NamedTuple):
    """One accelerator: `like` names the sibling whose operator fits are borrowed where it has none of its own."""

    node_accelerators: int
    node_source: str
    compute_units: int
    units_source: str
    like: str


_HGX = "8 per baseboard (HGX and OAM platforms)"
_PCIE = "8 cards per server, usual for PCIe servers"
_TRAY = "4 per compute tray"

EXTRA: dict[str, Extra] = {
    "a100-sxm-80": Extra(8, _HGX, 108, FITTED_UNITS, "h100-sxm"),
    "a100-sxm-40": Extra(8, _HGX, 108, FITTED_UNITS, "a100-sxm-80"),
    "a100-pcie-80": Extra(8, _PCIE, 108, FITTED_UNITS, "a100-sxm-80"),
    "a30": Extra(8, _PCIE, 56, PUBLISHED_UNITS, "a100-sxm-80"),
    "a40": Extra(8, _PCIE, 84, PUBLISHED_UNITS, "l40s"),
    "a10g": Extra(8, _PCIE, 80, PUBLISHED_UNITS, "l40s"),
    "l4": Extra(8, _PCIE, 58, PUBLISHED_UNITS, "l40s"),
    "l40s": Extra(8, _PCIE, 142, FITTED_UNITS, ""),
    "h100-sxm": Extra(8, _HGX, 132, FITTED_UNITS, ""),
    "h100-pcie": Extra(8, _PCIE, 114, PUBLISHED_UNITS, "h100-sxm"),
    "h100-nvl": Extra(8, _PCIE, 132, PUBLISHED_UNITS, "h100-sxm"),
    "h800": Extra(8, _HGX, 132, PUBLISHED_UNITS, "h100-sxm"),
    "h20": Extra(8, _HGX, 78, PUBLISHED_UNITS, "h100-sxm"),
    "h200-sxm": Extra(8, _HGX, 132, FITTED_UNITS, ""),
    "gh200-144": Extra(1, "1 per superchip", 132, PUBLISHED_UNITS, "h200-sxm"),
    "b200": Extra(8, _HGX, 148, FITTED_UNITS, ""),
    "b300": Extra(8, _HGX, 148, FITTED_UNITS, ""),
    "gb200": Extra(4, _TRAY, 148, FITTED_UNITS, ""),
    "gb300": Extra(4, _TRAY, 148, FITTED_UNITS, ""),
    "rubin-vr200": Extra(4, _TRAY, 224, PUBLISHED_UNITS, "gb200"),
    "rtx-4090": Extra(8, _PCIE, 128, PUBLISHED_UNITS, "l40s"),
    "rtx-5090": Extra(8, _PCIE, 170, PUBLISHED_UNITS, "rtx-pro-6000"),
    "rtx-pro-6000": Extra(8, _PCIE, 188, FITTED_UNITS, ""),
    "mi250x": Extra(4, "4 packages (8 dies) per host", 220, PUBLISHED_UNITS, "a100-sxm-80"),
    "mi300x": Extra(8, _HGX, 304, PUBLISHED_UNITS, "h100-sxm"),
    "mi325x": Extra(8, _HGX, 304, PUBLISHED_UNITS, "h200-sxm"),
    "mi355x": Extra(8, _HGX, 256, PUBLISHED_UNITS, "b200"),
    "mi455x": Extra(4, _TRAY, 256, GUESSED_UNITS, "gb200"),
    "gaudi3": Extra(8, _HGX, 64, PUBLISHED_UNITS, "h100-sxm"),
    "intel-b60": Extra(8, _PCIE, 20, FITTED_UNITS, "l40s"),
    "tpu-v5e": Extra(8, "8 chips per host, of which the NIC pair is shared", 4, GUESSED_UNITS, "h100-sxm"),
    "tpu-v5p": Extra(4, "4 chips per host", 8, GUESSED_UNITS, "h100-sxm"),
    "tpu-v6e": Extra(8, "8 chips per host", 4, GUESSED_UNITS, "h100-sxm"),
    "tpu-v7-ironwood": Extra(4, "4 chips per host", 8, GUESSED_UNITS, "h100-sxm"),
    "trainium2": Extra(16, "16 chips in trn2.48xlarge", 8, PUBLISHED_UNITS, "h100-sxm"),
    "inferentia2": Extra(12, "12 chips in inf2.48xlarge", 2, PUBLISHED_UNITS, "h100-sxm"),
    "ascend-910b": Extra(8, _HGX, 24, PUBLISHED_UNITS, "h100-sxm"),
    "ascend-910c": Extra(8, "8 per node of CloudMatrix384 (48 nodes)", 48, GUESSED_UNITS, "h100-sxm"),
}

# Memory that the driver reports to a program, where a recorded run tells it; it wins over the figure on the box.
VISIBLE_MEMORY: dict[str, tuple[str, str]] = {
    "rtx-4090": ("25250627584", "device memory in a run recorded with vLLM 0.19.0, casys-kaist/LLMServingSim (MIT)"),
}

# Sparse peaks that a source names, in TFLOP/s. They are never used to predict; they keep dense and sparse apart.
SPARSE: dict[str, dict[str, tuple[str, str]]] = {
    "h100-sxm": {
        "bf16_sparse": ("1979", "H100 spec sheet (sparse)"),
        "fp8_sparse": ("3958", "H100 spec sheet (sparse)"),
    },
    "h100-nvl": {
        "bf16_sparse": ("1671", "H100 NVL datasheet figures (sparse)"),
        "fp8_sparse": ("3341", "H100 NVL datasheet figures (sparse)"),
    },
    "l40s": {"fp8_sparse": ("1466", "L40S datasheet figure (sparse), quoted in a calibrated simulator")},
    "rtx-5090": {"fp4_sparse": ("3352", "Linux Format 2025-05 (sparse)")},
    "rtx-pro-6000": {"fp4_sparse": ("4000", "4000 AI TOPS, server edition (sparse, rounded)")},
}

# Facts counted in other pieces than this catalog's accelerator.
SCALEUP_DOMAIN = {
    "mi250x": ("4", "8 dies (GCDs) are 4 packages; memory and peaks here are of the package"),
}
