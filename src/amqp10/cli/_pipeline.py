"""`amqp10 pipeline`: a ready-made Spark job from a queue or log to files, a table or another queue."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from .._arguments import without_secrets
from ..net import PORTS
from ._main import Failure, Interrupted


def pairs(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse options of the form NAME=VALUE."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{without_secrets(each)} is not NAME=VALUE")
        found[name] = value
    return found


@click.command(short_help="Move messages with Spark to files, a table or a queue.")
@click.option(
    "--from",
    "source",
    required=True,
    envvar="AMQP10_FROM",
    metavar="URL",
    help="the broker to read from, amqp://user:password@host; or set AMQP10_FROM, which hides the password",
)
@click.option("--address", required=True, help="the queue, or the stream with --mode stream")
@click.option("--mode", type=click.Choice(["queue", "stream", "eventhubs"]), default="queue")
@click.option(
    "--to",
    "target",
    required=True,
    envvar="AMQP10_TO",
    metavar="SINK",
    help="parquet:DIR, json:DIR, csv:DIR, orc:DIR, text:DIR, delta:DIR, iceberg:TABLE, console:, or the URL of a "
    "broker; or AMQP10_TO in the environment",
)
@click.option("--to-address", help="the queue to write to, when SINK is a broker")
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="where Spark and this job keep the state to continue from after a stop; "
    "DIR.checkpoint beside the files by default",
)
@click.option(
    "--trigger",
    default="now",
    help="now: take what is there and end; or an interval such as '10 seconds': run until stopped",
)
@click.option("--rate", type=click.IntRange(1), metavar="N", help="maximum number of messages in one batch")
@click.option(
    "--links", type=click.IntRange(1), metavar="N", help="number of links that receive from the queue at the same time"
)
@click.option("--columns", metavar="DDL", help="the columns to keep, with types: 'body STRING, subject STRING'")
@click.option(
    "--option", "options", multiple=True, callback=pairs, metavar="NAME=VALUE", help="any option of the reader"
)
@click.option(
    "--to-option", "to_options", multiple=True, callback=pairs, metavar="NAME=VALUE", help="any option of the writer"
)
@click.option("--master", default="local[*]", help="the Spark master; that of spark-submit has precedence")
@click.option("--conf", multiple=True, callback=pairs, metavar="NAME=VALUE", help="a setting of Spark")
def pipeline(
    source: str,
    address: str,
    mode: str,
    target: str,
    to_address: str | None,
    checkpoint: str | None,
    trigger: str,
    rate: int | None,
    links: int | None,
    columns: str | None,
    options: Mapping[str, str],
    to_options: Mapping[str, str],
    master: str,
    conf: Mapping[str, str],
) -> None:
    """Move messages with Spark.

    Each message goes to files and tables once, and to a queue at least once and unchanged, through restarts of this job
    and of the broker.

    The first SIGINT or SIGTERM lets the current batch finish; a second one does not wait. Creating the file that
    --option stopFile=FILE names stops it in the same way. Run the same command again to continue from the checkpoint.
    """
    try:
        from ..spark import pipeline as job
    except ImportError as error:
        raise Failure(str(error), 2) from None
    sink, place, written = _sink(target, to_address, to_options)
    if sink not in job.SINKS:
        raise click.UsageError(f"--to: there is no sink {sink!r}; the sinks are {', '.join(job.SINKS)}")
    if checkpoint is None:
        if sink not in job.FILES:
            raise click.UsageError(f"{sink} needs --checkpoint")
        checkpoint = f"{place.rstrip('/')}.checkpoint"
    stop_file = next((value for name, value in options.items() if name.lower() == "stopfile"), "")
    read = {
        "url": source,
        "address": address,
        "mode": mode,
        **({"maxMessagesPerTrigger": str(rate)} if rate else {}),
        **({"numPartitions": str(links)} if links else {}),
        **{name: value for name, value in options.items() if name.lower() != "stopfile"},
    }
    planned = job.Pipeline(
        source=read,
        sink=sink,
        place=place,
        target=written,
        checkpoint=str(Path(checkpoint).absolute()) if "://" not in checkpoint else checkpoint,
        trigger=trigger,
        columns=columns,
        master=master,
        conf=conf,
    )
    try:
        planned.check()
    except ValueError as error:
        raise Failure(str(error), 2) from None
    click.echo(f"from {address} at {_shown(source)} to {_shown(target)}", err=True)
    with tempfile.TemporaryDirectory(prefix="amqp10-pipeline-") as folder:
        _run(job, replace(planned, stop_file=stop_file or f"{folder}/stop"))


def _sink(target: str, to_address: str | None, options: Mapping[str, str]) -> tuple[str, str, dict[str, str]]:
    """Return the sink's format, its place, and the options of its writer."""
    kind, colon, place = target.partition(":")
    if "://" in target and kind in PORTS:
        return "amqp", "", {"url": target, **({"address": to_address} if to_address else {}), **options}
    if not colon:
        raise click.UsageError("--to must be FORMAT:PLACE, such as parquet:DIR, or the URL of a broker")
    return kind, place, dict(options)


def _shown(place: str) -> str:
    """Describe a folder or the URLs of brokers without passwords and without queries, which may hold tokens."""
    return re.sub(
        r"://([^:/@?#,]*):[^/]*@|\?[^,]*", lambda found: f"://{found[1]}:***@" if found[1] is not None else "", place
    )


def _run(job: Any, planned: Any) -> None:
    stopped: list[int] = []

    def stop(number: int, _: object) -> None:
        if stopped:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stopped.append(number)
        Path(planned.stop_file).touch()
        click.echo("stopping after this batch", err=True)

    try:
        spark = planned.session()
    except RuntimeError as error:
        raise Failure(str(error), 1) from None
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        query = planned.start(spark)
        job.follow(query, _tell, lambda: bool(stopped) or Path(planned.stop_file).exists(), _tell_busy)
    except Exception as error:
        raise Failure(job.cause(error, planned.sink), 1) from None
    finally:
        spark.stop()
        if stopped:
            Path(planned.stop_file).unlink(missing_ok=True)  # otherwise the next run would not begin
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopped:
        raise Interrupted(stopped[0])


def _tell(progress: Mapping[str, Any]) -> None:
    """Print one line for each batch."""
    seconds = progress["durationMs"]["triggerExecution"] / 1000
    rows = progress["numInputRows"]
    click.echo(f"batch {progress['batchId']}: {rows:,} rows in {seconds:.1f} s, {rows / seconds:,.0f} rows/s", err=True)


def _tell_busy(message: str) -> None:
    """Print what Spark does while no batch ends."""
    click.echo(f"no batch has ended for a while; Spark: {message}", err=True)
