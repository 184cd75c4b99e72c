"""The benchmark runs, and its counterpart sees what this client says; no figure is looked at."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from .kit.unavailable import unavailable

RUN = Path(__file__).parents[1] / "benchmarks" / "run.py"
LARGE = RUN.with_name("large_message.py")
STORE = RUN.with_name("store.py")
CODEC = RUN.with_name("codec.py")
REAL = RUN.with_name("real.py")
FLOOR = RUN.with_name("floor.py")
REAL_CLIENTS = RUN.with_name("real_clients.py")
AZURE = RUN.with_name("azure_emulator.py")
LEGACY = RUN.with_name("amqp091.py")
LATENCY = RUN.with_name("latency.py")
SCALE = RUN.with_name("scale.py")
COUNT = "200"
"""Messages of a run: a limit of seconds would have each run twice, first to find how many these are."""


@pytest.mark.parametrize(
    ("size", "options", "workloads"),
    [
        (100, [], ["send", "recv", "send-settled", "recv-settled"]),
        (100, ["--single"], ["send", "recv"]),  # of what is settled there are no dispositions
        (300_000, [], ["send", "recv-settled"]),
    ],
    ids=["ranges", "single", "of three frames"],
)
def test_run(size: int, options: list[str], workloads: list[str]) -> None:
    """Every workload ends well, counted at both ends, with dispositions of ranges and of single deliveries."""
    command = [sys.executable, str(RUN), "--peers", "amqp10", "--sizes", str(size), "--reps", "1", "--count", COUNT]
    options = ["--workloads", ",".join(workloads), *options]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for workload in workloads:
        assert f"| {workload} {size} B | amqp10 |" in done.stdout


@pytest.mark.parametrize("transport", ["tls", "websocket"])
def test_transports(transport: str) -> None:
    """Over TLS and over a WebSocket, beside another client where that is here, counted at both ends."""
    others = ["pyamqp"] if has("azure.servicebus") and has("websocket") else []
    command = [sys.executable, str(RUN), "--peers", ",".join(["amqp10", *others]), "--transport", transport]
    cut = ["--workloads", "send,recv", "--sizes", "10000", "--reps", "1", "--count", COUNT]
    done = subprocess.run([*command, *cut], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for peer in ("amqp10", *others):
        assert f"| recv 10000 B | {peer} |" in done.stdout


def has(module: str) -> bool:
    """It can be imported; where its package is not there either, neither can it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_variants() -> None:
    """The other ways to use this client that can be asked for."""
    command = [sys.executable, str(RUN), "--peers", "amqp10", "--variants", "submit+asyncio,batch+asyncio"]
    cut = ["--workloads", "send,recv", "--sizes", "100", "--reps", "1", "--count", COUNT]
    done = subprocess.run([*command, *cut], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| recv 100 B | amqp10+batch+asyncio |" in done.stdout


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_large_message(backend: str) -> None:
    """A message of 24 MiB is sent, received and passed on, in less memory than it has, as counted at both ends."""
    command = [sys.executable, str(LARGE), "--size", "24", "--backend", backend]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for case in ("send", "receive", "pass-on"):
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"| {case} |")]
        assert float(line.split("|")[3]) < 24


def test_amqp091() -> None:
    """AMQP 0-9-1 beside other clients, counted at both ends."""
    pytest.importorskip("pika")
    pytest.importorskip("aio_pika")
    command = [sys.executable, str(LEGACY), "--sizes", "100", "--reps", "1"]
    timed = ["--peers", "amqp10", "--seconds", "0.01"]
    for options, clients in ((["--count", COUNT], ("amqp10", "pika", "aio-pika")), (timed, ("amqp10",))):
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        for client in clients:
            assert f"| consume, acks 100 B | {client} |" in done.stdout


