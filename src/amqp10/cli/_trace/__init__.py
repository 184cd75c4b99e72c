"""`amqp10 trace`: a proxy that records what crosses, and the page that shows it."""
