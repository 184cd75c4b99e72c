"""Every example runs as a user would run it, and writes what its page says."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.testing import BackgroundBroker
from amqp10.worker import worker_from_environment

from .kit.processes.programs import run_program, started

ROOT = Path(__file__).parent.parent
EXPECTED = {
    "hello.py": "hello greeting\n",
    "many.py": "10000 accepted\n10000 received, their sum is 49995000\n",
    "bodies.py": "str text\nbytes b'octets'\ndict {'id': 7, 'paid': True}\nlist [1, 2.5, None]\nJSON {'id': 7}\n",
    "on_asyncio.py": "one\nb'two'\n{'number': 3}\n",
    "credit.py": "task 0\ntask 1\ntask 2\ntask 3\ntask 4\n",
    "filters.py": "two for eu: [1, 3]\nby fields: [2]\nnot applied: rabbitmq:stream-offset-spec\n",
    "streams.py": "all of it:\n0: 18\n1: 19\n2: 21\nfrom 2:\n2: 21\nstill there: 3\n",
    "subscriptions.py": "kept: while nobody listens\none has 0\ntwo has 1\none has 2\ntwo has 3\n"
    "waiting: ['first', 'second']\n",
    "large_messages.py": "chunk by chunk whole\na file 3000000 bytes\nthe copy is equal\n",
    "nodes.py": "first 144\n",
    "transactions.py": "1\n4\ninvalid literal for int() with base 10: 'three'\nthree failed before: a dead letter\n",
    "websocket.py": "over a WebSocket\na page from anywhere: 403\n",
    "proxy.py": "CONNECT\nsent\n",
    "request_reply.py": "".join(f"{n} * {n} = {n * n}\n" for n in range(10)),
    "rpc.py": "add: 3\ndivide: ZeroDivisionError: division by zero\nmultiply: KeyError: 'multiply'\n",
    "telemetry.py": "send orders: PRODUCER, 0 links\nreceive orders: CLIENT, 1 links\n"
    "process orders: CONSUMER, 1 links\naccept orders: CLIENT, 1 links\n"
    "messaging.client.sent.messages in {message}\nmessaging.client.consumed.messages in {message}\n",
    "event_processor.py": "4 partitions, 10 events\n4 partitions, 5 events\n",
    "durable_broker.py": "kept: durable\nleft: 0\n",
    "exactly_once.py": "got 0\ngot 1\ngot 2\n",
    "amqp_0_9_1.py": "nobody wants db.info\ndisk full came as db.error\nerrors has 0\n",
    "amqp_0_10.py": "errors has 2\ndisk full came as db.error\nno route came as net.error\nprepared: ['order 4711']\n"
    "nothing yet: 0\npart of something larger\n",
    "amqp_fast.py": "listed: 1 2 3\n3 is id-3 with order 3\n2 is id-2 with order 2\n1 is id-1 with order 1\n"
    "done as a whole: order 1\nno: the dialect has no outcome rejected\n",
    "dialects.py": (ROOT / "docs" / "older" / "dialects.txt").read_text(),
    "exchanges.py": "errors has 1\neverything has 2\ndisk full came by logs with db.error\n"
    "no queue is bound for that\n",
    "move_once.py": "at the target: 3\n",
    "bridge.py": "100 moved\nb'order 0'\n",
    "two_dialects.py": "sent in 0-9-1 received in 1.0\nsent in 1.0 received in 0-9-1\n",
    "users_and_permissions.py": "shop: sent to orders.paid\nshop: amqp:unauthorized-access\n"
    "audit: amqp:unauthorized-access\nroot: sent to invoices\naudit: received order 1\n",
    "delays.py": "call back arrived later: True\n",
    "priority.py": "a telegram\na letter\na leaflet\n",
    "periodic.py": "time for a report\n" * 3,
    "inbox.py": "the balance is 10\n" * 2,
    "outbox.py": "order-1 is tea\norder-2 is cake\n",
    "worker.py": "order 0 at attempt 1\norder 3 at attempt 1\norder 2 at attempt 2\n"
    "order 1 is dead: an amount below nothing\n",
    "web.py": "lifespan.startup.complete\nstatus 202\nlifespan.shutdown.complete\n",
    "pipeline.py": "order-0 tea 6\norder-1 cake 10\norder-2 no price for coal\n",
    "health.py": "/ready 503\n/live 200\n/ready 200\n/live 503\n",
    "tokens.py": "renewed: sb://example/orders\nthe key may not receive: amqp:unauthorized-access\n"
    "logged in by OAUTHBEARER\nrenewed: login\nreceived before\nreceived after\n",
    "service_bus_client.py": "b'two teas' at attempt 1\ndead: b'no tea' because it cannot be brewed\n"
    "kettle: b'fill', b'boil', last done: boil\nscheduled: b'refill' as number 3\nred: b'apple'\n",
    "service_bus.py": "two teas is locked, at attempt 1\ntwo teas is locked, at attempt 2\n",
    "event_hub_client.py": "b'20.5' of sensor-7, 2 more are there\n[b'21.0', b'21.5']\n"
    "another reader has the partition now\n",
    "event_hubs.py": "tea of table-7, number 0\ncake of table-7, number 1\nnothing is left of yesterday\n",
    "configuration.py": "order 1\n3 at a time\n",
    "embedded_broker.py": "a copy for each\na copy for each\n1 in the queue\n",
}


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
tabs = runpy.run_path(str(ROOT / "tools" / "tabs.py"))
FORMS: dict[str, Callable[[str], str]] = {"asyncio": tabs["asyncio_form"], "trio": tabs["trio_form"]}


@pytest.fixture
def url() -> Iterator[str]:
    with BackgroundBroker(users={"guest": "guest"}) as broker:
        yield broker.url.replace("amqp://", "amqp://guest:guest@")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path: Path, url: str) -> None:
    """It runs as the site shows it for asyncio and for trio; where the output is fixed, it is that.

    Both use the same broker: a reader runs a program twice, and what the first run left there does not disturb.
    """
    code = path.read_text()
    for form in FORMS.values():
        output = run_program(form(code) if "anyio.run(" in code else code, str(path), url)
        assert output
        if path.name in EXPECTED:
            assert sorted(output.splitlines()) == sorted(EXPECTED[path.name].splitlines())


@pytest.mark.slow
def test_as_a_user_runs_it() -> None:
    """An example by its file name, beside `amqp10 broker`: nothing is written to standard error."""
    command = [sys.executable, "-m", "amqp10", "broker", "--port", "0", "--user", "guest:guest"]
    with started(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        try:
            url = broker.stdout.readline().split()[3].replace("amqp://", "amqp://guest:guest@")
            program = [sys.executable, "-W", "error", str(ROOT / "examples" / "hello.py"), url]
            ended = subprocess.run(program, capture_output=True, text=True, timeout=280)
        finally:
            broker.terminate()
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, EXPECTED["hello.py"], "")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", ["azure", "pipeline", "service", "web"])
def test_to_deploy(name: str, backend: str, tmp_path: Path) -> None:
    """A program that one would deploy, beside an embedded broker: its one command writes what its README says."""
    folder = tmp_path / name
    shutil.copytree(ROOT / "examples" / name, folder)
    for path in folder.glob("*.py"):
        if "anyio.run(" in (code := path.read_text()):
            path.write_text(FORMS[backend](code))
    shown = re.search(r"\$ python demo.py\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    command = [sys.executable, "-W", "error", "demo.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert (done.stdout, done.stderr) == (shown[1], "")


@pytest.mark.slow
def test_types() -> None:
    """A program that is copied has no fault for mypy, but that some of its functions have no annotations.

    What mypy has found out about the package is kept beside what lint keeps, which it finds out with other options.
    """
    allowed = ["untyped-defs", "incomplete-defs", "untyped-calls", "any-generics"]
    elsewhere = ["import-not-found", "import-untyped", "misc", "no-any-return"]  # what a dependency has no types for
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--explicit-package-bases"]
    command += [f"--allow-{each}" for each in allowed] + [f"--disable-error-code={each}" for each in elsewhere]
    programs = [path for path in (ROOT / "examples").rglob("*.py") if "spark" not in path.parts]
    done = subprocess.run(
        [*command, "--cache-dir", ".mypy_cache/examples", *map(str, programs)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", ["azure/service.py", "pipeline/step.py", "service/service.py"])
def test_terminated_before_its_broker_is_there(name: str, backend: str, tmp_path: Path) -> None:
    """SIGTERM ends a service in an orderly way while it waits for the first connection."""
    with socket.create_server(("127.0.0.1", 0)) as away, socket.create_server(("127.0.0.1", 0)) as free:
        host = f"127.0.0.1:{away.getsockname()[1]}"
        key = "SharedAccessKeyName=rule;SharedAccessKey=secret;UseDevelopmentEmulator=true"
        environ = {
            **os.environ,
            "AMQP10_URL": f"amqp://{host}",
            "SERVICE_BUS_CONNECTION_STRING": f"Endpoint=sb://{host};{key}",
            "SERVICE_PORT": str(free.getsockname()[1]),
        }
        free.close()
        code = tmp_path / "service.py"
        code.write_text(FORMS[backend]((ROOT / "examples" / name).read_text()))
        program = [sys.executable, "-W", "error", str(code)]
        with started(program, env=environ, stderr=subprocess.PIPE, text=True) as service:
            away.accept()[0].close()  # it has tried to connect
            service.terminate()
            _, log = service.communicate(timeout=60)
    assert service.returncode == 0, log
    assert "Traceback" not in log


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["web.py", "web/app.py"])
async def test_no_broker_at_the_start_of_a_web_application(name: str) -> None:
    """The server hears that the start failed, and why: it would serve without a connection otherwise."""
    code = (ROOT / "examples" / name).read_text().removesuffix("anyio.run(main)\n")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"amqp://127.0.0.1:{closed.getsockname()[1]}"
    names: dict[str, Any] = {}
    exec(code, names)
    names["URL"] = url
    sent: list[dict[str, str]] = []

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.startup"}

    async def send(event: dict[str, str]) -> None:
        sent.append(event)

    await names["App" if "App" in names else "Shop"]()({"type": "lifespan"}, receive, send)
    assert [event["type"] for event in sent] == ["lifespan.startup.failed"]
    assert url.removeprefix("amqp://") in sent[0]["message"]


def test_manifest() -> None:
    """Kubernetes waits longer than the service drains, and asks the paths that the service has."""
    folder = ROOT / "examples" / "service"
    pod = yaml.safe_load((folder / "kubernetes.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environ = {each["name"]: str(each.get("value", "x")) for each in container["env"]}
    drain = worker_from_environment(environ)["drain_timeout"]
    assert drain < pod["terminationGracePeriodSeconds"]
    for name in ("livenessProbe", "readinessProbe"):
        assert f'"{container[name]["httpGet"]["path"]}"' in (folder / "service.py").read_text()


@pytest.mark.slow
def test_recipes() -> None:
    """The tests that the page has to copy pass, under anyio's plugin and pytest-asyncio, without a warning."""
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c", "/dev/null"]
    folder = ROOT / "examples" / "testing"
    done = subprocess.run([*command, "--rootdir", "."], cwd=folder, capture_output=True, text=True, check=False)
    assert "9 passed in" in done.stdout, done.stdout


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_program_of_the_readme(backend: str) -> None:
    """What the README shows first runs as written, but for the port; and on trio, if two lines are changed."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    text = code[1]
    if backend == "trio":
        text = text.replace("import asyncio", "import trio").replace("asyncio.run(main())", "trio.run(main)")
    with BackgroundBroker() as broker:  # as `amqp10 broker` is: without users
        text = text.replace("amqp://localhost:5672", broker.url)
        assert run_program(text, "readme.py") == "hello greeting\n"
        assert broker.queue("orders").depth == 0


@pytest.mark.anyio
async def test_service_of_the_page() -> None:
    """The service goes on after work that raises, a reply with no AMQP type, and a request without a reply-to."""
    program = (ROOT / "examples" / "rpc.py").read_text()

    async def work(body: str) -> object:
        if body == "bad":
            raise ValueError("no such order")
        return {1} if body == "set" else body

    names: dict[str, Any] = {}
    exec(program.removesuffix("anyio.run(main)\n"), names)
    names["METHODS"]["work"] = work
    async with (
        Broker(queues=["service"], auto_create=False) as broker,
        Connection(broker.url) as connection,
        connection.responder("service") as responder,
        connection.requester("service") as requester,
        connection.sender("service") as sender,
        anyio.create_task_group() as serving,
    ):
        serving.start_soon(names["serve"], responder)
        await sender.send(Message(["without a reply-to"], subject="work"))
        replies = [await requester.request(Message([body], subject="work")) for body in ("bad", "set", "good")]
        serving.cancel_scope.cancel()
    assert [reply.subject for reply in replies] == ["error", "error", None]
    assert replies[2].body == "good"
