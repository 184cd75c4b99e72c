"""A broker in Java, for the tests: its jars from Maven Central, one process on loopback, free ports.

    recipe = Recipe(name, ports=..., main=..., ready=...)     what there is to know about one broker
    install(recipe)                                           -> the folder of its jars, downloaded once
    with serving(recipe, certificates) as broker: ...         -> a process of its own, gone afterwards

Downloads are kept in `$AMQP10_BROKERS`, by default `${XDG_CACHE_HOME:-~/.cache}/amqp10/brokers`, in a folder named
after the hash of the pom, so that a changed pom is another folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ...kit.processes.free_ports import free_ports
from ...kit.processes.short_java import SHORT
from ._certificates import PASSWORD

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"
JAVA = 17
DOWNLOAD_SECONDS = 400
START_SECONDS = 120
STOP_SECONDS = 20
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class Unavailable(Exception):
    """The broker cannot be had on this machine, and why: no Java, no Maven, no download."""


class DidNotStart(Exception):
    """The broker is here, and does not serve."""


@dataclass(frozen=True)
class Recipe:
    """One broker.

    Attributes:
        name: for people, and for the folder with its configuration beside this file.
        ports: what each of its ports is for; the number is chosen when it starts.
        main: the class to run, with these arguments; `{data}` and `{config}` are filled in, in the options too.
        ready: what its log says once it serves; an open port alone does not mean that.
        files: configuration that it wants to find in its data folder, as {where: what}.
    """

    name: str
    ports: tuple[str, ...]
    main: str
    arguments: tuple[str, ...]
    options: tuple[str, ...]
    ready: tuple[str, ...]
    files: tuple[tuple[str, str], ...] = ()

    @property
    def config(self) -> Path:
        return HERE / self.name


@dataclass(frozen=True)
class Server:
    """A broker that serves.

    Attributes:
        ports: the port number by purpose.
        pid: of the process.
        certificates: the folder with ca.pem, client.pem and client.key.
        log: what it prints.
    """

    name: str
    ports: dict[str, int]
    pid: int
    certificates: Path
    log: Path

    def url(self, port: str = "amqp", user: str | None = "user", password: str = "secret") -> str:
        """The URL of one of its ports, with credentials unless `user` is None."""
        scheme = {"amqps": "amqps", "external": "amqps", "ws": "ws"}.get(port, "amqp")
        login = "" if user is None else f"{user}:{password}@"
        number = self.ports["amqp" if port == "ws" and "ws" not in self.ports else port]  # some have both on one
        return f"{scheme}://{login}localhost:{number}"


# Installing


def cache() -> Path:
    """The folder for what is downloaded; outside of the checkout."""
    named = os.environ.get("AMQP10_BROKERS")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "amqp10" / "brokers"


def java() -> str:
    """The Java to run.

    Raises:
        Unavailable: there is none, or an older one.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if found is None:
        raise Unavailable("there is no java")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA:
        raise Unavailable(f"java is older than {JAVA}: {said.splitlines()[:1]}")
    return found


def install(recipe: Recipe) -> Path:
    """The folder with the broker's jars; downloaded if they are not there.

    Raises:
        Unavailable: there is no Maven, or it could not download them.
    """
    pom = recipe.config / "pom.xml"
    folder = cache() / f"{recipe.name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    cache().mkdir(parents=True, exist_ok=True)
    # Into a folder of its own, renamed when whole: several test runs may do this at a time, or be cut off.
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{recipe.name}-") as partial:
        lib = Path(partial, "lib")
        copy_jars(pom, lib)
        with suppress(OSError):  # another run was quicker
            lib.rename(folder)
    return folder


def copy_jars(pom: Path, folder: Path) -> None:
    """Have Maven put what the pom depends on into a folder.

    Raises:
        Unavailable: there is no Maven, or it could not download them.
    """
    name = pom.parent.name
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("there is no mvn")
    command = [maven, "-q", "-B", "-f", str(pom), COPY, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=DOWNLOAD_SECONDS,
            env={**os.environ, "MAVEN_OPTS": " ".join([*SHORT, os.environ.get("MAVEN_OPTS", "")])},
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"mvn took more than {DOWNLOAD_SECONDS} s to download {name}") from None
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        reason = next((line for line in lines if "ERROR" in line), *lines[-1:] or ["it says nothing"])
        raise Unavailable(f"mvn could not download {name}: {reason}")


# Running


