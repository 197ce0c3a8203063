"""What a switch is set to do with RoCE: the model, and a reader for each operating system."""
