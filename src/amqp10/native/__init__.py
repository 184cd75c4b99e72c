"""What older dialects have and AMQP 1.0 lacks; users import it as `amqp10.amqp091`, `amqp010`, `amqpfast`."""
