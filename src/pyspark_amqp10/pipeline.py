"""`amqp10 pipeline` for spark-submit, which wants a file:

spark-submit --master yarn "$(python -m pyspark_amqp10.pipeline --file)" --from amqp://host --address orders --to ...
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["--file"]:
        print(__file__)
    else:
        from amqp10.cli import main

        main(["pipeline", *sys.argv[1:]])
