"""The broker that Spark talks to."""

from ..kit.spark.own_broker import broker_url as broker_url
