# What one command does each. The whole check is .ci/run.

GO ?= go

.PHONY: test race generate lint bench

test: ## the suites on the emulator
	$(GO) test -tags emu ./...

race: ## the same under the race detector, without the long tests
	$(GO) test -tags emu -race -short ./...

generate: ## everything that comes from the ABI table
	$(GO) generate ./...

lint: ## formatting, vet, staticcheck, and gcc's warnings
	.ci/lint

bench: ## cost of a launch against C, and speed of the emulator's kernels
	$(GO) test -run '^$$' -bench 'Launch|Runtime' -benchmem ./internal/emptycann
	$(GO) test -run '^$$' -bench . -tags emu ./internal/emu/kernel
