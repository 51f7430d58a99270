"""A Hugging Face hub on loopback: repositories in memory, what `upload_folder` and `from_pretrained` ask of one."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0" * 40
TOKEN = "hf_a_token_for_tests"


class Hub:
    """What it holds, and how it answers."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}  # repository -> path -> content
        self.private: dict[str, bool] = {}
        self.refuse = 0  # a status that every request gets, if not 0
        self.asked: list[str] = []
        self.address = ""


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = self._body()
            hub.asked.append(f"POST {self.path}")
            if hub.refuse or self.headers.get("authorization") != f"Bearer {TOKEN}":
                self._say({"error": "Invalid username or password."}, hub.refuse or 401)
            elif self.path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked.get('organization') or 'me'}/{asked['name']}"
                hub.files.setdefault(name, {})
                private = asked.get("private", asked.get("visibility") == "private")
                hub.private.setdefault(name, bool(private))
                self._say({"url": f"{hub.address}/{name}", "name": name, "id": name})
            elif match := re.match(r"/api/models/([^/]+/[^/]+)/preupload/main", self.path):
                files = [{**each, "uploadMode": "regular", "shouldIgnore": False} for each in json.loads(body)["files"]]
                self._say({"files": files})
            elif match := re.match(r"/api/models/([^/]+/[^/]+)/commit/main", self.path):
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        hub.files[match[1]][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                self._say({"commitUrl": f"{hub.address}/{match[1]}/commit/{COMMIT}", "commitOid": COMMIT, "success": True})
            else:
                self._say({"error": self.path}, 404)

        def do_GET(self) -> None:
            hub.asked.append(f"GET {self.path}")
            if match := re.match(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", self.path):
                content = hub.files.get(match[1], {}).get(match[2])
                if content is None:
                    self._say({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
                else:
                    self._send(content, 200, {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT})
            elif match := re.match(r"/api/models/([^/?]+/[^/?]+)", self.path):
                names = [{"rfilename": name} for name in hub.files.get(match[1], {})]
                self._say({"id": match[1], "sha": COMMIT, "siblings": names, "private": hub.private.get(match[1])})
            else:
                self._say({"error": self.path}, 404)

        do_HEAD = do_GET

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _say(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
            self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json", **(headers or {})})

        def _send(self, content: bytes, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    return Handler


@contextmanager
def hub_on_loopback() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(hub))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
