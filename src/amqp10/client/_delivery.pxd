# What a compiled build knows beyond _delivery.py: see docs/howto/compiled.md.
from amqp10.engine._delivery cimport IncomingDelivery, OutgoingDelivery
from amqp10.messaging._message cimport Message, decoded


cdef class Delivery(IncomingDelivery):
    pass


cdef class SentDelivery(OutgoingDelivery):
    pass
