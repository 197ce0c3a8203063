"""``make demo``: four hosts, four rails each, a real runtime, a real all-reduce, a slow NIC named, nothing left."""
