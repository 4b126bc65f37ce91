"""The Diana target of dory: a RISC-V host, a digital array and an analog one."""
