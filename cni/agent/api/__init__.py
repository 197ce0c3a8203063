"""The kubelet's published APIs, generated from the .proto files beside this one: ``make api``."""
