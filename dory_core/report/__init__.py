"""What a person reads: tables printed from the JSON documents and from nothing else."""
