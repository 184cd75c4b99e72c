"""AMQP 0-10: typed values, structs, controls, commands; frames and assemblies; sessions that count their commands.

`_values` what says its type · `_declare` what is declared · `_controls`, `_commands`, `_topology`, `_content` the
declarations · `_frames` frames and assemblies · `_trace` both as lines
"""