@contextmanager
def serving(recipe: Recipe, certificates: Path) -> Iterator[Mortal]:
    """Run the broker on fresh data until the block is left.

    Raises:
        Unavailable: it cannot be had here.
        DidNotStart: it does not serve; the end of its log is in the message.
    """
    program, jars = java(), install(recipe)
    with tempfile.TemporaryDirectory(prefix=f"amqp10-{recipe.name}-", ignore_cleanup_errors=True) as folder:
        for attempt in range(3):
            broker = Mortal(recipe, program, jars, certificates, Path(folder, str(attempt)))
            try:
                if broker.serves():
                    yield broker
                    return
            finally:
                broker.stop()
    raise DidNotStart(f"{recipe.name}: its ports were taken by others three times")


class Mortal:
    """A broker to be killed, and started again on the same ports with what it had written; made by `mortal`."""

    def __init__(self, recipe: Recipe, program: str, jars: Path, certificates: Path, data: Path) -> None:
        self._made_of = recipe, program, jars, certificates, data
        self._process, ports = _start(*self._made_of)
        self.server = Server(recipe.name, ports, self._process.pid, certificates, data / "broker.log")

    def serves(self) -> bool:
        """Wait until it serves; False if another process has taken one of its ports meanwhile."""
        return _wait_until_it_serves(self._made_of[0], self._process, self.server.ports, self.server.log)

    def ended(self) -> str | None:
        """What is to be said if it has ended by itself, with the end of its log."""
        return last_words(self._process, self.server)

    def stop(self) -> None:
        """End it in its own way."""
        _stop(self._process)

    def kill(self) -> None:
        """End it by SIGKILL, as a crash would."""
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Start it after that."""
        self._process, _ = _start(*self._made_of, self.server.ports)
        self.server = replace(self.server, pid=self._process.pid)
        if not self.serves():
            raise DidNotStart(f"{self.server.name}: a port of it was taken by others")


@contextmanager
def mortal(recipe: Recipe, certificates: Path) -> Iterator[Mortal]:
    """Run the broker on fresh data until the block is left, and let it be killed there.

    Raises:
        Unavailable: it cannot be had here.
        DidNotStart: it does not serve; the end of its log is in the message.
    """
    program, jars = java(), install(recipe)
    with tempfile.TemporaryDirectory(prefix=f"amqp10-{recipe.name}-", ignore_cleanup_errors=True) as folder:
        broker = Mortal(recipe, program, jars, certificates, Path(folder, "data"))
        try:
            if not broker.serves():
                raise DidNotStart(f"{recipe.name}: a port of it was taken by others")
            yield broker
        finally:
            broker.kill()


def _start(
    recipe: Recipe,
    program: str,
    jars: Path,
    certificates: Path,
    data: Path,
    ports: dict[str, int] | None = None,
) -> tuple[subprocess.Popen[bytes], dict[str, int]]:
    data.mkdir(exist_ok=True)
    for where, what in recipe.files:
        (data / where).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(recipe.config / what, data / where)
    ports = ports or dict(zip(recipe.ports, free_ports(len(recipe.ports)), strict=True))
    properties = {"data": data, "config": recipe.config, "tls": certificates, "password": PASSWORD}
    properties |= {f"port.{use}": number for use, number in ports.items()}
    places = {"data": str(data), "config": str(recipe.config)}
    command = [
        program,
        *("-Xms128m", "-Xmx640m", *SHORT, "-Djava.awt.headless=true"),
        *(f"-Dinterop.{key}={value}" for key, value in properties.items()),
        *(option.format(**places) for option in recipe.options),
        *("-cp", f"{jars}/*", recipe.main),
        *(argument.format(**places) for argument in recipe.arguments),
    ]
    with (data / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=data, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    return process, ports


def _wait_until_it_serves(recipe: Recipe, process: subprocess.Popen[bytes], ports: dict[str, int], log: Path) -> bool:
    """True once it does; False if another process has taken one of its ports meanwhile."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        ended = process.poll() is not None  # before the log is read, which then has its last words
        said = log.read_text(errors="replace")
        if "Address already in use" in said:
            return False
        if all(words in said for words in recipe.ready) and all(map(accepts, ports.values())):
            return True
        if ended or time.monotonic() > deadline:
            raise DidNotStart(f"{recipe.name} does not serve; its log ends with:\n{said[-4000:]}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_words(process: subprocess.Popen[bytes], server: Server) -> str | None:
    """How the process ended and what its log said last; None while it runs."""
    code = process.poll()
    said = "" if code is None else server.log.read_text(errors="replace")[-4000:]
    return None if code is None else f"{server.name} ended by itself with {code}; its log ends with:\n{said}"


def accepts(port: int) -> bool:
    """Whether somebody listens on that port of loopback."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
