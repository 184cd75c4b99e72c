"""RabbitMQ for the tests: Debian's packages of it and of its Erlang, run from a folder."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...kit.processes.free_ports import free_ports
from ._debian import loader, unpacked
from ._java import HERE, HOST, START_SECONDS, DidNotStart, Server, accepts, last_words

NAME = "rabbitmq"
STABLE = "trixie"
"""Debian 13: RabbitMQ 4.0."""
NEWEST = "sid"
"""Debian unstable: the newest RabbitMQ that Debian has, 4.3 or later."""

PACKAGE = "rabbitmq-server"
PORTS = ("amqp", "amqps")
CONFIG = HERE / NAME


def install_rabbitmq(suite: str = STABLE) -> Path:
    """The folder with the packages unpacked; made if it is not there.

    Raises:
        Unavailable: this is no Debian, or apt cannot download the packages.
    """
    return unpacked(NAME, PACKAGE, suite)


# Running


@contextmanager
def serving_rabbitmq(certificates: Path, suite: str = STABLE) -> Iterator[MortalRabbitMQ]:
    """Run it on fresh data until the block is left.

    Raises:
        Unavailable: it cannot be had here.
        DidNotStart: it does not serve; the end of its log is in the message.
    """
    root = install_rabbitmq(suite)
    with tempfile.TemporaryDirectory(prefix=f"amqp10-{NAME}-", ignore_cleanup_errors=True) as folder:
        for attempt in range(3):
            broker = MortalRabbitMQ(root, Path(folder, str(attempt)), certificates)
            try:
                if broker.start():
                    yield broker
                    return
            finally:
                broker.end()  # the data is not needed any more, so there is nothing to wait for
    raise DidNotStart(f"{NAME}: its ports were taken by others three times")


@contextmanager
def mortal_rabbitmq(
    certificates: Path, *, token_key: Path | None = None, suite: str = STABLE
) -> Iterator[MortalRabbitMQ]:
    """Run it on fresh data until the block is left, and let it be killed there.

    Args:
        token_key: the public key, as PEM, of JSON Web Tokens that may log in, by its OAuth 2 plugin.

    Raises:
        Unavailable: it cannot be had here.
        DidNotStart: it does not serve; the end of its log is in the message.
    """
    root = install_rabbitmq(suite)
    with tempfile.TemporaryDirectory(prefix=f"amqp10-{NAME}-", ignore_cleanup_errors=True) as folder:
        broker = MortalRabbitMQ(root, Path(folder, "data"), certificates, token_key)
        try:
            if not broker.start():
                raise DidNotStart(f"{NAME}: a port of it was taken by others")
            yield broker
        finally:
            broker.end()


class MortalRabbitMQ:
    """It and its port mapper; it can be killed, and started again on the same ports with what it had written."""

    def __init__(self, root: Path, data: Path, certificates: Path, token_key: Path | None = None) -> None:
        *numbers, self._mapping, self._distribution = free_ports(len(PORTS) + 2)
        ports = dict(zip(PORTS, numbers, strict=True))
        _configure(data, ports, certificates, token_key)
        self._log = data / "broker.log"
        self._erlang = Erlang(root, data)
        self._mapper = self._erlang.start("epmd", "-address", HOST, "-port", str(self._mapping))
        self._broker: subprocess.Popen[bytes] | None = None
        self.server = Server(NAME, ports, 0, certificates, self._log)

    def start(self) -> bool:
        """Start it; False if another process has one of its ports."""
        if not _wait(lambda: accepts(self._mapping), self._mapper, self._log):
            return False
        said = self._log.stat().st_size
        self._broker = _start(self._erlang, self._mapping, self._distribution)
        self.server = replace(self.server, pid=self._broker.pid)
        return _wait(lambda: b" completed with " in self._log.read_bytes()[said:], self._broker, self._log)

    def kill(self) -> None:
        """End it by SIGKILL, as a crash would."""
        assert self._broker is not None
        self._broker.kill()
        self._broker.wait()

    def restart(self) -> None:
        """Start it after that."""
        if not self.start():
            raise DidNotStart(f"{NAME}: a port of it was taken by others")

    def ended(self) -> str | None:
        """What is to be said if it has ended by itself, with the end of its log."""
        assert self._broker is not None
        return last_words(self._broker, self.server)

    def alarm(self, on: bool) -> None:
        """Have it run out of memory, as far as it knows, or not any more: publishers are blocked meanwhile.

        Raises:
            DidNotStart: it did not do so; the end of its log is in the message.
        """
        node, share = _node(self._mapping), 0 if on else 0.6
        call = f"ok = rpc:call('{node}', vm_memory_monitor, set_vm_memory_high_watermark, [{share}]), halt()."
        done = self._erlang.emulate(self._mapping, "-sname", "alarm@localhost", "-hidden", "-eval", call)
        if done.wait(START_SECONDS):
            raise DidNotStart(f"{NAME} takes no orders; its log ends with:\n{self._log.read_text()[-4000:]}")

    def end(self) -> None:
        for process in (self._broker, self._mapper):
            if process is not None:
                process.kill()
                process.wait()


def _configure(data: Path, ports: dict[str, int], certificates: Path, token_key: Path | None) -> None:
    data.mkdir()
    values = {**ports, "config": CONFIG, "tls": certificates}
    settings, plugins = (CONFIG / "rabbitmq.conf").read_text(), (CONFIG / "enabled_plugins").read_text()
    if token_key is not None:
        values["key"] = token_key
        settings += (CONFIG / "oauth2.conf").read_text()
        plugins = plugins.replace("]", ", rabbitmq_auth_backend_oauth2]")
    (data / "rabbitmq.conf").write_text(settings.format(**values))
    (data / "enabled_plugins").write_text(plugins)


class Erlang:
    """Debian's Erlang in a folder, writing what it says to `data/broker.log`.

    Erlang starts helpers of its own from one folder; there they get scripts that run them by the loader, too.
    """

    def __init__(self, root: Path, data: Path) -> None:
        self.home = root / "usr/lib/erlang"
        self.rabbitmq = next(root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*"))
        self.data = data
        self.helpers = data / "bin"
        self._programs = next(self.home.glob("erts-*/bin"))
        self._loader = loader(root)
        self.helpers.mkdir()
        for name in ("erl_child_setup", "inet_gethost"):
            self._script(name, f'exec {" ".join(self._loader)} {self._programs / name} "$@"')
        self._script("erl", "exit 0")  # asked for to start the port mapper, which runs already

    def _script(self, name: str, line: str) -> None:
        path = self.helpers / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def start(
        self, program: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """One of its programs, as a process."""
        with (self.data / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [*self._loader, str(self._programs / program), *arguments],
                cwd=self.data,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def emulate(
        self, mapping: int, *words: str, environment: Mapping[str, object] | None = None
    ) -> subprocess.Popen[bytes]:
        """The emulator with these words, finding its like by the port mapper at the port `mapping`."""
        places = {"ROOTDIR": self.home, "BINDIR": self.helpers, "EMU": "beam", "PROGNAME": "erl", "HOME": self.data}
        roots = ("-root", self.home, "-bindir", self.helpers, "-progname", "erl", "--", "-home", self.data)
        # Threads that find nothing to do wait, and do not spin for a while first: the processors are few.
        idle = ("-sbwt", "none", "-sbwtdcpu", "none", "-sbwtdio", "none")
        emulator = ("-W", "w", "-S", "2:2", *idle, "--", *roots, "-epmd_port", mapping, "--", "-noshell", "-noinput")
        kernel = ("-kernel", "inet_dist_use_interface", "{127,0,0,1}")
        variables = {key: str(value) for key, value in (places | dict(environment or {})).items()}
        return self.start("beam.smp", *map(str, (*emulator, *words, *kernel)), environment=variables)


def _node(mapping: int) -> str:
    return f"interop-{mapping}@localhost"


def _start(erlang: Erlang, mapping: int, distribution: int) -> subprocess.Popen[bytes]:
    """The broker, as its own scripts start it (rabbitmq-server, erl and erlexec)."""
    data = erlang.data
    plugins = erlang.rabbitmq / "plugins"
    environment = {
        "ERL_LIBS": plugins,
        "RABBITMQ_HOME": erlang.rabbitmq,
        "RABBITMQ_PLUGINS_DIR": plugins,
        "RABBITMQ_NODENAME": _node(mapping),
        "RABBITMQ_MNESIA_BASE": data / "mnesia",
        "RABBITMQ_LOG_BASE": data / "log",
        "RABBITMQ_CONFIG_FILE": data / "rabbitmq.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": data / "enabled_plugins",
        "RABBITMQ_DIST_PORT": distribution,
    }
    quiet = ("-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false")
    # What watches the machine's memory and processors runs helpers that are not in the one folder.
    unwatched = [word for what in ("memsup", "cpu_sup", "disksup") for word in ("-os_mon", f"start_{what}", "false")]
    kernel = ("-kernel", "prevent_overlapping_partitions", "false")
    boot = ("-s", "rabbit", "boot", "-boot", "start_sasl")
    return erlang.emulate(mapping, *quiet, *unwatched, *boot, *kernel, environment=environment)


def _wait(serves: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> bool:
    """True once it does; False if another process has taken one of its ports meanwhile."""
    deadline = time.monotonic() + START_SECONDS
    while not serves():
        ended = process.poll() is not None  # before the log is read, which then has its last words
        said = log.read_text(errors="replace")
        if "eaddrinuse" in said or "Address already in use" in said:
            return False
        if ended or time.monotonic() > deadline:
            raise DidNotStart(f"{NAME} does not serve; its log ends with:\n{said[-4000:]}")
        time.sleep(0.1)
    return True
