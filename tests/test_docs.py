"""The site builds without a warning, and what it says of names is true."""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
import tomllib
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import amqp10
import amqp10.azure
import amqp10.broker
import amqp10.errors
import amqp10.rabbitmq
import amqp10.testing
import amqp10.worker
from amqp10 import (
    Bridge,
    Connection,
    Delivery,
    Management,
    Message,
    Receiver,
    Request,
    Requester,
    Responder,
    Sender,
    SentDelivery,
    Session,
)
from amqp10.azure import (
    EventHub,
    EventReader,
    EventSender,
    ServiceBus,
    ServiceBusDelivery,
    ServiceBusSender,
    ServiceBusSession,
    SubscriptionRules,
)
from amqp10.broker import Broker, Quarantine
from amqp10.rabbitmq import Management as RabbitManagement
from amqp10.testing import BackgroundBroker, EnginePair, ScriptedPeer
from amqp10.worker import Worker

from .kit.processes.programs import run_program

ROOT = Path(__file__).parent.parent


of_site = pytest.mark.xdist_group("site")
"""Of the tests of one worker, for which the site is built once."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site: `zensical build --strict` finds every link, anchor and reference. It writes beside its sources."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("docs", "src", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder / "site"


@of_site
@pytest.mark.slow
def test_site_builds_without_warnings(site: Path) -> None:
    """It has its first page, and the examples in their tabs."""
    assert (site / "index.html").is_file()
    assert 'class="tabbed-set' in (site / "start" / "first-steps" / "index.html").read_text()


@of_site
@pytest.mark.slow
def test_site_asks_no_other_host(site: Path) -> None:
    """A page has no style, script or picture from elsewhere: a reader's browser tells nobody else what it reads."""
    pages = [page.read_text() for page in site.rglob("*.html")]
    assert pages
    loads = r"<(?:link [^>]*rel=.?(?:stylesheet|preconnect)[^>]*href|(?:script|img|iframe)[^>]* src)=.?(https?://[^\s\"'>]+)"
    assert {found for page in pages for found in re.findall(loads, page)} == set()


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("graceful shutdown", "build/worker.md"),
        ("backoff", "build/worker.md"),
        ("poison", "build/worker.md"),
        ("mutual TLS (mTLS)", "operate/tls.md"),
        ("publish/subscribe (pub/sub)", "build/subscriptions.md"),
        ("keepalive", "operate/reconnect.md"),
        ("pydantic", "build/bodies.md"),
        ("(RPC)", "build/services.md"),
        ("prefetch", "build/credit.md"),
        ("ack and nack", "build/settlement.md"),
        ("idempotent", "build/exactly-once.md"),
        ("inbox", "build/exactly-once.md"),
        ("outbox", "build/exactly-once.md"),
        ("delayed or scheduled message", "build/delays.md"),
    ],
)
def test_words_that_newcomers_look_for(word: str, page: str) -> None:
    """The search finds the page by the word that other libraries use: before its second heading."""
    assert word in (ROOT / "docs" / page).read_text().partition("\n## ")[0].replace("\n", " ")


def test_pages_and_pictures() -> None:
    """Each page is in the navigation, which names no other, and each picture is there: the builder looks at neither."""
    pages = {path.relative_to(ROOT / "docs").as_posix(): path.read_text() for path in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(pages)
    for page, text in pages.items():
        for picture in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text):
            assert (ROOT / "docs" / page).parent.joinpath(picture).is_file(), f"{picture} in {page}"


