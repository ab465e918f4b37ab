"""Texts that only the collectors of a cluster can read: receivers' addresses are secrets, and whoever could write the
tokens could make some. The key is made of MISSTEP_HASH_KEY, which they share.
"""

from __future__ import annotations

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from collector.errors import Unavailable

NONCE = 12
OTHER_KEY = (
    "what collectors share is sealed with another MISSTEP_HASH_KEY: give every collector of this cluster the same"
)


class Seal:
    """AES-256-GCM; `about` names what a text is, so that none can be put in another's place."""

    def __init__(self, secret: str) -> None:
        key = HKDF(SHA256(), 32, salt=None, info=b"misstep: files shared in a cluster").derive(secret.encode())
        self._cipher = AESGCM(key)

    def closed(self, text: str, about: str) -> str:
        """The text sealed, in base64; each time another one."""
        nonce = os.urandom(NONCE)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, text.encode(), about.encode())).decode()

    def opened(self, sealed: str, about: str) -> str:
        """The text. Raises Unavailable where it was sealed with another key or is damaged."""
        try:
            whole = base64.b64decode(sealed)
            return self._cipher.decrypt(whole[:NONCE], whole[NONCE:], about.encode()).decode()
        except (ValueError, InvalidTag):
            raise Unavailable(OTHER_KEY, 60) from None
