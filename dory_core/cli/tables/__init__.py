"""What the terminal shows: tables printed from the JSON documents and from nothing else."""
