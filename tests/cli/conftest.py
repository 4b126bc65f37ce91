"""What tests of the command line need."""

from tests.toy.fixtures import application, golden, net, network, pipeline

__all__ = ["application", "golden", "net", "network", "pipeline"]
