"""Content-Encoding: what exporters send is read; damage is answered 400, an unknown encoding 415, a bomb 413."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest

import collector.zstd
from collector.errors import Rejected
from collector.receive.encoding import MOST_MEMBERS, decompress
from tests.cpu import cpu_seconds

DATA = random.Random(1).randbytes(20_000) + b"a" * 200_000
LIMIT = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def zstd(data: bytes, **parameters: int) -> bytes:
    """As a stream, whose size is not told: what is needed to read it is its window."""
    options = {getattr(collector.zstd.CompressionParameter, name): value for name, value in parameters.items()}
    stream = collector.zstd.ZstdCompressor(options=options)
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


EMPTY = {"gzip": gzip.compress(b""), "zstd": collector.zstd.compress(b"")}
SKIPPED = b"\x50\x2a\x4d\x18\0\0\0\0"  # a zstd frame that says nothing
MANY = {
    "gzip members": (EMPTY["gzip"] * (MOST_MEMBERS + 1), "gzip"),
    "zstd frames": (EMPTY["zstd"] * (MOST_MEMBERS + 1), "zstd"),
    "zstd frames to be skipped": (SKIPPED * 200_000, "zstd"),
    "empty blocks": (b"\0\0\0\xff\xff" * 400_000, "deflate"),
    "a gzip member's endless name": (b"\x1f\x8b\x08\x08" + bytes(5) + b"\x03" + b"a" * (4 << 20), "gzip"),
}


@pytest.mark.parametrize("case", MANY)
def test_many_small_parts_cost_little_and_are_refused(case: str) -> None:
    body, encoding = MANY[case]

    def refused() -> None:
        with pytest.raises(Rejected) as said:
            decompress(body, encoding, 64 << 20)
        assert said.value.status == 400

    assert cpu_seconds(refused, enough=0.3) < 1


@pytest.mark.parametrize("encoding", EMPTY)
def test_twice_the_parts_take_twice_the_time(encoding: str) -> None:
    small, large = (EMPTY[encoding] * number for number in (MOST_MEMBERS // 8, MOST_MEMBERS))
    short = cpu_seconds(lambda: decompress(small, encoding, LIMIT))
    assert cpu_seconds(lambda: decompress(large, encoding, LIMIT), enough=16 * short) < 24 * short
