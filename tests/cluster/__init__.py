"""A Kubernetes cluster of two nodes on this machine, and roceway on it. README.md says how and why."""
