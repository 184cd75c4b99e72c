"""What is public is named, documented, and the same for people and for tools."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from typing import Any, get_type_hints

import pytest

import amqp10
import amqp10.amqp010
import amqp10.amqp091
import amqp10.amqpfast
import amqp10.azure
import amqp10.rabbitmq
import amqp10.worker
from amqp10 import sync
from amqp10._arguments import current_names
from amqp10.broker import Broker
from amqp10.messaging import MessageFields
from amqp10.testing import BackgroundBroker

from .kit.inside.package import NAMES_BESIDE

BESIDE = ["sync", "rabbitmq", "azure", "worker", "otel", "broker", "testing"]


@pytest.mark.parametrize("name", BESIDE)
def test_help_names_what_stands_beside(name: str) -> None:
    """`help(amqp10)` tells which modules a program may import beside `amqp10` itself."""
    assert f" amqp10.{name} " in (amqp10.__doc__ or "")
    importlib.import_module(f"amqp10.{name}")


PACKAGES = [
    "amqp10",
    "amqp10.amqp010",
    "amqp10.amqp091",
    "amqp10.bridging",
    "amqp10.amqpfast",
    "amqp10.azure",
    "amqp10.azure.service_bus",
    "amqp10.broker",
    "amqp10.client",
    "amqp10.engine",
    "amqp10.errors",
    "amqp10.messaging",
    "amqp10.messaging.payloads",
    "amqp10.messaging.sections",
    "amqp10.net",
    "amqp10.otel",
    "amqp10.profiles",
    "amqp10.rabbitmq",
    "amqp10.sasl",
    "amqp10.spark",
    "amqp10.sync",
    "amqp10.testing",
    "amqp10.testing.suite",
    "amqp10.types",
    "amqp10.types.codec",
    "amqp10.worker",
]


INTERNAL = {
    *("amqp10.engine", "amqp10.errors", "amqp10.messaging.payloads", "amqp10.messaging.sections", "amqp10.net"),
    *("amqp10.spark", "amqp10.testing.suite", "amqp10.types.codec"),
}
"""Packages for the package itself, and modules whose other names are few."""


@pytest.mark.parametrize("name", [name for name in PACKAGES if name not in INTERNAL])
def test_reprs(name: str) -> None:
    """What programs hold says what it is: no class that can be made has the repr of `object`."""
    module = importlib.import_module(name)
    classes = [each for each in map(vars(module).get, module.__all__) if inspect.isclass(each)]
    shows_nothing = [
        each.__qualname__
        for each in classes
        if each.__repr__ is object.__repr__ and not (inspect.isabstract(each) or getattr(each, "_is_protocol", False))
    ]
    of_authors = {
        "ClientHandshake",
        "Composite",
        "ServerHandshake",
        "StreamDecoder",
    }  # of dialects: no program holds one
    assert set(shows_nothing) <= of_authors


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_complete(name: str) -> None:
    """Each name of `__all__` is there, once, and every class and function in it has a docstring."""
    module = importlib.import_module(name)
    names: tuple[str, ...] = module.__all__
    assert len(names) == len(set(names))
    for each in names:
        value = getattr(module, each)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{name}.{each}"
    public = {
        each
        for each, value in vars(module).items()
        if each in names or not (each.startswith("_") or each == "annotations" or inspect.ismodule(value))
    }
    if name not in ("amqp10.errors", "amqp10.testing"):  # modules with imports of their own, or loaded at first use
        assert public == set(names)


@pytest.mark.parametrize("name", sorted(set(PACKAGES) - INTERNAL))
def test_dir(name: str) -> None:
    """`dir`, and so an editor, lists what is public of a package for users, and nothing else."""
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        *(
            (package, f"{kind}Filter", f"{kind}RuleFilter")
            for package in ("amqp10.azure", "amqp10.broker.azure")
            for kind in ("Correlation", "False", "Sql", "True")
        ),
        *(
            ("amqp10.broker", f"{kind}Facts", f"{kind}Snapshot")
            for kind in ("Exchange", "Queue", "Subscription", "Topic")
        ),
    ],
)
def test_names_in_packages_of_before(name: str, before: str, now: str) -> None:
    """A name that was changed still works, with a warning that names its successor, and is not listed."""
    module = importlib.import_module(name)
    with pytest.warns(DeprecationWarning, match=f"^{name}.{before} is called {now} now$") as warned:
        found = getattr(module, before)
    assert found is getattr(module, now)
    assert [each.filename for each in warned] == [__file__]
    assert before not in dir(module)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'missing'"):
        _ = module.missing


def test_signature_of_messages() -> None:
    """`help` and editors show the fields of a message by name; a subclass has the signature of its own constructor."""
    parameters = inspect.signature(amqp10.Message).parameters
    assert list(parameters) == ["body", *MessageFields.__annotations__]
    assert parameters["ttl"].annotation == "timedelta | None"
    shown = pydoc.plain(pydoc.render_doc(amqp10.Message))
    assert re.search(r"subject: ('?)str \| None\1 = None", shown), shown  # Python 3.14 shows annotations without quotes

    class Order(amqp10.Message):
        def __init__(self, number: int) -> None:
            super().__init__(number)

    assert list(inspect.signature(Order).parameters) == ["number"]


def test_every_error_is_public() -> None:
    """Whatever the package raises of its own can be caught by a name of `amqp10`."""
    for name in amqp10.errors.__all__:
        assert getattr(amqp10, name) is getattr(amqp10.errors, name)


def coroutines() -> list[Any]:
    """Every coroutine that a user can call, with its name."""
    found = []
    holders = (
        amqp10.Connection,
        amqp10.Session,
        amqp10.Sender,
        amqp10.BodyWriter,
        amqp10.Receiver,
        amqp10.Delivery,
        amqp10.SentDelivery,
        amqp10.Transaction,
        amqp10.Bridge,
        amqp10.Requester,
        amqp10.Responder,
        amqp10.Request,
        amqp10.client.Management,
        amqp10.amqp010.Native,
        amqp10.amqp010.XA,
        amqp10.amqp091.Native,
        amqp10.amqpfast.Native,
        amqp10.rabbitmq.Management,
        amqp10.azure.ServiceBus,
        amqp10.azure.ServiceBusDelivery,
        amqp10.azure.ServiceBusReceiver,
        amqp10.azure.ServiceBusSender,
        amqp10.azure.ServiceBusSession,
        amqp10.azure.SubscriptionRules,
        amqp10.worker.SessionWorker,
        amqp10.worker.Worker,
    )
    for holder in holders:
        for name, value in inspect.getmembers(holder, inspect.iscoroutinefunction):
            if not name.startswith("_"):
                found.append(pytest.param(value, id=f"{holder.__name__}.{name}"))
    found += [pytest.param(one, id=one.__name__) for one in (amqp10.send, amqp10.receive)]
    return found


@pytest.mark.parametrize("coroutine", coroutines())
def test_coroutines_say_what_they_raise_and_what_cancelling_does(coroutine: Any) -> None:
    """Both are part of the contract."""
    text = inspect.getdoc(coroutine) or ""
    assert "Cancelling:" in text
    if coroutine.__name__ not in ("close", "detach", "rollback"):  # which end something and raise nothing
        assert "Raises:" in text


OFFERED: dict[type, str] = {
    amqp10.Delivery: (
        "message iter_body save payload tag message_format accept reject release modify settle wait_settled"
        " local_settled state remote_state stale"
    ),
    amqp10.SentDelivery: "outcome payload tag local_settled remote_settled",
}


@pytest.mark.parametrize("cls", OFFERED, ids=lambda cls: cls.__name__)
def test_what_editors_offer_of_a_delivery(cls: type) -> None:
    """What programs call, each with its docstring, and no attribute of the engine's object behind it."""
    offered = {name for name in (*current_names(cls), *inspect.get_annotations(cls)) if not name.startswith("_")}
    assert offered == set(OFFERED[cls].split())
    assert all(vars(cls)[name].__doc__ for name in offered)


