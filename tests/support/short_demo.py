"""`pharos` with a demo that has only DAYS days of visits, and six hours of telemetry.

python -m tests.support.short_demo DAYS ARGUMENTS   runs `pharos ARGUMENTS`
"""

import functools
import sys

from demo import run_demo as demo
from operator_cli import main

if __name__ == "__main__":
    _days = int(sys.argv.pop(1))
    demo.past_visit_records = functools.partial(demo.past_visit_records, days=_days)  # type: ignore[assignment]
    demo.PAST_DAYS = 0.25
    main.main()
