"""Content-Encoding of request bodies: identity, gzip, deflate, zstd, with a limit on what comes out."""

from __future__ import annotations

import zlib

from collector import zstd
from collector.errors import Rejected

STEP = 1 << 20
PIECE = 16 << 10  # read at a time: what follows a member is copied, and would be with each of them
MOST_MEMBERS = 10_000  # gzip members or zstd frames; programs that compress in blocks make one for each 64 KiB or more
WINDOW = 32 << 20  # of zstd, as the OpenTelemetry Collector uses; unlimited, a frame header alone claims gigabytes
ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW.bit_length() - 1}


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
    at = members = 0
    while at < len(body):  # gzip allows several members in a row
        members = _one_more(members)
        stream = zlib.decompressobj(window)
        while not stream.eof and at < len(body):
            rest = piece = memoryview(body)[at : at + PIECE]
            try:
                while rest and not stream.eof:
                    out += stream.decompress(rest, STEP)
                    rest = memoryview(stream.unconsumed_tail)
                    _check_size(out, limit)
            except zlib.error:
                raise Rejected("the body is not valid compressed data") from None
            at += len(piece) - len(stream.unused_data)
        if not stream.eof:
            out += _rest_of(stream)
        _check_size(out, limit)
        if at < len(body) and window < 16:
            raise Rejected("there is data after the compressed body")
    return bytes(out)


def _rest_of(stream: zlib._Decompress) -> bytes:
    """What a stream still has to give at the end of the body. Raises Rejected where it is not whole."""
    rest = stream.flush()
    if not stream.eof:
        raise Rejected("the compressed body is cut off")
    return rest


def _zstd(body: bytes, limit: int) -> bytes:
    out = bytearray()
    at = frames = 0
    while at < len(body):  # zstd allows several frames in a row
        frames = _one_more(frames)
        stream = zstd.ZstdDecompressor(options=ZSTD_OPTIONS)
        while not stream.eof and (at < len(body) or not stream.needs_input):
            piece = memoryview(body)[at : at + PIECE] if stream.needs_input else b""
            try:
                out += stream.decompress(piece, STEP)
            except zstd.ZstdError:
                said = f"the body is not valid zstd data, or needs a window of more than {WINDOW >> 20} MiB"
                raise Rejected(said) from None
            _check_size(out, limit)
            at += len(piece)
        if not stream.eof:
            raise Rejected("the compressed body is cut off")
        at -= len(stream.unused_data)
    return bytes(out)


def _one_more(members: int) -> int:
    if members == MOST_MEMBERS:
        raise Rejected(f"the body has more than {MOST_MEMBERS} compressed parts: compress it as one")
    return members + 1


def _check_size(out: bytearray, limit: int) -> None:
    if len(out) > limit:
        raise Rejected(f"the body is larger than {limit} bytes when decompressed", 413)
