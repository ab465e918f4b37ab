"""Content-Encoding: what exporters send is read; damage is answered 400, an unknown encoding 415, a bomb 413."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest
import zstandard

from collector.errors import Rejected
from collector.receive.encoding import decompress

DATA = random.Random(1).randbytes(20_000) + b"a" * 200_000
LIMIT = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def zstd(data: bytes, **parameters: int) -> bytes:
    """As a stream, whose size is not told: what is needed to read it is its window."""
    stream = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(**parameters)
    ).compressobj()
    return stream.compress(data) + stream.flush()


READ = {
    "identity": (DATA, "identity"),
    "no header": (DATA, ""),
    "gzip": (gzip.compress(DATA), "gzip"),
    "gzip, other spelling": (gzip.compress(DATA), " X-GZIP"),
    "gzip in two members": (gzip.compress(DATA[:100]) + gzip.compress(DATA[100:]), "gzip"),
    "deflate": (zlib.compress(DATA), "deflate"),
    "deflate without its header": (raw_deflate(DATA), "deflate"),
    "zstd": (zstd(DATA), "zstd"),
    "zstd with the largest window of the OpenTelemetry Collector": (zstd(DATA, window_log=25), "zstd"),
    "zstd in two frames": (zstd(DATA[:100]) + zstd(DATA[100:]), "zstd"),
}


@pytest.mark.parametrize("case", READ)
def test_is_read(case: str) -> None:
    body, encoding = READ[case]
    assert decompress(body, encoding, LIMIT) == DATA


REFUSED = {
    "unknown": (b"x", "br", 415),
    "gzip cut off": (gzip.compress(DATA)[:-9], "gzip", 400),
    "gzip with junk behind": (gzip.compress(DATA) + b"junk", "gzip", 400),
    "no gzip": (b"junk", "gzip", 400),
    "deflate cut off": (zlib.compress(DATA)[:-9], "deflate", 400),
    "zstd cut off": (zstd(DATA)[:-9], "zstd", 400),
    "no zstd": (b"junk", "zstd", 400),
    "zstd with a larger window": (zstd(DATA, window_log=26), "zstd", 400),
    "gzip bomb": (gzip.compress(bytes(LIMIT * 40)), "gzip", 413),
    "zstd bomb": (zstd(bytes(LIMIT * 40)), "zstd", 413),
    "deflate bomb": (zlib.compress(bytes(LIMIT * 40)), "deflate", 413),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused(case: str) -> None:
    body, encoding, status = REFUSED[case]
    with pytest.raises(Rejected) as refused:
        decompress(body, encoding, LIMIT)
    assert refused.value.status == status
