"""Finding, checking and calling plugins.

Entry points of group ``dory`` name plugin modules. :func:`load_plugins` imports them in a fixed
order (entry point name, then distribution), and leaves out, with a reason, each one that is broken;
the others work on. Nothing is imported before the first call.
"""

from __future__ import annotations

import pluggy

#: Marks a function of a plugin as the implementation of the hook of the same name.
hookimpl = pluggy.HookimplMarker("dory")

#: Version of the hooks and of the types that cross them. A plugin that needs a version states it in
#: its module as ``DORY_API = 1``; a newer one than this is left out.
API_VERSION = 1
