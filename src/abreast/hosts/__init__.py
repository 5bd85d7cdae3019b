"""Connections and messages between the processes of a launcher, outside of a framework. Imports none.

`meeting.py` brings all ranks together through rank 0, before a framework joins them, and `checks.py` compares what must be the
same. `watch.py` then knows of those that end, die or are silent. `connections.py`, `ring.py` and `board.py` are sums and messages
for a framework that has none. Below these: `listener.py` accepts and makes connections, `handshake.py` is the proof of both ends
that they know the secret of the job, `channel.py` sends messages, and `secret.py` finds the secret and names the job.

Nothing from the network is unpickled: messages are JSON or raw bytes, with a limit of their size.
"""

from abreast.hosts.channel import Channel
from abreast.hosts.handshake import Member
from abreast.hosts.listener import Listener, dial, free_port
from abreast.hosts.meeting import Meeting, meet, meeting_place, member_of

__all__ = ["Channel", "Listener", "Meeting", "Member", "dial", "free_port", "meet", "meeting_place", "member_of"]
