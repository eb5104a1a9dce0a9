"""How examples are drawn: the same in every run, so that what fails once fails again (K-13).

`pytest --hypothesis-profile=searching` draws other ones at each run.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "searching",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "repeatable", settings.get_profile("searching"), derandomize=True, database=None
)
settings.load_profile("repeatable")
