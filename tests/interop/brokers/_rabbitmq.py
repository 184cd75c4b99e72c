"""RabbitMQ for the tests: Debian's packages of it and of its Erlang, unpacked into a folder, run under chroot.

The suite is named, so that the version is 4 wherever this runs; nothing is installed on the machine. It runs in mount
and pid namespaces of its own, which end with it, so that Erlang's port mapper ends, too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ._java import DOWNLOAD_SECONDS, HERE, HOST, START_SECONDS, DidNotStart, Server, Unavailable, cache, free_ports

NAME = "rabbitmq"
SUITE = "trixie"
PACKAGES = ("rabbitmq-server", "libc-bin", "dash", "coreutils", "sed", "grep", "mawk", "hostname")
PORTS = ("amqp", "amqps")
CONFIG = HERE / NAME
STOP_SECONDS = 30
APT_SOURCES = Path("/etc/apt/sources.list.d")

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


# Installing


def install_rabbitmq() -> Path:
    """The folder that is its file system; made if it is not there.

    Raises:
        Unavailable: this is no Debian, or apt cannot download the packages.
    """
    recipe = hashlib.sha256(f"{SUITE} {PACKAGES}".encode()).hexdigest()[:12]
    folder = cache() / f"{NAME}-{recipe}"
    if folder.is_dir():
        return folder
    for command in ("apt-get", "dpkg-deb", "unshare", "chroot"):
        if shutil.which(command) is None:
            raise Unavailable(f"there is no {command}")
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{NAME}-") as partial:
        root = Path(partial, "root")
        for package in _download(Path(partial, "apt")):
            _run("dpkg-deb", "-x", str(package), str(root))
        _complete(root)
        with suppress(OSError):  # another run was quicker
            root.rename(folder)
    return folder


def _download(folder: Path) -> list[Path]:
    """The packages and all that they depend on."""
    archives = folder / "cache" / "archives"
    (archives / "partial").mkdir(parents=True)
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "debian.sources").write_text(_sources())
    (folder / "status").touch()
    options = [word for option in APT_OPTIONS for word in ("-o", option.format(folder=folder))]
    apt = ["apt-get", "-q", "-y", "--no-install-recommends", "--download-only", *options]
    _run(*apt, "update")
    _run(*apt, "install", *PACKAGES)
    return sorted(archives.glob("*.deb"))


def _sources() -> str:
    """This machine's own mirror of Debian, for the suite that we want."""
    for file in sorted(APT_SOURCES.glob("*.sources")):
        for stanza in file.read_text().split("\n\n"):
            lines = [line for line in stanza.splitlines() if not line.startswith("#")]
            words = dict(line.split(": ", 1) for line in lines if ": " in line)
            if "debian-archive" in words.get("Signed-By", "") and "URIs" in words:
                return (
                    f"Types: deb\nURIs: {words['URIs']}\nSuites: {SUITE}\nComponents: main\n"
                    f"Signed-By: {words['Signed-By']}\n"
                )
    raise Unavailable("apt knows no mirror of Debian here")


def _complete(root: Path) -> None:
    """What the packages leave to their scripts, as far as it is needed."""
    for place in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / place).mkdir(parents=True, exist_ok=True)
        if not (root / place).exists():
            (root / place).symlink_to(f"usr/{place}")
    for place in ("dev", "proc", "tmp", "data", "etc/rabbitmq"):
        (root / place).mkdir(parents=True, exist_ok=True)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/data:/bin/sh\n")
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=DOWNLOAD_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {DOWNLOAD_SECONDS} s") from None
    if done.returncode:
        raise Unavailable(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")


# Running


@contextmanager
def serving_rabbitmq(certificates: Path) -> Iterator[Server]:
    """Run it on fresh data until the block is left.

    Raises:
        Unavailable: it cannot be had here.
        DidNotStart: it does not serve; the end of its log is in the message.
    """
    root = install_rabbitmq()
    with tempfile.TemporaryDirectory(prefix=f"amqp10-{NAME}-", ignore_cleanup_errors=True) as folder:
        for attempt in range(3):
            data = Path(folder, str(attempt))
            process, ports = _start(root, certificates, data)
            try:
                log = data / "broker.log"
                if _wait_until_it_serves(process, log):
                    yield Server(NAME, ports, process.pid, certificates, log)
                    return
            finally:
                _stop(process)
    raise DidNotStart(f"{NAME}: its ports were taken by others three times")


def _start(root: Path, certificates: Path, data: Path) -> tuple[subprocess.Popen[bytes], dict[str, int]]:
    etc = data / "etc"
    etc.mkdir(parents=True)
    (data / "data").mkdir()
    *numbers, mapper, distribution = free_ports(len(PORTS) + 2)
    ports = dict(zip(PORTS, numbers, strict=True))
    (etc / "rabbitmq.conf").write_text((CONFIG / "rabbitmq.conf").read_text().format(**ports))
    for name in ("definitions.json", "enabled_plugins"):
        shutil.copy(CONFIG / name, etc)
    for name in ("ca.pem", "server.pem", "server.key"):
        shutil.copy(certificates / name, etc)
    script = (
        f"mount --rbind /dev '{root}/dev' && mount -t proc proc '{root}/proc' && "
        f"mount --bind '{etc}' '{root}/etc/rabbitmq' && mount --bind '{data}/data' '{root}/data' && "
        f"exec chroot '{root}' /usr/lib/rabbitmq/bin/rabbitmq-server"
    )
    environment = {
        "HOME": "/data",
        "LANG": "C.UTF-8",
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "RABBITMQ_NODENAME": f"interop-{mapper}@localhost",
        "RABBITMQ_BASE": "/data",
        "RABBITMQ_MNESIA_BASE": "/data/mnesia",
        "RABBITMQ_LOG_BASE": "/data/log",
        "RABBITMQ_CONFIG_FILE": "/etc/rabbitmq/rabbitmq.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": "/etc/rabbitmq/enabled_plugins",
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}",
    }
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    with (data / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, ports


def _wait_until_it_serves(process: subprocess.Popen[bytes], log: Path) -> bool:
    """True once it does; False if another process has taken one of its ports meanwhile."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        said = log.read_text(errors="replace")
        if " completed with " in said:
            return True
        if "eaddrinuse" in said:
            return False
        if process.poll() is not None or time.monotonic() > deadline:
            raise DidNotStart(f"{NAME} does not serve; its log ends with:\n{said[-4000:]}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    # The first process of the namespace: when it goes, all that is in there goes (pid_namespaces(7)).
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
