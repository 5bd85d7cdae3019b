"""Both ends of a connection prove that they know the secret of the job, before either believes anything else.

    listener -> dialer    MAGIC, nonce
    dialer -> listener    nonce, length of the claims, claims, MAC of (the nonces, the claims)
    listener -> dialer    length of the answer, answer, MAC of (the nonces, the claims, the answer)

MACs are HMAC-SHA256 with the secret. Each end draws 32 random bytes per connection (its nonce), so that a recorded proof is worth
nothing, and the two MACs begin with different words, so that no proof can be sent back as one's own. The claims are JSON: job,
both ranks, number of processes, purpose. They are read after their MAC was found right, and a listener that refuses them says
why in its answer, which the dialer believes, since it has a MAC as well.

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
    """An end of a connection does not belong here; the message says why. `is_ours`: it knows the secret all the same."""

    def __init__(self, message: str, *, is_ours: bool = False) -> None:
        super().__init__(message)
        self.is_ours = is_ours


@dataclass(frozen=True)
class Member:
    """A process of a job, with the secret by which it proves that."""

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
    """Number of bytes after `received` that the dialer's proof still has, as far as that is known."""
    head = _NONCE_BYTES + _LENGTH.size
    if len(received) < head:
        return head - len(received)
    (length,) = _LENGTH.unpack_from(received, _NONCE_BYTES)
    if length > _MOST_CLAIMS_BYTES:
        raise Refused(f"claims of {length} bytes")
    return head + int(length) + _MAC_BYTES - len(received)


def answer(own: Member, sent: bytes, received: bytes) -> tuple[dict[str, Any], str | None, bytes]:
    """The claims of a dialer, why they are refused, if they are, and the answer to send. Raises `Refused` without a proof."""
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
        return f"{who} has no number among {own.size} processes, of which {own.rank} has answered"
    return None


# The dialer's end


def claims(own: Member, to: int, purpose: str) -> bytes:
    said = {"job": own.job, "rank": own.rank, "size": own.size, "host": own.host, "to": to, "purpose": purpose}
    return json.dumps(said).encode()


def proof(own: Member, greeted: bytes, claimed: bytes) -> tuple[bytes, bytes]:
    """The nonce of this end, and the message that answers a greeting. Raises `Refused` for one that is not ours."""
    if greeted[: len(MAGIC)] != MAGIC:
        raise Refused("another program answers there, or another version of abreast")
    nonce = os.urandom(_NONCE_BYTES)
    return nonce, nonce + _LENGTH.pack(len(claimed)) + claimed + _mac(own, _DIALER, greeted, nonce, claimed)


def length_of_answer(head: bytes) -> int:
    """From the first two bytes of an answer, the number of those that follow."""
    (length,) = _LENGTH.unpack(head)
    if length > _MOST_CLAIMS_BYTES:
        raise Refused(f"an answer of {length} bytes")
    return int(length) + _MAC_BYTES


def check_answer(own: Member, greeted: bytes, nonce: bytes, claimed: bytes, received: bytes) -> dict[str, Any]:
    """The answer of the listener. Raises `Refused` if it has no proof, or refuses this process."""
    text, its_proof = received[:-_MAC_BYTES], received[-_MAC_BYTES:]
    if not hmac.compare_digest(its_proof, _mac(own, _LISTENER, greeted, nonce, claimed, text)):
        raise Refused("it does not know the secret of this job")
    said = _json(text)
    if said.get("refused") is not None:
        raise Refused(str(said["refused"]), is_ours=True)
    return said


def _mac(own: Member, label: bytes, greeted: bytes, nonce: bytes, *texts: bytes) -> bytes:
    """Every part has a known length, or its length before it, so that no two sets of parts give the same bytes."""
    parts = b"".join(_LENGTH.pack(len(text)) + text for text in texts)
    return hmac.digest(own.secret, label + greeted + nonce + parts, "sha256")


def _json(text: bytes) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused("it says what is not JSON") from error
    if not isinstance(said, dict):
        raise Refused("it says what is not a JSON object")
    return said
