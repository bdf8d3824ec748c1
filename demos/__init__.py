"""Shows the whole of Headtail on one machine: ``make demo`` or ``python -m demos``."""
