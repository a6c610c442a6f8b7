"""How tests start the program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
STUBBED = Path(__file__).with_name("stubbed.py")

PATIENCE_S = 300  # a guard against hanging for ever: much more than anything takes on a busy machine

# Two pools for a model of 70 billion parameters; `two_pools` fills in what a test is about.
_TWO_POOLS = """\
version: 1
model: meta-llama/Llama-3.1-70B
weights: fp8
engine: vllm
hardware: {{accelerators: [h200-sxm]}}
workload: {{requests: {requests}, input_tokens: {input_tokens}, output_tokens: {output_tokens}}}
targets: {{ttft: {{p99: {ttft}}}, itl: {{p99: {itl}}}}}
deployment:
  mode: disaggregated
  prefill: {{accelerator: h200-sxm, tp: {prefill[0]}, replicas: {prefill[1]}}}
  decode: {{accelerator: h200-sxm, tp: 2, replicas: {decode}, max_batch: 128}}
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment(extra: dict[str, str]) -> dict[str, str]:
    """This process's environment without what changes output, and `extra`."""
    unwanted = ("NO_COLOR", "TERM", "COLUMNS", "PYTHONIOENCODING", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))),
        "PYTHONUTF8": "0",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        **extra,
    }


def run_process(command: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=environment(env), timeout=PATIENCE_S
    )


def opened_for_writing(fifo: Path, process: subprocess.Popen[str]) -> int:
    """The descriptor of a named pipe, once `process` or a child of it reads there; fails when it ends instead."""
    while process.poll() is None:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            time.sleep(0.01)
    raise AssertionError(f"ended with {process.returncode} before it read {fifo.name}")


def two_pools(
    requests: str, input_tokens: str, output_tokens: int, ttft: str, itl: str, prefill: tuple[int, int], decode: int
) -> str:
    """A scenario; `prefill` is the TP and the number of its workers, `decode` the number of workers of TP 2."""
    return _TWO_POOLS.format(
        requests=requests, input_tokens=input_tokens, output_tokens=output_tokens, ttft=ttft, itl=itl,
        prefill=prefill, decode=decode,
    )  # fmt: skip
