"""Connections and messages between the processes of a launcher, outside any framework. Imports no framework.

`meeting.py` brings all ranks together through rank 0, before a framework joins them. `checks.py` compares the facts that must be
equal. `watch.py` then notices processes that end, die or are silent. `connections.py`, `ring.py` and `board.py` provide sums and
messages for a framework without its own. `in_ray.py` brings rank 0's address to all through Ray. Below these, `listener.py`
accepts and makes connections; in `handshake.py` both ends prove that they know the job's secret; `channel.py` sends messages;
`secret.py` finds the secret and names the job.

Nothing from the network is unpickled: messages are JSON or raw bytes, with a size limit.
"""

from abreast.hosts.channel import Channel
from abreast.hosts.handshake import Member
from abreast.hosts.listener import Listener, dial, free_port
from abreast.hosts.meeting import Meeting, meet, meeting_place, member_of

__all__ = ["Channel", "Listener", "Meeting", "Member", "dial", "free_port", "meet", "meeting_place", "member_of"]
