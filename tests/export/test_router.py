"""The exported router: least busy worker first, and prefill before decode with the cache's address in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from planner.export.router import Pool, prefill_request, serve


class Engine:
    """A stand-in for a worker: remembers what it was asked and answers in two pieces."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                engine.asked.append(request)
                handed = request.get("kv_transfer_params") or {}
                params = {"remote_engine_id": "one"} if handed.get("do_remote_decode") else None
                body = json.dumps({"kv_transfer_params": params, "text": "x" * 10}).encode()
                self.send_response(400 if request.get("model") == "unknown" else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def engines() -> Iterator[tuple[Engine, Engine]]:
    pair = (Engine(), Engine())
    yield pair
    for engine in pair:
        engine.server.shutdown()


def ask(port: int, request: object, path: str = "/v1/completions") -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", path, request if isinstance(request, bytes) else json.dumps(request).encode())
    answer = connection.getresponse()
    return answer.status, answer.read()


def running(serving: list[str], prefill: list[str]) -> int:
    server = serve(0, serving, prefill)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def test_the_cache_moves_from_prefill_to_decode(engines: tuple[Engine, Engine]) -> None:
    prefill, decode = engines
    port = running([decode.url], [prefill.url])
    request = {"model": "m", "prompt": "p", "max_tokens": 9, "stream": True, "stream_options": {}}
    status, body = ask(port, request)
    assert status == 200 and b"xxx" in body
    (first,), (second,) = prefill.asked, decode.asked
    assert first["max_tokens"] == 1 and first["stream"] is False and "stream_options" not in first
    assert first["kv_transfer_params"]["do_remote_decode"] is True
    assert second["max_tokens"] == 9 and second["kv_transfer_params"] == {"remote_engine_id": "one"}


def test_a_refusal_of_prefill_is_the_answer(engines: tuple[Engine, Engine]) -> None:
    prefill, decode = engines
    port = running([decode.url], [prefill.url])
    assert ask(port, {"model": "unknown"})[0] == 400
    assert ask(port, b"{no json")[0] == 400
    assert decode.asked == []


def test_other_paths_and_shared_pools_pass_through(engines: tuple[Engine, Engine]) -> None:
    one, other = engines
    port = running([one.url, other.url], [])
    for _ in range(2):
        assert ask(port, {"model": "m"})[0] == 200
    # an answer may reach the client before the router has counted it: either engine may have the second request
    assert len(one.asked) + len(other.asked) == 2


def test_a_dead_worker_is_named() -> None:
    status, body = ask(running(["http://127.0.0.1:9"], []), {"model": "m"})
    assert status == 502 and b"worker 0" in body


def test_the_least_busy_worker_is_taken() -> None:
    pool = Pool(["a", "b", "c"])
    assert [pool.take(), pool.take(), pool.take()] == [0, 1, 2]
    pool.give_back(1)
    assert pool.take() == 1


def test_completion_tokens_of_chat_are_cut_too() -> None:
    short = prefill_request({"max_completion_tokens": 99, "min_tokens": 4})
    assert short["max_completion_tokens"] == 1 and "min_tokens" not in short
