"""Getting the clients: each with its language's own package client, once, into the folder that the brokers use."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from ...kit.processes.short_java import SHORT
from ..brokers import Unavailable, cache, copy_jars, java

HERE = Path(__file__).resolve().parent
INSTALL_SECONDS = 400
COMPILE_SECONDS = 1800
"""For what compiles hundreds of crates."""


class ProgramFailed(Exception):
    """The program ended with an error; the message is what it said."""


@dataclass(frozen=True)
class Program:
    """One client.

    Attributes:
        name: of its folder beside this file.
        library: what it is built on.
        install: makes the given folder what the program needs to run.
        command: what to run, given that folder.
    """

    name: str
    library: str
    install: Callable[[Path, Path], None]
    command: Callable[[Path, Path], list[str]]
    environment: Callable[[Path], dict[str, str]] = lambda _: {}

    def installed(self) -> Path:
        """The folder with what it needs; made if it is not there.

        Raises:
            Unavailable: its language or its library cannot be had here, and why.
        """
        source = HERE / self.name
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(source.iterdir()) if path.is_file()))
        folder = cache() / f"{self.name}-{digest.hexdigest()[:12]}"
        if not folder.is_dir():
            cache().mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{self.name}-") as partial:
                built = Path(partial, "built")
                built.mkdir()
                self.install(source, built)
                with suppress(OSError):  # another run was quicker
                    built.rename(folder)
        return folder

    def prepared(self, *words: object) -> tuple[list[str], dict[str, str]]:
        """What to start to have it run, and in which environment.

        Raises:
            Unavailable: its language or its library cannot be had here, and why.
        """
        folder = self.installed()
        command = [*self.command(HERE / self.name, folder), *map(str, words)]
        return command, {**os.environ, **self.environment(folder)}

    async def run(self, *words: object, environment: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Run it to its end; what it printed, without the last line.

        Raises:
            ProgramFailed: it did not end well.

        Cancelling: it is killed.
        """
        command, variables = self.prepared(*words)
        done = await anyio.run_process(command, env={**variables, **(environment or {})}, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or not lines or lines[-1] != {"done": True}:
            raise ProgramFailed(f"{self.name} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
        return lines[:-1]


class Kept:
    """A program that takes task after task from its standard input, so that a Java is started once for many tests.

    A task is a line, with tabs between its words. The program is started at the first one, and again after it failed.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._process: subprocess.Popen[str] | None = None

    async def run(self, *words: object) -> list[dict[str, Any]]:
        """Have it do this; what it printed, without the last line.

        Raises:
            ProgramFailed: it did not end well.

        Cancelling: it is killed.
        """
        try:
            return await anyio.to_thread.run_sync(self._run, words, abandon_on_cancel=True)
        except BaseException:
            self.stop()
            raise

    def _run(self, words: tuple[object, ...]) -> list[dict[str, Any]]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(map(str, words)) + "\n")
        process.stdin.flush()
        lines = []
        for line in process.stdout:
            lines.append(json.loads(line))
            if lines[-1] == {"done": True}:
                return lines[:-1]
        raise ProgramFailed(f"{self._program.name} ended with {process.wait()}; standard error says why")

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            command, variables = self._program.prepared()
            self._process = subprocess.Popen(
                command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        return self._process

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            with self._process:
                self._process = None


def tool(name: str) -> str:
    """The path of a language's command.

    Raises:
        Unavailable: it is not there.
    """
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"there is no {name}")
    return found


def get(command: list[str], folder: Path, seconds: float = INSTALL_SECONDS) -> None:
    """Run a package client in a folder.

    Raises:
        Unavailable: it failed, and with what words.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            env={**os.environ, "GOFLAGS": "-mod=mod"},
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {seconds} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()[-500:]}")


def install_npm(source: Path, folder: Path) -> None:
    tool("node")
    shutil.copy(source / "package.json", folder)
    get([tool("npm"), "install", "--no-audit", "--no-fund", "--silent"], folder)


def install_go(source: Path, folder: Path) -> None:
    for path in source.iterdir():
        shutil.copy(path, folder)
    # Optimizing would cost more than these programs gain. All have the same flags, for they share what is compiled.
    get([tool("go"), "build", "-gcflags=all=-N -l", "-o", "client", "."], folder)


def install_cargo(source: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(
        dir=cache(), prefix="cargo-"
    ) as target:  # hundreds of MB, of which one file is used
        for path in source.iterdir():
            shutil.copy(path, target)
        get([tool("cargo"), "build", "--quiet"], Path(target), COMPILE_SECONDS)
        shutil.copy(Path(target, "target", "debug", "client"), folder)


def install_java(source: Path, folder: Path) -> None:
    """Compiled here, once: Java would do that again each time that it is given the source."""
    program = java()
    copy_jars(source / "pom.xml", folder)
    compiler = [program, *SHORT, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn"]
    jars = os.pathsep.join(map(str, folder.glob("*.jar")))
    get([*compiler, "-cp", jars, "-d", str(folder), str(source / "Client.java")], folder)


def run_java(source: Path, folder: Path) -> list[str]:
    return [java(), *SHORT, "-cp", os.pathsep.join((f"{folder}/*", str(folder))), "Client"]


RHEA = Program(
    "rhea",
    "rhea (JavaScript)",
    install_npm,
    lambda source, folder: [tool("node"), str(source / "client.js")],
    lambda folder: {"NODE_PATH": str(folder / "node_modules")},
)
GO_AMQP = Program("go_amqp", "go-amqp (Go)", install_go, lambda source, folder: [str(folder / "client")])
PROTONJ2 = Program(
    "protonj2",
    "Qpid ProtonJ2 (Java)",
    install_java,
    run_java,
)
AMQP091_GO = Program(
    "amqp091_go", "amqp091-go (Go)", install_go, lambda source, folder: [str(folder / "client")]
)  # of AMQP 0-9-1, and so with words of its own
QPID_CLIENT = Program(
    "qpid_client",
    "Qpid's JMS client for AMQP 0-8 to 0-10 (Java)",
    install_java,
    run_java,
)
RABBITMQ_JAVA = Program(
    "rabbitmq_java",
    "RabbitMQ's client for AMQP 1.0 (Java)",
    install_java,
    run_java,
)
AZURE_SERVICEBUS_JAVA = Program("azure_servicebus_java", "azure-messaging-servicebus (Java)", install_java, run_java)
AZURE_SERVICEBUS_JS = Program(
    "azure_servicebus_js",
    "@azure/service-bus (JavaScript)",
    install_npm,
    lambda source, folder: [tool("node"), str(source / "client.js")],
    lambda folder: {"NODE_PATH": str(folder / "node_modules")},
)
AZURE_EVENTHUBS_JAVA = Program("azure_eventhubs_java", "azure-messaging-eventhubs (Java)", install_java, run_java)
AZURE_EVENTHUBS_JS = Program(
    "azure_eventhubs_js",
    "@azure/event-hubs (JavaScript)",
    install_npm,
    lambda source, folder: [tool("node"), str(source / "client.js")],
    lambda folder: {"NODE_PATH": str(folder / "node_modules")},
)
AZURE_PROCESSOR_JS = Program(
    "azure_processor_js",
    "@azure/event-hubs with its store in blobs (JavaScript)",
    install_npm,
    lambda source, folder: [tool("node"), str(source / "client.js")],
    lambda folder: {"NODE_PATH": str(folder / "node_modules")},
)
AZURE_GO = Program(
    "azure_go", "azservicebus and azeventhubs (Go)", install_go, lambda source, folder: [str(folder / "client")]
)
AZURE_RUST = Program(
    "azure_rust",
    "azure_messaging_eventhubs (Rust)",
    install_cargo,
    lambda source, folder: [str(folder / "client")],
)
AZURITE = Program(  # a server; with an older reporter of its use, which is off: the newer one is three quarters of it
    "azurite",
    "Azurite, an emulator of Azure Storage (JavaScript)",
    install_npm,
    lambda source, folder: [tool("node"), str(folder / "node_modules/azurite/dist/src/blob/main.js")],
)
PROGRAMS = {program.name: program for program in (RHEA, GO_AMQP)}
