"""Packages of Debian for the tests, with all that they depend on: downloaded by apt, and unpacked into a folder.

The suites are named, so that the versions are the same wherever this runs. Nothing is installed on the machine, and
neither root nor namespaces are needed: the programs are run by the dynamic loader of the folder, with its libraries.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ._java import DOWNLOAD_SECONDS, Unavailable, cache

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Keep what is downloaded, whatever clean-up hooks a container image brings along; look at nothing that is installed.
APT_OPTIONS = (
    "Dir::Etc::SourceList={folder}/debian.sources",
    "Dir::Etc::SourceParts=-",
    "Dir::Etc::PreferencesParts=-",
    "Dir::State::Lists={folder}/lists",
    "Dir::State::Status={folder}/status",
    "Dir::Cache={folder}/cache",
    "APT::Sandbox::User=root",
    "APT::Keep-Downloaded-Packages=true",
    "Binary::apt-get::APT::Keep-Downloaded-Packages=true",
    "APT::Update::Post-Invoke=",
    "DPkg::Post-Invoke=",
    "Acquire::Languages=none",
)


def unpacked(name: str, package: str, suite: str) -> Path:
    """The folder with the package and all that it depends on; made if it is not there.

    Raises:
        Unavailable: this is no Debian, or apt cannot download the packages.
    """
    folder = cache() / f"{name}-{hashlib.sha256(f'{suite} {package}'.encode()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    for command in ("apt-get", "dpkg-deb"):
        if shutil.which(command) is None:
            raise Unavailable(f"there is no {command}")
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{name}-") as partial:
        root = Path(partial, "root")
        for archive in _download(Path(partial, "apt"), package, suite):
            _run("dpkg-deb", "-x", str(archive), str(root))
        with suppress(OSError):  # another run was quicker
            root.rename(folder)
    return folder


def loader(root: Path) -> tuple[str, ...]:
    """What runs a program of the folder, with the libraries that are in it."""
    found = next(root.glob("usr/lib/*/ld-linux*.so.*"))
    return str(found), "--library-path", str(found.parent)


def _download(folder: Path, package: str, suite: str) -> list[Path]:
    """The package and all that it depends on."""
    archives = folder / "cache" / "archives"
    (archives / "partial").mkdir(parents=True)
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "debian.sources").write_text(_sources(suite))
    (folder / "status").touch()
    options = [word for option in APT_OPTIONS for word in ("-o", option.format(folder=folder))]
    apt = ["apt-get", "-q", "-y", "--no-install-recommends", "--download-only", *options]
    _run(*apt, "update")
    _run(*apt, "install", package)
    return sorted(archives.glob("*.deb"))


def _sources(suite: str) -> str:
    """This machine's own mirror of Debian, for the suite that we want."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    lines = [line for file in files if file.is_file() for line in file.read_text().splitlines()]
    for line in lines:
        mirror = re.match(r"(?:URIs:|deb\b).*?((?:https?|mirror\+file):\S+/debian/?)(?:\s|$)", line)
        if mirror is not None:
            return f"Types: deb\nURIs: {mirror[1]}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYS}\n"
    raise Unavailable("apt knows no mirror of Debian here")


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=DOWNLOAD_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {DOWNLOAD_SECONDS} s") from None
    if done.returncode:
        raise Unavailable(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")
