"""The brokers there are."""

from __future__ import annotations

from ._java import Recipe

ARTEMIS = Recipe(
    name="artemis",
    ports=("amqp", "amqps", "external", "scram"),
    main="org.apache.activemq.artemis.core.server.embedded.Main",
    arguments=("{data}",),
    options=(
        "-Djava.security.auth.login.config={config}/login.config",
        "-Djava.util.logging.config.file={config}/logging.properties",
    ),
    ready=("AMQ221007",),  # "Server is now active"
    files=(("etc/broker.xml", "broker.xml"),),
)

BROKER_J = Recipe(
    name="broker_j",
    ports=("amqp", "amqps", "external", "anonymous", "ws"),
    main="org.apache.qpid.server.Main",
    arguments=("-st", "Memory", "-icp", "{config}/broker.json"),
    options=(
        "-XX:MaxDirectMemorySize=512m",
        "-Dqpid.work_dir={data}",
        "-Dderby.stream.error.file={data}/derby.log",
        "-Dderby.system.durability=test",  # no fsync: the data is not to outlive the process
    ),
    ready=('VHT-1011 : Open : "default" : SUCCESS', "BRK-1004"),
)

RECIPES = {recipe.name: recipe for recipe in (ARTEMIS, BROKER_J)}
