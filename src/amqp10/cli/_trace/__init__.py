"""`amqp10 trace`: a proxy that records frames, and a page that shows them."""
