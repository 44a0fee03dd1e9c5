"""Messages on a byte stream: four bytes of length, most significant first, then MessagePack."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, BinaryIO

import msgspec

from .messages import Order, Report

LENGTH = struct.Struct(">I")
LARGEST = 1 << 30  # bytes


class Broken(Exception):
    """The stream holds something else than messages."""


def _plain(value: Any) -> Any:
    """What nodes show may hold numpy's numbers and arrays; anything else is told as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_orders = msgspec.msgpack.Decoder(Order)
_reports = msgspec.msgpack.Decoder(Report)


def encode(message: Any) -> bytes:
    content = _encoder.encode(message)
    return LENGTH.pack(len(content)) + content


def read_order(stream: BinaryIO) -> Order | None:
    """The next message to a worker; None at the end of the stream."""
    header = stream.read(LENGTH.size)
    if len(header) < LENGTH.size:
        return None
    content = stream.read(LENGTH.unpack(header)[0])
    return _orders.decode(content)


async def read_report(stream: asyncio.StreamReader) -> Report | None:
    """The next message from a worker; None at the end of the stream. Raises Broken."""
    try:
        (length,) = LENGTH.unpack(await stream.readexactly(LENGTH.size))
        if length > LARGEST:
            raise Broken(f"a message of {length} bytes")
        return _reports.decode(await stream.readexactly(length))
    except asyncio.IncompleteReadError:
        return None
    except msgspec.DecodeError as error:
        raise Broken(str(error)) from error
