"""``dory report`` and ``dory compare``: what an application does, and how plans compare."""
