"""A Hugging Face hub on loopback: repositories in memory, and the requests of `upload_folder`,
`from_pretrained` and `load_dataset`.
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
        self.commits: dict[str, str] = {}  # of repositories, where it is another than COMMIT
        self.private: dict[str, bool] = {}
        self.rows: dict[str, dict[str, bytes]] = {}  # data set -> path -> content
        self.locked = False  # whether data sets are for those alone who show the token
        self.tokens: set[str] = set()  # that requests for data sets showed
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

    def parse_request(self) -> bool:
        """Also takes what a client says to a proxy, which names the server."""
        whole = super().parse_request()
        self.path = re.sub("^http://[^/]+", "", getattr(self, "path", ""))
        return whole

    def do_POST(self) -> None:
        body, hub = self._body(), self.server
        if self.path.startswith("/api/datasets/"):
            self._of_rows(body)
        elif hub.refuse or self.headers.get("authorization") != f"Bearer {TOKEN}":
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
        if self.path.startswith(("/api/datasets/", "/datasets/")):
            self._of_rows(b"")
        elif match := re.match(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path):
            self.server.asked.add((match[2], match[3]))
            content = files.get(match[1], {}).get(match[3])
            if content is None:
                self.say({"error": "Entry not found"}, 404, **NOT_FOUND)
            else:
                tag = hashlib.sha256(content).hexdigest()
                commit = self.server.commits.get(match[1], COMMIT)
                self.raw(content, 200, **{"ETag": f'"{tag}"', "X-Repo-Commit": commit})
        elif match := re.match(r"/api/models/([^/]+/[^/]+)/tree/[^/?]+(\?|$)", self.path):
            entries = [
                {"type": "file", "path": path, "size": len(content), "oid": "1" * 40}
                for path, content in files.get(match[1], {}).items()
            ]
            self.say(entries)
        elif "/tree/" in self.path:  # asks for folders, and there are none
            self.say({"error": "Entry not found"}, 404, **NOT_FOUND)
        elif match := re.match(r"/api/models/([^/?]+/[^/?]+)", self.path):
            sizes = {name: len(content) for name, content in files.get(match[1], {}).items()}
            names = [{"rfilename": name, "size": size} for name, size in sizes.items()]
            commit = self.server.commits.get(match[1], COMMIT)
            self.say({"id": match[1], "sha": commit, "siblings": names})
        else:
            self.say({"error": self.path}, 404)

    do_HEAD = do_GET

    def _of_rows(self, body: bytes) -> None:
        """Answers what `load_dataset` asks of a data set."""
        hub = self.server
        self.server.tokens.add(token := self.headers.get("authorization", ""))
        if hub.locked and token != f"Bearer {TOKEN}":
            error = {"X-Error-Code": "RepoNotFound"}
            return self.say({"error": f"Repository not found, with {token}"}, 401, **error)
        name, _, rest = re.sub("^(/api)?/datasets/", "", self.path).partition("?")[0].partition("/")
        owned, _, rest = rest.partition("/")
        files = hub.rows.get(f"{name}/{owned}")
        if files is None:
            error = {"X-Error-Code": "RepoNotFound"}
            return self.say({"error": "Repository not found"}, 404, **error)
        entries = [
            {"type": "file", "path": path, "size": len(content), "oid": "1" * 40}
            for path, content in files.items()
        ]
        if match := re.match("resolve/[^/]+/(.+)", rest):
            return self._file_of_rows(files.get(match[1]))
        if rest.startswith("tree"):
            return self.say(entries)
        if rest.startswith("paths-info"):
            asked = json.loads(body)["paths"]
            return self.say([entry for entry in entries if entry["path"] in asked])
        siblings = [{"rfilename": path} for path in files]
        about = {"id": f"{name}/{owned}", "sha": COMMIT, "siblings": siblings, "private": False}
        return self.say({**about, "tags": [], "downloads": 0, "disabled": False, "gated": False})

    def _file_of_rows(self, content: bytes | None) -> None:
        if content is None:
            return self.say({"error": "Entry not found"}, 404, **NOT_FOUND)
        tag = hashlib.sha256(content).hexdigest()
        facts = {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if part is None:
            return self.raw(content, 200, **facts)
        begin, end = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
        facts["Content-Range"] = f"bytes {begin}-{end}/{len(content)}"
        return self.raw(content[begin : end + 1], 206, **facts)

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
