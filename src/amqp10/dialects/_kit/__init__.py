"""What several dialects share, and no one else."""
