from fixtures.results import columns, results, run  # noqa: F401
