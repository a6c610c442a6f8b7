"""What every Kubernetes manifest needs of a pool: names, labels, node selectors, resources, probes, shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.export.flags import Flag
from planner.export.launch import Launch, Worker
from planner.export.yamltext import Commented

ACCELERATOR_LABEL = "planner/accelerator"
SECRET = "model-hub-token"
NIC_RESOURCE = "rdma/ib"
MODEL_HUB_VARIABLE = "HF_TOKEN"

# Device plugin resource of a vendor, and the node label under which its discovery publishes the part's name.
_RESOURCES = {
    "nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "habana.ai/gaudi", "google": "google.com/tpu",
    "aws": "aws.amazon.com/neuron", "huawei": "huawei.com/Ascend910",
}  # fmt: skip
_PRODUCT_LABELS = {"nvidia": "nvidia.com/gpu.product", "amd": "amd.com/gpu.product-name"}
_PRODUCTS = {
    "a100-pcie-80": "NVIDIA-A100-80GB-PCIe", "a100-sxm-40": "NVIDIA-A100-SXM4-40GB",
    "a100-sxm-80": "NVIDIA-A100-SXM4-80GB", "a10g": "NVIDIA-A10G", "a30": "NVIDIA-A30", "a40": "NVIDIA-A40",
    "b200": "NVIDIA-B200", "b300": "NVIDIA-B300-SXM6-AC", "gb200": "NVIDIA-GB200", "gb300": "NVIDIA-GB300",
    "gh200-144": "NVIDIA-GH200-144G-HBM3e", "h100-nvl": "NVIDIA-H100-NVL", "h100-pcie": "NVIDIA-H100-PCIe",
    "h100-sxm": "NVIDIA-H100-80GB-HBM3", "h20": "NVIDIA-H20", "h200-sxm": "NVIDIA-H200", "h800": "NVIDIA-H800",
    "l4": "NVIDIA-L4", "l40s": "NVIDIA-L40S", "rtx-4090": "NVIDIA-GeForce-RTX-4090",
    "rtx-5090": "NVIDIA-GeForce-RTX-5090", "mi300x": "AMD_Instinct_MI300X_OAM", "mi325x": "AMD_Instinct_MI325X_OAM",
}  # fmt: skip


def gpu_resource(worker: Worker) -> str:
    return _RESOURCES.get(worker.vendor, "nvidia.com/gpu")


def node_selector(worker: Worker) -> dict[str, Any]:
    """The label of nodes that have the plan's accelerator; one of our own where no discovery names the part."""
    label = _PRODUCT_LABELS.get(worker.vendor)
    if label and worker.accelerator in _PRODUCTS:
        return {label: Commented(_PRODUCTS[worker.accelerator], worker.field("accelerator"))}
    return {ACCELERATOR_LABEL: Commented(worker.accelerator, f"{worker.field('accelerator')}; label your nodes so")}


def labels(worker: Worker) -> dict[str, Any]:
    return {ACCELERATOR_LABEL: worker.accelerator}


def resources(launch: Launch, worker: Worker) -> dict[str, Any]:
    """Accelerators of a pod, and its network cards where caches or ranks cross nodes."""
    count = str(worker.accelerators_per_node)
    limits: dict[str, Any] = {gpu_resource(worker): Commented(count, f"{worker.field('tp')} x pp x dp, of a node")}
    if not launch.colocated or worker.nodes > 1:
        limits[NIC_RESOURCE] = Commented(count, "a network card for each accelerator; the name differs by cluster")
    return {"limits": limits, "requests": dict(limits)}


def arguments(flags: Sequence[Flag]) -> list[Commented]:
    return [Commented(flag.text, flag.why) for flag in flags]


def environment(launch: Launch, extra: Sequence[tuple[str, str, str]] = ()) -> list[dict[str, Any]]:
    """The hub's token from a secret, never written here, and what the connector needs."""
    token = {"name": SECRET, "key": MODEL_HUB_VARIABLE, "optional": True}
    entries: list[dict[str, Any]] = [{"name": MODEL_HUB_VARIABLE, "valueFrom": {"secretKeyRef": token}}]
    for name, value, why in extra:
        if value == POD_IP:
            field = {"fieldRef": {"fieldPath": "status.podIP"}}
            entries.append({"name": Commented(name, why), "valueFrom": field})
        else:
            entries.append({"name": Commented(name, why), "value": value})
    return entries


POD_IP = "status.podIP"


def probes(port: int | str, path: str = "/health") -> Mapping[str, Any]:
    """A long wait for the model to load, then readiness and liveness."""
    check = {"path": path, "port": port}
    return {
        "startupProbe": {
            "httpGet": check,
            "periodSeconds": 10,
            "failureThreshold": Commented(360, "an hour to load the weights"),
        },
        "readinessProbe": {"httpGet": check, "periodSeconds": 5},
        "livenessProbe": {"httpGet": check, "periodSeconds": 10, "failureThreshold": 6},
    }


SHARED_MEMORY_VOLUME = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
SHARED_MEMORY_MOUNT = {"name": "shared-memory", "mountPath": "/dev/shm"}


def products() -> Mapping[str, str]:
    """Accelerator ids by the product name under which clusters label their nodes."""
    return {product: accelerator for accelerator, product in _PRODUCTS.items()}
