# Everything is in tasks.py, so that a machine without make can do the same: python3 tasks.py <task>.
# Arguments go through ARGS, for example: make test ARGS="-k groups -x".
PYTHON ?= python3
TASKS := check lint test test-all timing nightly demo fix lock docs bench evals clean

.DEFAULT_GOAL := check
.PHONY: $(TASKS)
$(TASKS):
	@$(PYTHON) tasks.py $@ $(ARGS)
