"""A handshake: both ends of a connection prove that they know the job's secret, before either uses other data.

    listener -> dialer    MAGIC, nonce
    dialer -> listener    nonce, length of the claims, claims, MAC of (the nonces, the claims)
    listener -> dialer    length of the answer, answer, MAC of (the nonces, the claims, the answer)

MACs are HMAC-SHA256 with the secret. Each end draws 32 random bytes per connection (its nonce), so a recorded proof is useless.
The two MACs begin with different words, so a proof cannot be sent back to its sender. The claims are JSON: job, both ranks,
number of processes, purpose. They are read only after their MAC is verified. A listener that refuses them states the reason in
its answer; the dialer trusts the answer, because it has a MAC, too.

Opens no connection: `listener.py` does.
"""

from __future__ import annotations

import hmac
import json
import os
import platform
import struct
from dataclasses import dataclass, field
from typing import Any

MAGIC = b"abreast1"
GREETING_BYTES = len(MAGIC) + 32
_NONCE_BYTES = _MAC_BYTES = 32
_LENGTH = struct.Struct("!H")
_MOST_CLAIMS_BYTES = 4096
_DIALER, _LISTENER = b"abreast 1: dialer\0", b"abreast 1: listener\0"


class Refused(ConnectionError):
    """One end of a connection refuses the other; the message has the reason. `is_ours`: the other end knows the secret."""

    def __init__(self, message: str, *, is_ours: bool = False) -> None:
        super().__init__(message)
        self.is_ours = is_ours


@dataclass(frozen=True)
class Member:
    """A process of a job, with the secret that proves its membership."""

    rank: int
    size: int
    job: str
    secret: bytes = field(repr=False)
    host: str = field(default_factory=platform.node)

    def __str__(self) -> str:
        return f"rank {self.rank} on host {self.host}"


# The listener's end


def greeting() -> bytes:
    return MAGIC + os.urandom(_NONCE_BYTES)


def bytes_missing(received: bytes) -> int:
    """The number of missing bytes of the dialer's proof, or of its head while the total length is unknown."""
    head = _NONCE_BYTES + _LENGTH.size
    if len(received) < head:
        return head - len(received)
    (length,) = _LENGTH.unpack_from(received, _NONCE_BYTES)
    if length > _MOST_CLAIMS_BYTES:
        raise Refused(f"claims of {length} bytes")
    return head + int(length) + _MAC_BYTES - len(received)


def answer(own: Member, sent: bytes, received: bytes) -> tuple[dict[str, Any], str | None, bytes]:
    """A dialer's claims, the reason if they are refused, and the answer to send. Raises `Refused` without a valid proof."""
    nonce, proof = received[:_NONCE_BYTES], received[-_MAC_BYTES:]
    text = received[_NONCE_BYTES + _LENGTH.size : -_MAC_BYTES]
    if not hmac.compare_digest(proof, _mac(own, _DIALER, sent, nonce, text)):
        raise Refused("it does not know the secret of this job")
    claims = _json(text)
    refusal = _refusal(own, claims)
    said = json.dumps({"refused": refusal, "host": own.host}).encode()
    return claims, refusal, _LENGTH.pack(len(said)) + said + _mac(own, _LISTENER, sent, nonce, text, said)


def _refusal(own: Member, claims: dict[str, Any]) -> str | None:
    rank, size, job = claims.get("rank"), claims.get("size"), claims.get("job")
    who = f"rank {rank} on host {claims.get('host')}"
    if job != own.job:
        return f"{who} belongs to job {job!r}, and {own} to job {own.job!r}"
    if size != own.size:
        return f"{who} counts {size} processes, and {own} counts {own.size}"
    if claims.get("to") != own.rank:
        return f"{who} looked for rank {claims.get('to')}, and found {own}"
    if type(rank) is not int or not 0 <= rank < own.size or rank == own.rank:
        return f"{who} has no number among {own.size} processes; {own} answered"
    return None


# The dialer's end


def claims(own: Member, to: int, purpose: str) -> bytes:
    said = {"job": own.job, "rank": own.rank, "size": own.size, "host": own.host, "to": to, "purpose": purpose}
    return json.dumps(said).encode()


def proof(own: Member, greeted: bytes, claimed: bytes) -> tuple[bytes, bytes]:
    """This end's nonce, and the message that answers a greeting. Raises `Refused` for a greeting of another program."""
    if greeted[: len(MAGIC)] != MAGIC:
        raise Refused("another program answers there, or another version of abreast")
    nonce = os.urandom(_NONCE_BYTES)
    return nonce, nonce + _LENGTH.pack(len(claimed)) + claimed + _mac(own, _DIALER, greeted, nonce, claimed)


def length_of_answer(head: bytes) -> int:
    """The number of bytes after the first two bytes of an answer, which state it."""
    (length,) = _LENGTH.unpack(head)
    if length > _MOST_CLAIMS_BYTES:
        raise Refused(f"an answer of {length} bytes")
    return int(length) + _MAC_BYTES


def check_answer(own: Member, greeted: bytes, nonce: bytes, claimed: bytes, received: bytes) -> dict[str, Any]:
    """The listener's answer. Raises `Refused` if it has no valid proof, or refuses this process."""
    text, its_proof = received[:-_MAC_BYTES], received[-_MAC_BYTES:]
    if not hmac.compare_digest(its_proof, _mac(own, _LISTENER, greeted, nonce, claimed, text)):
        raise Refused("it does not know the secret of this job")
    said = _json(text)
    if said.get("refused") is not None:
        raise Refused(str(said["refused"]), is_ours=True)
    return said


def _mac(own: Member, label: bytes, greeted: bytes, nonce: bytes, *texts: bytes) -> bytes:
    """The MAC of all parts. Each part has a fixed length or a length prefix, so different parts give different bytes."""
    parts = b"".join(_LENGTH.pack(len(text)) + text for text in texts)
    return hmac.digest(own.secret, label + greeted + nonce + parts, "sha256")


def _json(text: bytes) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused("it sends data that is not JSON") from error
    if not isinstance(said, dict):
        raise Refused("it sends JSON that is not an object")
    return said