def test_what_editors_know_of_receivers_and_senders() -> None:
    """Their annotations name these two classes. Another one, such as that of the object behind, would show more."""
    assert get_type_hints(amqp10.Receiver.receive)["return"] is amqp10.Delivery
    assert get_type_hints(amqp10.Receiver.receive_batch)["return"] == list[amqp10.Delivery]
    assert get_type_hints(amqp10.Sender.submit, localns={"Transaction": object})["return"] is amqp10.SentDelivery


def test_typed() -> None:
    """The package says that it is typed."""
    from importlib.resources import files

    assert files("amqp10").joinpath("py.typed").is_file()


def test_version() -> None:
    """`amqp10.__version__` is the version that the changelog of the last release names."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", amqp10.__version__)


NOT_INSTALLED = """
import importlib.metadata as metadata

def absent(name, of=metadata.distribution):
    if name == "amqp10":
        raise metadata.PackageNotFoundError(name)
    return of(name)

metadata.distribution = absent  # which version() asks, too
import anyio
from amqp10 import Connection
from amqp10 import sync
from amqp10._arguments import current_names
from amqp10.broker import Broker
from amqp10.messaging import MessageFields
from amqp10.testing import BackgroundBroker
from amqp10 import cli
from amqp10.otel import instrument, instrument_broker

