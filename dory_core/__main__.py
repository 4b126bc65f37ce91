"""``dory`` and ``python -m dory_core``: an interrupt ends the command quietly from its start."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; ends with SystemExit, or by SIGINT while it is being loaded."""
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from dory_core.cli.main import INTERRUPTED
    from dory_core.cli.main import main as run

    try:
        if raises:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
