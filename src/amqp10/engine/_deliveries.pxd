# What a compiled build knows beyond _deliveries.py: see docs/operate/compiled.md.
cimport cython


cdef class OutgoingDelivery:
    cdef public object link, tag, payload, local_settled, message_format
    cdef public object delivery_id, state, remote_state, remote_settled, on_wire, past, waiter


cdef class IncomingDelivery:
    cdef public object link, delivery_id, tag, pieces, local_settled, remote_settled, message_format
    cdef public object state, remote_state, resumed, decoded, waiter, stream


@cython.locals(delivery=IncomingDelivery, made=list)
cpdef list deliveries(type kind, object link, object numbers, object tags, object payloads, object settled)