async def main():
    async with Broker() as broker:
        for dialect in ("1.0", "0-10", "0-9-1", "0-9-draft", "fast"):
            async with Connection(broker.url, dialect=dialect):
                print(dialect)

instrument()
instrument_broker()
anyio.run(main)
cli.main(["--version"])
"""


def test_from_sources_that_are_not_installed() -> None:
    """Only `amqp10.__version__` knows the version: a broker, clients of each dialect, telemetry and the command line
    work where `importlib.metadata` knows no package of this name.
    """
    run = subprocess.run([sys.executable, "-c", NOT_INSTALLED], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    *dialects, last = run.stdout.splitlines()
    assert last == f"amqp10, version {amqp10.__version__}"
    assert dialects == ["1.0", "0-10", "0-9-1", "0-9-draft", "fast"]


@pytest.mark.anyio
async def test_what_objects_show_of_themselves() -> None:
    """Each `repr` says which object it is; `dir` of a delivery has what programs use, and not what the engine does."""
    async with Broker() as broker:
        assert repr(broker) == f"<Broker: {broker.url}>"
        async with (
            broker.connect() as connection,
            connection.sender("orders") as sender,
            connection.receiver("orders") as receiver,
            connection.requester("service") as requester,
            connection.responder("service") as responder,
        ):
            assert repr(requester).startswith("<Requester by <Sender 'service'")
            assert repr(responder).startswith("<Responder by <Receiver 'service'")
            sent = await sender.submit("one")
            delivery = await receiver.receive()
            assert dir(sent) == sorted(dir(amqp10.SentDelivery))
            assert dir(delivery) == sorted(current_names(amqp10.Delivery))
            delivery.accept()


FEW_NEED = {"amqp10.azure", "asyncio", "cryptography", "http.client", "shutil", "tempfile", "tomllib", "trio", "xml"}
"""Modules that are imported where they are needed, for they take a large part of the start of a process."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "most", "without"),
    [
        ("import amqp10", 102, {"amqp10.client", "amqp10.broker", "sqlite3"}),
        ("from amqp10 import Connection", 178, {"amqp10.broker", "amqp10.worker"}),
        ("from amqp10.broker import Broker", 205, {"amqp10.client", "amqp10.worker", "amqp10.broker.azure"}),
        ("import amqp10.cli._broker", 212, {"amqp10.client", "amqp10.worker", "amqp10.broker.azure"}),
    ],
)
def test_what_a_process_imports(code: str, most: int, without: set[str]) -> None:
    """A process starts with little more of the package than it uses, and without what few need."""
    program = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert not (FEW_NEED | without) & found
    assert 0.8 * most < sum(each.partition(".")[0] == "amqp10" for each in found) <= most


def test_names_that_are_imported_later() -> None:
    """They are listed, and a wrong one is an error, as if all were there from the beginning."""
    code = "import amqp10; assert 'Worker' in dir(amqp10); print(amqp10.Worker.__name__); amqp10.worked"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "Worker\n"
    assert "AttributeError: module 'amqp10' has no attribute 'worked'" in done.stderr


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in BESIDE for name in NAMES_BESIDE[module]])
def test_names_of_what_stands_beside(module: str, name: str) -> None:
    """A name that is in a module beside `amqp10` says so to a program that imports it from `amqp10`."""
    assert name in importlib.import_module(f"amqp10.{module}").__all__
    advice = f"^{name} is in another module: from amqp10.{module} import {name}$"
    with pytest.raises(ImportError, match=advice):
        exec(f"from amqp10 import {name}")
    with pytest.raises(ImportError, match=advice):
        getattr(amqp10, name)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Publisher", "connection.sender(address) makes one that sends"),
        ("Consumer", "connection.receiver(address) makes one"),
        ("Client", "use Connection(url)"),
    ],
)
def test_names_of_other_libraries(name: str, advice: str) -> None:
    """A class of another library says what makes such an object here."""
    assert not hasattr(amqp10, "Nothing")
    with pytest.raises(ImportError, match=re.escape(f"amqp10 has no {name}: {advice}")):
        exec(f"from amqp10 import {name}")


