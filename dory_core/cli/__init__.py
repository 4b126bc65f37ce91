"""The command line: one file per command, heavy imports inside the commands.

What commands share is listed here; plugins have it as ``from dory_core.tools import cli``.
"""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(
    {
        "dory_core.cli.common": (
            "Debug Json Quiet Verbose byte_size console print_json progress_bar settings"
        ),
        "dory_core.cli.compile": (
            "L1 L2 L3 Frontend InputBits InputSigned Network Objective target_settings"
        ),
        "dory_core.cli.completion": "list_of_targets",
        "dory_core.cli.files": "existing_file write_file",
        "dory_core.cli.requests": "compile_options frontend_name given_budgets",
        "dory_core.cli.tables.plan": "new_table print_plan",
        "dory_core.cli.tables.texts": "conversions_text cycles_text engines_text",
        "dory_core.cli.tables.units": "bytes_text count_text share_text tile_text",
        "dory_core.driver.application": "read_timeline",
        "dory_core.driver.compiler": "CompileOptions plan_only",
        "dory_core.plan": "Plan",
        "dory_core.plan.budgets": "BUDGET_NAMES",
        "dory_core.plugins.frontend": "network_name",
    }
)

__getattr__, __dir__ = namespace(__name__, HOMES)
