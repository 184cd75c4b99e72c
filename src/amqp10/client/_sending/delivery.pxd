# What a compiled build knows beyond delivery.py: see docs/operate/compiled.md.
from amqp10.engine._deliveries cimport OutgoingDelivery


cdef class SenderDelivery(OutgoingDelivery):
    pass
