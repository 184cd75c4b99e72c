"""AMQP/Fast 0.7 (AMQ RFC 006, 2005), as a sans-IO engine.

`_values`, `_record`, `_commands`, `_frames` the codec.
"""
