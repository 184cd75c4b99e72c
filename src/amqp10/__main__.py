"""`python -m amqp10` is the command `amqp10`."""

from .cli import main

if __name__ == "__main__":
    main()
