"""`amqp10 work` as a process, and what its handlers do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from amqp10.broker import Broker

HANDLERS = """
import os, random
import anyio
from amqp10.worker import DeadLetter, Retry

def say(*words):
    # The end of the line goes with it: the lines of threads would be mixed.
    print(" ".join(map(str, words)) + "\\n", end="", flush=True)

async def orders(message):
    await anyio.sleep(0.001)
    if message.body % 50 == 7:
        raise DeadLetter("sevens are not sold")
    if random.random() < 0.1:
        raise Retry(delay=0.01)
    say(message.body)

async def slow(message):
    say("begun", message.body)
    while not os.path.exists("go"):
        await anyio.sleep(0.01)
    say("ended", message.body)

def plain(message):
    say("plain", message.body)

async def step(message, session):
    say(session.session_id, message.body)

def nothing_taken(): ...

def wrong(message):
    raise ValueError("no such thing")

number = 5
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "amqp10", "work", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout.readline, "")


async def fill(broker: Broker, count: int) -> None:
    async with broker.connect() as connection, connection.sender("orders") as sender:
        await sender.send_many(range(count))
