"""Reports one miss:  python3 miss.py SOCKET VDISK

In a program, `Misses("/run/disktime/misses.sock", "video").report()` whenever data came too late.
"""

import socket
import sys


class Misses:
    """Missed deadlines of one virtual disk, told to disktime. Never waits."""

    def __init__(self, path, vdisk):
        self.to, self.name = path, vdisk.encode()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)

    def report(self):
        """Whether it could be sent: not if no daemon listens or it has no room now."""
        try:
            self.socket.sendto(self.name, self.to)
            return True
        except OSError:
            return False


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(0 if Misses(*sys.argv[1:]).report() else 1)
