"""What was found, for people: tables on a terminal, and one HTML page that needs nothing else."""
