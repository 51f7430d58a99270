"""Text for strangers: without addresses, identities, keys, and names of folders that may be those of a person."""

import re

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
    """The text with what must not leave this machine put into angle brackets. Of paths only the last name stays."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
