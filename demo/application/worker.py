"""The demo application's worker: a line every half minute."""

import itertools
import time

JOBS = ("order confirmation sent", "stock synchronised", "photo resized", "newsletter queued")

for number in itertools.count(1):
    print("worker", f"job {number}:", JOBS[number % len(JOBS)], flush=True)
    time.sleep(30)
