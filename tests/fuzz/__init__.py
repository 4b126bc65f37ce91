"""The campaign: random networks, damaged files and mutants; see docs/campaign.md."""
