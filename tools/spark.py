"""`python tools/spark.py` writes docs/reference/spark.md from the declarations of `amqp10.spark`.

With `--check` it writes nothing, and fails if the page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from amqp10.spark._options import reference as options
from amqp10.spark._rows.schema import reference as columns

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "spark.md"


def page() -> str:
    """The page as it should be."""
    return f"""# Spark: options and columns

What `format("amqp")` takes and gives; [Use Spark](../spark/index.md) says how to work with it. This page is made from
the code by `python tools/spark.py`.

## Options

Names are taken in any case. "read" is a batch read, "stream" a streaming one, "write" both ways of writing, "all" every
use. Spark hides the values of `url`, `password` and `token` in plans and its UI.

{options()}

## Columns

Without a schema of yours a DataFrame has all of these but the last, each in the first of its types. With
`.schema("body STRING, subject STRING")` it has just what you name: what nobody wants is not decoded.

{columns()}

When rows are written, each column that is marked so becomes the field of its name; the others are left out. NULL is the
same as no such field. A `body` of `binary` is sent as data, one of `string` as a text value, unless `bodyFormat` says
`json` or `amqp`.

## From Python

Spark finds the format by itself. A program that starts its own session can have Java found first:

::: amqp10.spark.prepare

::: amqp10.spark.JavaMissing

::: amqp10.spark.AmqpDataSource
    options:
      members: []

::: amqp10.spark.Options
    options:
      members: []
      show_signature: false
"""


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/reference/spark.md is out of date: run `python tools/spark.py`")
