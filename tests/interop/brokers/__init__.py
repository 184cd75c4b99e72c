"""Real brokers for the interop tests, installed and run by the tests themselves."""

from __future__ import annotations

from ._certificates import PASSWORD as PASSWORD
from ._certificates import write_certificates as write_certificates
from ._certificates import write_trust_store as write_trust_store
from ._java import DidNotStart as DidNotStart
from ._java import Mortal as Mortal
from ._java import Recipe as Recipe
from ._java import Server as Server
from ._java import Unavailable as Unavailable
from ._java import cache as cache
from ._java import copy_jars as copy_jars
from ._java import java as java
from ._java import mortal as mortal
from ._java import serving as serving
from ._postgresql import MortalPostgreSQL as MortalPostgreSQL
from ._postgresql import serving_postgresql as serving_postgresql
from ._rabbitmq import NEWEST as NEWEST
from ._rabbitmq import STABLE as STABLE
from ._rabbitmq import MortalRabbitMQ as MortalRabbitMQ
from ._rabbitmq import mortal_rabbitmq as mortal_rabbitmq
from ._rabbitmq import serving_rabbitmq as serving_rabbitmq
from ._recipes import ARTEMIS as ARTEMIS
from ._recipes import BROKER_J as BROKER_J
from ._recipes import RECIPES as RECIPES