def inventory(site: Path) -> dict[str, set[str]]:
    """Return the pages on which each object is documented, by the object's last name."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    pages: dict[str, set[str]] = {}
    for line in zlib.decompress(packed).decode().splitlines():
        name, _, _, page, _ = line.split(" ", 4)
        pages.setdefault(name, set()).add(page.partition("#")[0])
    return pages


def found_by(path: str) -> object:
    """Return the object of a dotted path."""
    try:
        return pkgutil.resolve_name(path)
    except (AttributeError, ImportError):
        return None


@of_site
@pytest.mark.slow
def test_reference_is_complete(site: Path) -> None:
    """Each stable name is documented on one page, with all that it has a docstring for, inherited or its own."""
    stable = (ROOT / "docs" / "reference" / "stability.md").read_text().partition("## Not promised")[0]
    packages = re.findall(r"`(amqp10[\w.]*)`", stable.partition("A name that begins")[0])
    assert len(packages) > 10
    pages = inventory(site)
    paths: dict[str, list[str]] = {}
    for path in pages:
        paths.setdefault(path.rpartition(".")[2], []).append(path)
    wrong = []
    for package in packages:
        for name in importlib.import_module(package).__all__:
            value = getattr(importlib.import_module(package), name)
            known = [path for path in paths.get(name, []) if found_by(path) is value]
            if len(where := set().union(*(pages[path] for path in known))) != 1:
                wrong.append(f"{package}.{name} is on {sorted(where)}")
            elif inspect.isclass(value) and package != "amqp10.spark":  # Spark calls its methods
                shown = {path.rpartition(".")[2] for path in pages if path.rpartition(".")[0] in known}
                wrong += [f"{package}.{name}.{each} is not there" for each in documented(value) - shown]
    assert wrong == []


def documented(cls: type) -> set[str]:
    """Return the public methods and properties of a class that have a docstring, also those of its private bases."""
    found = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("amqp10") or (base is not cls and base.__name__ in amqp10.__all__):
            continue
        for name, value in vars(base).items():
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if inspect.isfunction(function) and function.__name__ == name and function.__doc__:
                found.add(name)
    return {name for name in found if not re.match(r"_[^_]|__(?!a?enter__|a?exit__)", name)}


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COPY = runpy.run_path(str(ROOT / "tools" / "examples.py"))["COPY"]
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
HOLDERS = (
    Bridge,
    Connection,
    Session,
    Sender,
    Receiver,
    Delivery,
    SentDelivery,
    Requester,
    Responder,
    Request,
    Management,
    RabbitManagement,
    Broker,
    Quarantine,
    Message,
    ScriptedPeer,
    EnginePair,
    Worker,
    ServiceBus,
    ServiceBusDelivery,
    ServiceBusSender,
    ServiceBusSession,
    SubscriptionRules,
    EventHub,
    EventReader,
    EventSender,
)


def code_of(path: Path) -> list[ast.Module]:
    """The Python of a page, but for the copies of examples; `await` may stand at the outermost level."""
    blocks = BLOCK.findall(COPY.sub("", path.read_text()))
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    return [compile(textwrap.dedent(block), path.name, "exec", flags) for block in blocks]


def meant(name: str) -> list[Callable[..., Any]]:
    """What a call of that name in a page may mean: a public object, or a method of what users hold."""
    found = [
        vars(package)[name]
        for package in (amqp10, amqp10.azure, amqp10.broker, amqp10.rabbitmq, amqp10.worker)
        if name in vars(package)
    ]
    found += [getattr(amqp10.testing, name)] if name in amqp10.testing.__all__ else []
    return found + [getattr(holder, name) for holder in HOLDERS if hasattr(holder, name)]


def takes(function: Callable[..., Any], keyword: str) -> bool:
    """Whether a function, or what a class is made from, has that parameter; `**fields` by the names it unpacks."""
    parameters = inspect.signature(function).parameters
    if keyword in parameters:
        return True
    made_by = function.__init__ if inspect.isclass(function) else function
    rest = [name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_KEYWORD]
    hints = get_type_hints(made_by) if rest else {}
    return any(hints[name] is Any or keyword in get_args(hints[name])[0].__annotations__ for name in rest)


@pytest.mark.parametrize(
    "tool", ["tools/diagrams.py", "tools/examples.py", "benchmarks/report.py"], ids=lambda path: Path(path).stem
)
def test_what_tools_write(tool: str) -> None:
    """The diagrams, the copies of examples, and the page and plots of the benchmarks are what their sources say."""
    ended = subprocess.run([sys.executable, ROOT / tool, "--check"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_frames_of_the_landing_page(caplog: pytest.LogCaptureFixture) -> None:
    """The diagram of the first program has the frames that the program sends and gets, in their order."""
    drawn = runpy.run_path(str(ROOT / "tools" / "diagrams.py"))
    program = ROOT / "examples" / "hello.py"
    logger = logging.getLogger("amqp10.frames")
    logger.addHandler(caplog.handler)  # `run_program` takes away that of the root
    try:
        with caplog.at_level(logging.DEBUG, logger.name), BackgroundBroker() as broker:
            run_program(program.read_text(), str(program), broker.url)
    finally:
        logger.removeHandler(caplog.handler)
    lines = [line for line in caplog.messages if line.startswith("amqp://")]
    for kind, way in (("Right", ">"), ("Left", "<")):
        shown = " ".join(step.text for step in drawn["HELLO"] if isinstance(step, drawn[kind]))
        crossed = [found[1] for line in lines if (found := re.search(rf" {way} \[0\] (\w+)\(", line))]
        assert re.findall(r"[A-Z]\w+", shown) == crossed


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_block_is_blank(path: Path) -> None:
    """A reader on GitHub sees the code of each page: no block is left to the program that builds the site."""
    assert not re.search(r"^ *--8<--|^```\w+\n```$", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_sentence_becomes_an_item(path: Path) -> None:
    """A line of text that begins with a number and a point would be an item of a list, with a number out of order."""
    before = 0
    for line in re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL).splitlines():
        if found := re.match(r" *(\d+)[.)] ", line):
            number = int(found[1])
            assert number in (1, before + 1), line
            before = number


THREATS = ROOT / "docs" / "concepts" / "threat-model.md"
THREAT_TEST = re.compile(r"`([\w/]+\.py)::([\w:]+)`")


@cache
def named_in(path: str) -> set[str]:
    """Return the names of the tests of that file."""
    return names_of_tests(ast.parse((ROOT / "tests" / path).read_text()).body)


def names_of_tests(body: list[ast.stmt]) -> set[str]:
    """Return the names of the tests of a module or class; those in a class begin with its name, as pytest has them."""
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{name}" for name in names_of_tests(node.body)}
    return {name for name in names if name.rpartition("::")[2].startswith("test_")}


def test_threats_have_tests() -> None:
    """Each item of the threat model, up to what is not defended, names tests, and each of them is there."""
    defended = THREATS.read_text().partition("## What is not defended")[0]
    items = re.split(r"^- ", defended, flags=re.MULTILINE)[1:]
    assert len(items) > 50
    for item in items:
        named = THREAT_TEST.findall(item)
        assert named, item
        for path, name in named:
            assert name in named_in(path), f"{path}::{name}"


def test_files_of_the_design_exist() -> None:
    """Each file and folder that the page on the packages names is there; `*` stands for one name."""
    page = (ROOT / "docs" / "concepts" / "design.md").read_text()
    named = re.findall(r"`(\w[\w*]*/[\w/*]*(?:\.py)?)`", page)
    assert len(named) > 20
    places = ROOT / "src" / "amqp10", ROOT
    assert [each for each in named if not any(any(place.glob(each.rstrip("/"))) for place in places)] == []


def test_proofs() -> None:
    """docs/reference/proofs.md is what the marks of the tests say, and every capability has a test."""
    tool = runpy.run_path(str(ROOT / "tools" / "proofs.py"))
    assert (ROOT / "docs" / "reference" / "proofs.md").read_text() == tool["render"]()
    for each in tool["CAPABILITIES"].values():
        assert (ROOT / "docs" / each.page).is_file()
        assert (ROOT / "examples" / each.example).exists()


def test_azure_matrix() -> None:
    """docs/reference/azure-matrix.md is what its registry and the tests say, and neither has what the other lacks."""
    tool = runpy.run_path(str(ROOT / "tools" / "azure_matrix.py"))
    assert (ROOT / "docs" / "reference" / "azure-matrix.md").read_text() == tool["render"]()
    assert sum(1 for _ in tool["behaviors"]()) >= 120
    messages = tool["SERVICE_BUS"]["Messages"]
    wrong = tool["Behavior"]("new", "Something new", "queues.nowhere")
    with pytest.raises(ValueError, match=r"names the test queues\.nowhere, which is not there"):
        messages.append(wrong)
        tool["check"]()
    messages[:] = [each for each in messages if each.name not in ("new", "handler")]
    with pytest.raises(ValueError, match=r"javascript\.processor in .*test_azure_sdks\.py proves no behavior"):
        tool["check"]()


LINK = re.compile(r"\]\(([^)\s]+)\)|^\[\w+\]: (\S+)$", re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_outside_the_site(name: str) -> None:
    """What these files link to in the repository is there; `zensical build` checks the pages of the site."""
    for inline, reference in LINK.findall((ROOT / name).read_text()):
        target = (inline or reference).partition("#")[0]
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_comparison_has_sources() -> None:
    """Each cell of the README's comparison names its source, a test or a page of the other project."""
    text = (ROOT / "README.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| [\w`]", line)]
    assert len(rows) > 5
    for _, *cells in rows:
        assert len(cells) == 7
        for cell in cells:
            label = re.fullmatch(r"\[.+\]\[(\w+)\]", cell)
            assert label, cell
            assert f"\n[{label[1]}]: " in text, cell


