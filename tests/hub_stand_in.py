"""A Hugging Face hub on loopback: repositories in memory, and the requests of `upload_folder` and
`from_pretrained`.
"""

import base64
import hashlib
import json
import re
from contextlib import AbstractContextManager
from http.server import ThreadingHTTPServer
from typing import Any

from lab.benchmarks.served import Quiet, serving

COMMIT = "0" * 40
TOKEN = "hf_a_token_for_tests"
NOT_FOUND = {"X-Error-Code": "EntryNotFound"}


class Hub(ThreadingHTTPServer):
    """The repositories, and how the hub answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, dict[str, bytes]] = {}  # repository -> path -> content
        self.private: dict[str, bool] = {}
        self.asked: set[tuple[str, str]] = set()  # revisions and files
        self.refuse = 0  # a status that every request gets, if not 0
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def create(self, asked: dict[str, Any]) -> dict[str, Any]:
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        self.files.setdefault(name, {})
        self.private.setdefault(
            name, bool(asked.get("private", asked.get("visibility") == "private"))
        )
        return {"url": f"{self.address}/{name}", "name": name, "id": name}

    def commit(self, name: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
        for value in [line["value"] for line in lines if line["key"] == "file"]:
            self.files[name][value["path"]] = base64.b64decode(value["content"])
        return {
            "commitUrl": f"{self.address}/{name}/commit/{COMMIT}",
            "commitOid": COMMIT,
            "success": True,
        }


class Handler(Quiet):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_POST(self) -> None:
        body, hub = self._body(), self.server
        if hub.refuse or self.headers.get("authorization") != f"Bearer {TOKEN}":
            self.say({"error": "Invalid username or password."}, hub.refuse or 401)
        elif self.path == "/api/validate-yaml":  # of the model card
            self.say({"errors": [], "warnings": []})
        elif self.path == "/api/repos/create":
            self.say(hub.create(json.loads(body)))
        elif re.match(r"/api/models/[^/]+/[^/]+/preupload/main", self.path):
            files = json.loads(body)["files"]
            self.say(
                {
                    "files": [
                        {**each, "uploadMode": "regular", "shouldIgnore": False} for each in files
                    ]
                }
            )
        elif match := re.match(r"/api/models/([^/]+/[^/]+)/commit/main", self.path):
            self.say(hub.commit(match[1], [json.loads(line) for line in body.splitlines()]))
        else:
            self.say({"error": self.path}, 404)

    def do_GET(self) -> None:
        files = self.server.files
        if match := re.match(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path):
            self.server.asked.add((match[2], match[3]))
            content = files.get(match[1], {}).get(match[3])
            if content is None:
                self.say({"error": "Entry not found"}, 404, **NOT_FOUND)
            else:
                tag = hashlib.sha256(content).hexdigest()
                self.raw(content, 200, **{"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT})
        elif "/tree/" in self.path:  # asks for folders, and there are none
            self.say({"error": "Entry not found"}, 404, **NOT_FOUND)
        elif match := re.match(r"/api/models/([^/?]+/[^/?]+)", self.path):
            names = [{"rfilename": name} for name in files.get(match[1], {})]
            self.say({"id": match[1], "sha": COMMIT, "siblings": names})
        else:
            self.say({"error": self.path}, 404)

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


def hub_on_loopback() -> AbstractContextManager[Hub]:
    return serving(Hub())
