"""What to tell a Java that runs for seconds."""

from __future__ import annotations

SHORT = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Options. In that time the better compiler costs more than it gains, and there is no garbage for a second processor.
To verify the bytecode of each class takes up to an eighth of what a Spark does.
"""
