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

This page lists the options and columns of `format("amqp")`. [Use Spark](../spark/index.md) shows how to work with
them. `python tools/spark.py` writes the page from the code.

## Options

The case of a name does not matter. In the column "for", "read" means a batch read, "stream" a streaming read, "write"
both ways of writing, and "all" every use. Spark hides the values of `url`, `password` and `token` in plans and its UI.

{options()}

## Columns

Without a schema, a DataFrame has all of these columns except the last, each with the first of its types. With
`.schema("body STRING, subject STRING")` it has only those columns, and the other fields are not decoded.

{columns()}

When rows are written, each column with "yes" under "written" becomes the field of its name. The other columns are left
out. NULL means that the message does not have the field. A `body` of type `binary` is sent as data, and one of type
`string` as a text value, unless `bodyFormat` is `json` or `amqp`.

## From Python

Spark finds the format by itself. A program that starts its own session can call `prepare` first, which finds Java:

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
