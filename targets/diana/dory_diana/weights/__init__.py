"""Constants as the arrays read them, and back (docs/contract.md, "Encodings of constants")."""
