"""The report of one application: tables, a page with charts, a trace."""
