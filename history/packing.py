"""Looks packed: whole, or as what differs from a whole one.

A look in between (a delta) names the rows that it shares with its key look by their place and holds
only the others. Those are compressed with a dictionary of the rows that they most likely replace:
the key look's rows which the delta does not share. So a pod of which one condition changed costs
some tens of bytes. A general compressor given the whole key look as its dictionary does as well
only with hash tables as large as the look, a quarter of a gigabyte for 10,000 hosts.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import zstandard

from history.looks import Encoded, LookError

MOST_BYTES = 2**31
"""What a kept look may unpack to; 10,000 hosts are 60 MB."""

KEY_LEVEL = 9
DELTA_LEVEL = 3
MOST_DICTIONARY = 2**23
"""Bytes of old rows; more changes than these hold make the next look a whole one anyway."""
SAMPLES = 64
"""Rows from all over the key look, for rows that replace none."""

NEW = -1
"""In place of a start: that many rows follow in the delta itself."""


class _Delta(msgspec.Struct, frozen=True, array_like=True):
    runs: bytes
    rest: bytes


_encode = msgspec.msgpack.Encoder().encode
_encoded = msgspec.msgpack.Decoder(Encoded)
_deltas = msgspec.msgpack.Decoder(_Delta)
_numbers = msgspec.msgpack.Decoder(tuple[int, ...])


class Base:
    """A whole look that others are told against; ``index`` finds a row by its bytes."""

    def __init__(self, look: Encoded) -> None:
        self.look = look
        self.index = {row: place for place, row in enumerate(look.rows)}


def pack(look: Encoded) -> bytes:
    """A whole look, compressed."""
    return compress(_encode(look), KEY_LEVEL)


def unpack(data: bytes) -> Encoded:
    """What :func:`pack` packed.

    Raises:
        LookError: it is damaged.
    """
    try:
        return _encoded.decode(decompress(data))
    except msgspec.MsgspecError as error:
        raise LookError(f"the look is damaged: {error}") from None


def pack_delta(look: Encoded, base: Base) -> bytes:
    """What differs from the base, compressed."""
    runs: list[int] = []
    new: list[bytes] = []
    for row in look.rows:
        place = base.index.get(row, NEW)
        if place == NEW:
            new.append(row)
            if runs and runs[-2] == NEW:
                runs[-1] += 1
                continue
        elif runs and runs[-2] != NEW and runs[-2] + runs[-1] == place:
            runs[-1] += 1
            continue
        runs += (place, 1)
    dictionary = _dictionary(base.look, runs)
    rest = compress(_encode(Encoded(look.frame, tuple(new))), DELTA_LEVEL, dictionary)
    return _encode(_Delta(compress(_encode(runs), DELTA_LEVEL), rest))


def unpack_delta(data: bytes, base: Encoded) -> Encoded:
    """What :func:`pack_delta` packed, given the same base.

    Raises:
        LookError: it is damaged, or told against another base.
    """
    try:
        delta = _deltas.decode(data)
        runs = _numbers.decode(decompress(delta.runs))
        rest = _encoded.decode(decompress(delta.rest, _dictionary(base, runs)))
    except msgspec.MsgspecError as error:
        raise LookError(f"the look is damaged: {error}") from None
    rows: list[bytes] = []
    at = 0
    for start, count in _pairs(runs):
        if start == NEW:
            rows += rest.rows[at : at + count]
            at += count
        else:
            rows += base.rows[start : start + count]
    if len(rows) != sum(runs[1::2]):
        raise LookError("the look is told against another one than is there")
    return Encoded(rest.frame, tuple(rows))


def _pairs(runs: Iterable[int]) -> Iterable[tuple[int, int]]:
    numbers = iter(runs)
    return zip(numbers, numbers, strict=False)


def _dictionary(base: Encoded, runs: Iterable[int]) -> bytes:
    """Old bytes that new ones probably resemble, the likeliest last. The same for both ways."""
    shared = bytearray(len(base.rows))
    for start, count in _pairs(runs):
        if start >= 0:
            shared[start : start + count] = b"\x01" * min(count, max(0, len(shared) - start))
    step = max(1, len(base.rows) // SAMPLES)
    old: list[bytes] = []
    size = 0
    for row, is_shared in zip(base.rows, shared, strict=True):
        if not is_shared and size < MOST_DICTIONARY:
            old.append(row)
            size += len(row)
    return b"".join((*base.rows[::step], *old, base.frame))


def compress(raw: bytes, level: int = DELTA_LEVEL, dictionary: bytes = b"") -> bytes:
    """Compress, with a dictionary of bytes that are likely to come again."""
    if len(dictionary) < 8:  # zstd takes none that is shorter
        return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(raw)
    # Sized for a dictionary that is larger than what is compressed, which the levels are not.
    bits = max(17, min(24, (len(raw) + len(dictionary)).bit_length()))
    params = zstandard.ZstdCompressionParameters.from_level(
        level,
        source_size=len(raw),
        dict_size=len(dictionary),
        window_log=min(27, bits + 1),
        hash_log=bits,
        chain_log=bits,
        write_checksum=1,
    )
    return zstandard.ZstdCompressor(
        dict_data=_as_dictionary(dictionary), compression_params=params
    ).compress(raw)


def decompress(data: bytes, dictionary: bytes = b"") -> bytes:
    """What was compressed with the same dictionary.

    Raises:
        LookError: it is damaged.
    """
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= MOST_BYTES:
            raise LookError(f"the look says that it is {size} bytes large")
        return zstandard.ZstdDecompressor(
            dict_data=_as_dictionary(dictionary) if len(dictionary) >= 8 else None,
            max_window_size=2**27,
        ).decompress(data)
    except zstandard.ZstdError as error:
        raise LookError(f"the look is damaged: {error}") from None


def _as_dictionary(content: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
