"""Static memory planning: lifetimes, the bidirectional stack, optimal packing, bins, verifier."""

from dory_core.memory.bins import Bin, BinPlan, pack_bins
from dory_core.memory.blocks import Block, Packing
from dory_core.memory.lifetimes import Request, requests
from dory_core.memory.packing import MemoryPlan, optimal_packing, plan_memory
from dory_core.memory.stack import bidirectional_stack
from dory_core.memory.verify import verify_bins, verify_packing

__all__ = [
    "Bin",
    "BinPlan",
    "Block",
    "MemoryPlan",
    "Packing",
    "Request",
    "bidirectional_stack",
    "optimal_packing",
    "pack_bins",
    "plan_memory",
    "requests",
    "verify_bins",
    "verify_packing",
]
