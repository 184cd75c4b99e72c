# What a compiled build knows beyond delivery.py: see docs/operate/compiled.md.
from amqp10.engine._deliveries cimport IncomingDelivery
from amqp10.messaging._message cimport Message, decoded


cdef class ReceiverDelivery(IncomingDelivery):
    pass