def test_store() -> None:
    """The broker with a store and without one, each with one connection and with ten."""
    done = subprocess.run([sys.executable, str(STORE), "--count", "200"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("store") == done.stdout.count("memory") == 2


def test_codec() -> None:
    """The codec alone: encoding, decoding, and decoding of no more than the body."""
    command = [sys.executable, str(CODEC), "--rounds", "1", "--each", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for operation in ("encode", "decode", "decode, body only"):
        assert f"| {operation} | amqp10 |" in done.stdout


def test_real() -> None:
    """Messages as applications send them, the codec alone, and beside another tree of this package."""
    beside = ["--beside", str(RUN.parents[1] / "src"), "--turns", "1"]
    for options, columns in (([], 2), (beside, 4)):
        command = [sys.executable, str(REAL), "--rounds", "1", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        for workload in ("order encode", "order decode", "row encode", "row decode"):
            (row,) = (line for line in done.stdout.splitlines() if line.startswith(f"| {workload} |"))
            assert row.count("|") == columns + 1


def test_floor() -> None:
    """What is made in C is what was sent, and its cost stands beside ours, where there is a compiler."""
    done = subprocess.run([sys.executable, str(FLOOR), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    compiler = sysconfig.get_config_var("CC").split()[0]
    assert ("| C | " in done.stdout) == (shutil.which(compiler) is not None)
    assert "| amqp10 | " in done.stdout


def test_real_clients() -> None:
    """Every workload with real messages ends well, counted at both ends, and two of them on the other event loop."""
    relays = ("relay", "relay-task", "relay-worker")
    workloads = ("order-send", "order-receive", "row-send", "row-receive", *relays, "one", "links")
    said = ""
    for options in (["amqp10,bare"], ["amqp10+asyncio", "--workloads", "one,relay-worker"]):
        command = [sys.executable, str(REAL_CLIENTS), "--count", "100", "--reps", "1", "--peers", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said += done.stdout
    for workload in workloads:
        assert f"| {workload} | CPU µs/message | times amqp10 |" in said
    assert [said.count(f"| {peer} |") for peer in ("amqp10", "bare", "amqp10+asyncio")] == [9, 1, 2]


def azure(found: Path, *options: str) -> tuple[Any, str]:
    """Run a little of the benchmark of the emulator of Azure; what it found, and what it said of who is not here."""
    command = [sys.executable, str(AZURE), "--count", "20", "--sessions", "3", "--reps", "1", "--json", str(found)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(found.read_text()), done.stderr


def test_azure(tmp_path: Path) -> None:
    """The emulator with our client and Microsoft's for Python, counted at both ends."""
    pytest.importorskip("azure.servicebus")
    pytest.importorskip("azure.eventhub")
    facts, _ = azure(tmp_path / "found.json", "--parts", "start,python", "--cases", "lock,events-send")
    assert len(facts["starts"]) == 1
    for mode, sdk in {"lock": "azure-servicebus", "events-send": "azure-eventhub"}.items():
        assert {peer: len(runs) for peer, runs in facts["figures"]["python"][mode].items()} == {"amqp10": 1, sdk: 1}


@pytest.mark.slow
def test_azure_javascript(tmp_path: Path) -> None:
    """The emulator with Microsoft's client for JavaScript and rhea, and with sessions."""
    facts, said = azure(tmp_path / "found.json", "--parts", "javascript,sessions", "--cases", "delete,through")
    if "JavaScript: left out" in said:
        unavailable(said)
    for mode in ("delete", "through"):
        assert [len(runs) for runs in facts["figures"]["javascript"][mode].values()] == [1, 1]
    assert (facts["sessions"]["count"], facts["sessions"]["sessions"]) == (3, 3)


def test_latency() -> None:
    """One message in flight, on both backends, against the counterpart."""
    command = [sys.executable, str(LATENCY), "--peers", "amqp10 trio,amqp10 asyncio", "--rounds", "1", "--count", "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for peer in ("amqp10 trio", "amqp10 asyncio"):
        assert f"| {peer} |" in done.stdout


def test_scale() -> None:
    """What a message costs by links and by connections, both ways, beside proton where that is there."""
    beside = find_spec("proton") is not None
    command = [sys.executable, str(SCALE), "cost", "--counts", "3", "--total", "500", "--rounds", "1"]
    done = subprocess.run([*command, *([] if beside else ["--alone"])], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for way in ("send", "receive"):
        for row in ("amqp10: {}, by links", "amqp10: {}, by connections", *["proton: {}, by connections"] * beside):
            assert f"| {row.format(way)} |" in done.stdout


def test_fairness() -> None:
    """Who gets how much, both ways, and the cost of a message with mixed rates."""
    command = [sys.executable, str(SCALE), "fairness", "--counts", "10", "--seconds", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for row in ("10, send", "10, receive", "1 send all they can", "9 send all they can"):
        assert f"| {row} |" in done.stdout


WRONG = {
    "--peers go-amqp": "'go-amqp' is none of amqp10, proton, pyamqp",
    "--variants submit,batch+asyncoi": "'asyncoi' is none of submit, batch, asyncio",
    "--workloads send,frob": "'frob' is none of send,",
    "--sizes 100,abc": "'abc' is no positive number",
    "--reps 0": "'0' is no positive number",
    "--json no/such/folder/run.json": "there is no folder no/such/folder",
}
ALL_WRONG = f"""
import sys
sys.path.insert(0, {str(RUN.parent)!r})
import run
for options in {list(WRONG)}:
    sys.argv[1:] = options.split()
    try:
        run.main()
    except SystemExit as end:
        assert end.code
        print("", end.code, "end of " + options, sep="\\n", file=sys.stderr)
"""


def test_what_cannot_be_asked_for() -> None:
    """It is said before anything is measured, in a line."""
    done = subprocess.run([sys.executable, "-c", ALL_WRONG], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    said = done.stderr
    for options, why in WRONG.items():
        before, _, said = said.partition(f"end of {options}\n")
        assert why in before, options


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--peers", "nonsense"], "'nonsense' is none of amqp10 trio, amqp10 asyncio, proton"),
        (["--url", "amqp://127.0.0.1:1/q", "--peers", "amqp10 trio"], "amqp10 trio: amqp10"),
    ],
)
def test_what_cannot_be_measured(options: list[str], why: str) -> None:
    """The same of the latency; and where nobody listens, that is said in a line."""
    done = subprocess.run([sys.executable, str(LATENCY), *options], capture_output=True, text=True, check=False)
    assert done.returncode
    assert why in done.stderr.splitlines()[-1]


def test_who_is_not_installed() -> None:
    """A client that is not here is left out, which is said; the others are measured."""
    program = f"import sys; sys.path.insert(0, {str(RUN.parent)!r}); import run; run.PEERS['it'] = 'no-such-package'"
    cut = ["--workloads", "send", "--sizes", "100", "--reps", "1", "--seconds", "0.01", "--peers", "amqp10,it"]
    command = [sys.executable, "-c", f"{program}; sys.exit(run.main())", *cut]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "it: left out, no-such-package is not installed" in done.stderr
    assert "| send 100 B | amqp10 |" in done.stdout
    assert "| it |" not in done.stdout


@pytest.mark.slow
def test_amplification(tmp_path: Path) -> None:
    """Hostile input costs no more memory for an octet, and no more calls, than the page of limits says."""
    found = tmp_path / "found.json"
    command = [sys.executable, str(RUN.with_name("amplification.py")), "--json", str(found)]
    done = subprocess.run([*command, "--octets", "8000", "--tries", "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    costs = json.loads(found.read_text())
    assert {cost["dialect"] for cost in costs} == {"1.0", "0-9-1", "0-9", "0-9-draft", "0-10", "fast"}
    for cost in costs:
        # Both are the same on every machine, but for what the version of Python makes of them.
        assert f"| {cost['dialect']} | {cost['stage']} |" in done.stdout
        assert 0 < cost["memory"] < 100, cost
        assert cost["kept"] < 80, cost
        assert 0 < cost["calls"] < 20, cost
