"""Files that hold messages: their owner alone can read and write them, whatever the umask of the process is."""

from __future__ import annotations

import logging
import os
import stat

_log = logging.getLogger("amqp10.files")

_OWNER_ALONE = 0o600


def private(path: str, flags: int) -> int:
    """Open a file as `open(..., opener=private)` asks: one that is created has the rights 0600."""
    return os.open(path, flags, _OWNER_ALONE)


def create_private(path: str) -> None:
    """Create an empty file with the rights 0600, unless there is a file of that name.

    Whatever stands in the way is for whoever opens the file to report. A file that exists is not even opened here:
    closing it would give up the locks that this process has on it.
    """
    try:
        os.close(private(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        pass


def make_private(path: str) -> None:
    """Take the rights of all others away from a file of ours; say so in the log if they had any."""
    if os.name != "posix":
        return
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if not mode & 0o077:
            return
        os.chmod(path, mode & 0o700)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning("%s: others than its owner can read or write it, and that cannot be changed: %s", path, error)
        return
    _log.warning("%s: others than its owner could read or write it (mode %o); now they cannot", path, mode)
