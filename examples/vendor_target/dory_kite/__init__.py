"""dory target: Kite, a RISC-V microcontroller that nobody makes."""
