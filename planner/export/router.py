#!/usr/bin/env python3
"""Router in front of model workers: a small HTTP proxy that needs nothing but Python.

With --colocated a request goes to the worker with the fewest requests in flight. With --prefill and --decode it goes
to a prefill worker first, which answers with where its KV cache is, and then with that answer to a decode worker. It is
made for tests and small installations; a gateway with health checks and KV-aware routing can replace it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 3600
PASSED_ON = ("authorization", "content-type", "accept", "x-request-id")
COMPLETIONS = ("/v1/completions", "/v1/chat/completions")


class Pool:
    """Workers with one role; `take` chooses the one with the fewest requests in flight."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.in_flight = dict.fromkeys(range(len(urls)), 0)
        self.lock = threading.Lock()

    def take(self) -> int:
        with self.lock:
            chosen = min(self.in_flight, key=lambda worker: self.in_flight[worker])
            self.in_flight[chosen] += 1
            return chosen

    def give_back(self, worker: int) -> None:
        with self.lock:
            self.in_flight[worker] -= 1


def ask(url: str, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> http.client.HTTPResponse:
    """Send one request to a worker; the answer is still to be read."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=TIMEOUT_S)
    connection.request(method, path, body or None, dict(headers))
    return connection.getresponse()


def prefill_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """The same request for one token, whose cache stays until a decode worker has fetched it."""
    handed_over = {"do_remote_decode": True, "do_remote_prefill": False}
    short: dict[str, Any] = {**request, "stream": False, "max_tokens": 1, "kv_transfer_params": handed_over}
    if "max_completion_tokens" in short:
        short["max_completion_tokens"] = 1
    short.pop("stream_options", None)
    short.pop("min_tokens", None)
    return short


class Handler(BaseHTTPRequestHandler):
    """One client request."""

    protocol_version = "HTTP/1.1"
    prefill: Pool | None = None
    serving: Pool

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(200, b"", "text/plain")
        else:
            self._forward("GET", b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.prefill is None or self.path not in COMPLETIONS:
            self._forward("POST", body)
            return
        try:
            request = json.loads(body)
        except ValueError:
            self._answer(400, b'{"error": "the body is not JSON"}')
            return
        worker = self.prefill.take()
        try:
            sent = json.dumps(prefill_request(request)).encode()
            answer = ask(self.prefill.urls[worker], "POST", self.path, sent, self._headers())
            text = answer.read()
        except OSError as error:
            self._answer(502, json.dumps({"error": f"prefill worker {worker}: {error}"}).encode())
            return
        finally:
            self.prefill.give_back(worker)
        if answer.status != 200:
            self._answer(answer.status, text)
            return
        params = json.loads(text).get("kv_transfer_params")
        self._forward("POST", json.dumps({**request, "kv_transfer_params": params}).encode())

    def _headers(self) -> dict[str, str]:
        return {name: value for name in PASSED_ON if (value := self.headers.get(name))}

    def _forward(self, method: str, body: bytes) -> None:
        worker = self.serving.take()
        try:
            answer = ask(self.serving.urls[worker], method, self.path, body, self._headers())
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers.get("content-type", "application/json"))
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            while piece := answer.read1(65536):
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionRefusedError as error:
            self._answer(502, json.dumps({"error": f"worker {worker}: {error}"}).encode())
        except OSError:
            self.close_connection = True
        finally:
            self.serving.give_back(worker)

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: they may hold what nobody should read."""


def serve(port: int, serving: list[str], prefill: list[str]) -> ThreadingHTTPServer:
    """The server, ready to run; port 0 takes a free one."""
    pools = {"serving": Pool(serving), "prefill": Pool(prefill) if prefill else None}
    return ThreadingHTTPServer(("", port), type("Bound", (Handler,), pools))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    for role in ("prefill", "decode", "colocated"):
        parser.add_argument(f"--{role}", nargs="+", default=[], metavar="URL")
    options = parser.parse_args()
    if bool(options.prefill) != bool(options.decode) or bool(options.decode) == bool(options.colocated):
        parser.error("give --prefill with --decode, or --colocated")
    serve(options.port, options.decode or options.colocated, options.prefill).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
