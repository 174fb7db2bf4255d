"""Secrets out of what is shown or stored."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["MASK", "is_secret", "masked", "masked_text"]

MASK = "***"

# A tokenizer is no secret, nor is a number of tokens.
_SECRET = re.compile(
    r"passw(or)?d|passphrase|(?<!num_)(?<!max_)token(?!i[sz])|secret|credential"
    r"|(api|access|private|signing)[-_ ]?key",
    re.IGNORECASE,
)
_USER_IN_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)[^/\s?#'\"]+@")
_PAIR = re.compile(r"(?P<key>[\w.-]+)=(?P<value>'[^']*'|\"[^\"]*\"|\[[^]]*\]|\{[^}]*\}|[^\s&'\"]+)")
_SIGNATURES = ("sig", "signature", "x-amz-signature", "x-goog-signature")


def is_secret(key: str) -> bool:
    """Whether a key's name says that its value is a secret.

    >>> is_secret("config.STORE.api_key"), is_secret("tokenizer")
    (True, False)
    """
    return _SECRET.search(key) is not None


def masked_text(text: str) -> str:
    """Text without the user part of URLs, and without the values of secret ``KEY=VALUE`` pairs.

    >>> masked_text("s3://me:pass@host/x?sig=abc")
    's3://***@host/x?sig=***'
    """

    def without_value(pair: re.Match[str]) -> str:
        secret = is_secret(pair["key"]) or pair["key"].lower() in _SIGNATURES
        return f"{pair['key']}={MASK}" if secret else pair[0]

    return _PAIR.sub(without_value, _USER_IN_URL.sub(rf"\g<scheme>{MASK}@", text))


def masked(value: Any, key: str = "") -> Any:
    """Plain data without its secrets: those that a key's name tells, and those within texts.

    Under a secret key all text and numbers go, at any depth; null, true, false and empty text stay.
    """
    if isinstance(value, dict):
        return {
            name: masked(item, key if is_secret(key) else str(name)) for name, item in value.items()
        }
    if isinstance(value, list):
        return [masked(item, key) for item in value]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if is_secret(key):
        return MASK
    return masked_text(value) if isinstance(value, str) else value
