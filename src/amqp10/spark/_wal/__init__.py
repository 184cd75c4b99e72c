"""Write-ahead segments: messages on disk before the broker hears that they were taken."""
