"""Text without secrets, and text for strangers: without addresses, identities, keys, and names of
folders, which may name a person.

Our own secrets have a type (settings/secret.py). This module is for text that others made: errors
of libraries, replies of servers, files of earlier versions.

A secret can be found only in a text that is whole: of a password that was cut in two, no rule finds
the first half. So nothing but `printable` and `first_line` in errors.py shortens a text that is
shown, and they hide secrets before they cut.
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from urllib.parse import quote, unquote

HIDDEN = "***"  # in place of a secret
PART = 4  # characters in a row of a secret that are enough to be hidden
FEW = 3  # a shorter text does not count as a secret
LONG = 8  # characters that the value of an environment variable must have to count as a secret
_SECRET_NAME = re.compile(
    r"(TOKEN(?!IZ)|KEY|SECRET|PASSW|CREDENTIAL)(?!.*_(FILE|PATH|DIR)$)", re.IGNORECASE
)
_WORD = re.compile(r"[^\s\"'<>]+")

_IPV6 = r"(?<![\w:])(?=[0-9A-Fa-f:]*::|(?:[0-9A-Fa-f]{1,4}:){4})[0-9A-Fa-f:.]{3,}"
_PATTERNS = (
    (re.compile(r"-----BEGIN[^-]*PRIVATE KEY-----.*?(-----END[^-]*-----|\Z)", re.DOTALL), "<key>"),
    (re.compile(r"\b(hf|sk|ghp|gho|github_pat|glpat|xox[bp])[-_][A-Za-z0-9_-]{8,}"), "<token>"),
    (re.compile(r"(?i)\b(token|password|secret|api_?key)(\W{1,3})\S+"), r"\1\2<hidden>"),
    (re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'<>]+"), "<url>"),
    (re.compile(r"/(ip4|ip6|dns|dns4|dns6|dnsaddr|unix)/[^\s\"',;)]+"), "<address>"),
    (re.compile(r"\b(12D3KooW|Qm|16Uiu2)[1-9A-HJ-NP-Za-km-z]{20,}"), "<peer>"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b(:\d+)?"), "<address>"),
    (re.compile(_IPV6), "<address>"),
    (re.compile(r"\b[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}\b"), "<address>"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), "<mail>"),
    (re.compile(r"(?<![\w>])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\\"'<>:,;]+[/\\])+"), "<folder>/"),
)  # fmt: skip


def redacted(text: str) -> str:
    """The text with a mark like <address> in place of what must not leave this machine. A path
    keeps its last name.
    """
    text = hidden(text)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def hidden(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text with `***` in place of the user and password of every address, of the values of
    variables named token, key, secret or password, and of the user and password in addresses that
    variables hold. These values are found whole, in parts of eight characters, in base64, and
    quoted as in a URL.
    """
    text = without_secrets(text, _secrets(environment), LONG)
    return _WORD.sub(_without_login, text) if ":/" in text else text


def _without_login(word: re.Match[str]) -> str:
    scheme, between, rest = word[0].partition(":/")  # an address that was made a path has one slash
    slash = "/" if rest.startswith("/") else ""
    return f"{scheme}{between}{slash}{HIDDEN}@{rest.rpartition('@')[2]}" if "@" in rest else word[0]


def _secrets(environment: Mapping[str, str]) -> set[str]:
    """The secrets in these variables."""
    by_name = [value for name, value in environment.items() if _SECRET_NAME.search(name)]
    found = {value for value in by_name if len(value) >= LONG}
    for value in environment.values():
        # A variable may hold several addresses, such as PIP_EXTRA_INDEX_URL
        for address in value.split() if "@" in value else ():
            found |= {part for part in logins(address) if len(part) >= LONG}
    return found


def logins(address: str) -> set[str]:
    """The user and the password in this address, alone and together, as they stand there and
    unquoted; nothing where it has none.
    """
    before, at, _ = address.partition("://")[2].rpartition("@")
    user, _, password = before.partition(":")
    parts = (before, user, password) if at else ()
    return {form for part in parts for form in (part, unquote(part)) if form}


def without_secrets(text: str, secrets: Iterable[str], part: int = PART) -> str:
    """The text with `***` in place of these secrets: whole, in part (`part` characters in a row
    are enough: servers often repeat the ends of a key), in base64, and quoted as in a URL.
    """
    hidden = [False] * len(text)
    for secret in secrets:
        size = min(part, len(secret))
        if size < FEW:  # so short a text is in every other word
            continue
        pieces = _pieces(secret, size)
        if not any(piece in text for piece in pieces):
            continue
        for start in range(len(text) - size + 1):
            if text[start : start + size] in pieces:
                hidden[start : start + size] = [True] * size
    if True not in hidden:
        return text
    parts: list[str] = []
    start = 0
    for is_hidden, run in groupby(hidden):
        end = start + len(list(run))
        parts.append(HIDDEN if is_hidden else text[start:end])
        start = end
    return "".join(parts)


@lru_cache(maxsize=64)
def _pieces(secret: str, size: int) -> frozenset[str]:
    """All that stands in so many characters in a row of a form of this secret."""
    pieces = set[str]()
    for form in _forms(secret):
        starts = range(len(form) - size + 1)
        pieces.update(form[start : start + size] for start in starts)
    return frozenset(pieces)


def _forms(secret: str) -> set[str]:
    """The ways in which this secret may be written."""
    data = secret.encode(errors="replace")
    packed = set[str]()
    for shift, changed in enumerate((0, 2, 3)):  # the first signs, which what stands before changes
        encoded = b64encode(b"\0" * shift + data).decode()
        packed.add(encoded.rstrip("=")[changed:])
    quoted = {quote(secret, safe="", errors="replace"), quote(secret, errors="replace")}
    return {secret, unquote(secret), *quoted, *packed}
