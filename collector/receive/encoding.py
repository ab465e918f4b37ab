"""Content-Encoding of request bodies: identity, gzip, deflate, zstd, with a limit on what comes out."""

from __future__ import annotations

import zlib

import zstandard

from collector.errors import Rejected

STEP = 1 << 20
WINDOW = 32 << 20  # of zstd, as the OpenTelemetry Collector uses; unlimited, a frame header alone claims gigabytes
ZSTD_STEP = 1 << 10  # 1 KiB of repeated blocks can expand to about 32 MiB before the limit is checked


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """The decoded body. Raises Rejected: 415 for an unknown encoding, 413 beyond `limit`, 400 for damaged data."""
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if not names:
        return body
    name = ", ".join(names)  # several encodings are refused: nobody sends them, and bombs could be nested
    if name in ("gzip", "x-gzip"):
        return _inflate(body, 16 + zlib.MAX_WBITS, limit)
    if name == "deflate":  # RFC 9110: zlib format; some senders omit its header
        zlib_header = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
        return _inflate(body, zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS, limit)
    if name == "zstd":
        return _zstd(body, limit)
    raise Rejected(f"Content-Encoding {name} is not known; send identity, gzip, deflate or zstd", 415)


def _inflate(body: bytes, window: int, limit: int) -> bytes:
    out = bytearray()
    rest = body
    while rest:  # gzip allows several members in a row
        stream = zlib.decompressobj(window)
        try:
            while rest and not stream.eof:
                out += stream.decompress(rest, STEP)
                rest = stream.unconsumed_tail
                if len(out) > limit:
                    raise Rejected(f"the body is larger than {limit} bytes when decompressed", 413)
            out += stream.flush()
        except zlib.error:
            raise Rejected("the body is not valid compressed data") from None
        if not stream.eof:
            raise Rejected("the compressed body is cut off")
        rest = stream.unused_data
        if rest and window < 16:
            raise Rejected("there is data after the compressed body")
    if len(out) > limit:
        raise Rejected(f"the body is larger than {limit} bytes when decompressed", 413)
    return bytes(out)


def _zstd(body: bytes, limit: int) -> bytes:
    out = bytearray()
    rest = body
    while rest:  # zstd allows several frames in a row
        stream = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
        try:
            for at in range(0, len(rest), ZSTD_STEP):
                out += stream.decompress(rest[at : at + ZSTD_STEP])
                if len(out) > limit:
                    raise Rejected(f"the body is larger than {limit} bytes when decompressed", 413)
                if stream.eof:
                    break
        except zstandard.ZstdError:
            said = f"the body is not valid zstd data, or needs a window of more than {WINDOW >> 20} MiB"
            raise Rejected(said) from None
        if not stream.eof:
            raise Rejected("the compressed body is cut off")
        rest = stream.unused_data + rest[at + ZSTD_STEP :]
    return bytes(out)