def test_messages_of_troubleshooting() -> None:
    """Each message that the page on troubleshooting quotes is one of the package."""
    page = (ROOT / "docs" / "operate" / "troubleshooting.md").read_text()
    quoted = [each for each in re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE) if " " in each]
    assert len(quoted) > 15
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "amqp10").rglob("*.py"))
    assert [each for each in quoted if each not in source] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_code_in_the_pages_fits_the_package(path: Path) -> None:
    """Each block parses; what it imports of the package is there; what it calls takes the arguments it names."""
    for module in code_of(path):
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("amqp10"):
                package = importlib.import_module(node.module)
                for name in node.names:
                    assert hasattr(package, name.name), f"{node.module}.{name.name}"
            elif isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                functions = meant(called)
                for keyword in node.keywords:
                    if functions and keyword.arg is not None:
                        assert any(takes(one, keyword.arg) for one in functions), f"{called}({keyword.arg}=)"


FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(await [^`\n]+)`(?!`)")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_a_sentence_awaits(path: Path) -> None:
    """What the text of a page says to await is a coroutine function, or makes a bridge."""
    for code in INLINE.findall(FENCED.sub("", path.read_text())):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
        for node in ast.walk(compile(code.replace("...", "_"), code, "exec", flags)):
            if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
                called = node.value.func
                functions = meant(called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", ""))
                assert not functions or amqp10.bridge in functions or any(map(inspect.iscoroutinefunction, functions))


def test_extras() -> None:
    """The page for beginners lists every extra of the package, and no other."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    _, _, section = (ROOT / "docs/start/first-steps.md").read_text().partition("\n## Extras\n")
    assert set(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)) == set(extras)


def test_commands_of_make() -> None:
    """Each `make` command that a page or another document names is there."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for path in (*PAGES, ROOT / "CONTRIBUTING.md"):
        named = re.findall(r"(?:`|\$ )make ([a-z-]+)", path.read_text())
        assert set(named) <= set(targets), path


def test_each_error_has_a_cure() -> None:
    """The page of errors has a row for each class that users can catch, with its cause and what to do."""
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = {row[0]: row[1:] for row in re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)}
    assert rows.keys() == set(amqp10.errors.__all__) - {"AmqpError"}
