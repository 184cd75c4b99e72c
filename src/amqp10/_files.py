"""Files that hold messages, which only their owner can read and write, and files that hold a secret."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

_log = logging.getLogger("amqp10.files")

_OWNER_ALONE = 0o600


def first_line(path: str | os.PathLike[str]) -> str:
    """Return the first line of a text file in UTF-8, without a byte order mark and the line's end.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read.
    """
    return Path(path).read_text(encoding="utf-8-sig").partition("\n")[0].rstrip("\r")


def private(path: str, flags: int) -> int:
    """Open `path` for `open(..., opener=private)`; a file that is created gets the mode 0600."""
    return os.open(path, flags, _OWNER_ALONE)


def create_private(path: str) -> None:
    """Create an empty file with the mode 0600, unless the file exists.

    Errors are left to the caller that opens the file. An existing file is not opened here, because closing it would
    release the locks that this process holds on it.
    """
    try:
        os.close(private(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        pass


def make_private(path: str) -> None:
    """Remove the permissions of the group and of others from `path`, and log it if there were any."""
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
