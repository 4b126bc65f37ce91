"""``dory`` and ``python -m dory_core``: an interrupt ends the command quietly from its start."""

from __future__ import annotations

try:
    import signal
except KeyboardInterrupt:
    raise SystemExit(130) from None

_AGAIN_S = 0.02


def main() -> None:
    """Run the command line; ends with SystemExit, or by SIGINT while it is being loaded."""
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import os
    import sys
    from threading import Timer

    from dory_core.cli.main import INTERRUPTED
    from dory_core.cli.main import main as run

    usual = sys.unraisablehook

    def send_again(dropped: sys.UnraisableHookArgs) -> None:
        """Send an interrupt again that Python drops: it came in a callback or a destructor."""
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            usual(dropped)

    try:
        if raises:
            sys.unraisablehook = send_again
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
