"""What the two ends say to each other, frame by frame. Usage: python tracing.py [URL]"""

import logging
import sys

import anyio

import amqp10

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost:5672"

logging.basicConfig(format="%(message)s", stream=sys.stdout)
logging.getLogger("amqp10.frames").setLevel(logging.DEBUG)

anyio.run(amqp10.send, URL, "traced", "hello")