@pytest.mark.parametrize("module", BESIDE)
def test_modules_that_are_not_imported(module: str) -> None:
    """`import amqp10` imports no module beside it; the error of a program that uses one says what to import."""
    code = f"import amqp10; print(hasattr(amqp10, {module!r})); amqp10.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n"
    assert f"AttributeError: module 'amqp10' has no attribute '{module}': import amqp10.{module}" in done.stderr


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_names_of_before() -> None:
    """A name that a method had before works, warns of the new one, and is not offered by `dir`."""
    async with (
        Broker() as broker,
        broker.connect() as connection,
        connection.sender("q") as sender,
        connection.receiver("q") as receiver,
    ):
        assert not {"settled", "body"} & set(dir(await sent_and_received(sender, receiver)))
        assert "prepared" not in dir(sender)
        assert "connection" not in dir(connection)
        older: Any = connection
        with pytest.warns(DeprecationWarning, match="connection.connection is the connection itself"):
            assert older.connection is connection
        message = amqp10.Message("x")
        older = sender
        with pytest.warns(DeprecationWarning, match=r"Sender\.prepared is called traced now"):
            assert older.prepared(message) is message
        older = await sent_and_received(sender, receiver)
        with pytest.warns(
            DeprecationWarning, match=r"Delivery\.settled is called wait_settled now; local_settled says"
        ):
            await older.settled()
        with pytest.raises(
            AttributeError, match=r"a delivery has no body: use delivery\.message\.body, or delivery\.iter"
        ):
            _ = older.body


async def sent_and_received(sender: amqp10.Sender, receiver: amqp10.Receiver) -> amqp10.Delivery:
    """Send a message and return its delivery, accepted."""
    await sender.send(b"x")
    delivery = await receiver.receive()
    delivery.accept()
    return delivery


def test_names_of_before_without_async() -> None:
    """The synchronous classes have them as well."""
    with BackgroundBroker() as broker, sync.Connection(broker.url) as connection:
        with connection.sender("q") as sender, connection.receiver("q") as receiver:
            sender.send(b"x")
            delivery: Any = receiver.receive()
            delivery.accept()
            assert not {"settled", "body"} & set(dir(delivery))
            with pytest.warns(DeprecationWarning, match=r"Delivery\.settled is called wait_settled now"):
                delivery.settled(timeout=60)
            with pytest.raises(AttributeError, match=r"a delivery has no body: use delivery\.message\.body, or deliv"):
                _ = delivery.body


MADE: dict[type, str] = {
    amqp10.BodyWriter: "sender.stream()",
    amqp10.Browser: "connection.browser(address)",
    amqp10.Management: "connection.management()",
    amqp10.Receiver: "connection.receiver(address)",
    amqp10.Requester: "connection.requester(address)",
    amqp10.Responder: "connection.responder(address)",
    amqp10.Sender: "connection.sender(address)",
    amqp10.Session: "connection.session()",
    amqp10.Transaction: "connection.transaction()",
    amqp10.rabbitmq.Management: "amqp10.rabbitmq.management(connection)",
}


@pytest.mark.parametrize("cls", MADE, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_constructors_that_programs_do_not_call(cls: Any) -> None:
    """The error of such a constructor says what to call instead, and `help` shows no arguments of it."""
    for args in ((), ("q",), (amqp10.Connection("amqp://localhost"), "q")):
        with pytest.raises(TypeError, match=re.escape(f"{cls.__name__}() is not for programs: {MADE[cls]} makes one")):
            cls(*args)
    assert not inspect.signature(cls).parameters
    assert cls.__init__.__doc__ == f"`{MADE[cls]}` makes one."
