# What one command does each. The whole check is .ci/run.

GO ?= go

.PHONY: test race generate lint bench sdk

test: ## the suites on the emulator
	$(GO) test -tags emu ./...

race: ## the same under the race detector, without the long tests
	$(GO) test -tags emu -race -short ./...

generate: ## everything that comes from the ABI table
	$(GO) generate ./...

lint: ## formatting, vet, staticcheck, and gcc's warnings
	.ci/lint

bench: ## cost of a launch against C, and speed of the emulator's kernels
	$(GO) test -run '^$$' -bench 'Launch|Runtime' -benchmem ./internal/testing/emptycann
	$(GO) test -run '^$$' -bench . -tags emu ./internal/emu/kernel

SDK = build/sdk
# Whose declarations the headers have: 8.1.RC1 or 2026-08. The libraries have the functions of both.
CANN_VERSION ?= 8.1.RC1
CUSTOM = $(SDK)/opp/vendors/emu/op_api/lib
# The libraries of both CANN versions that programs link, by name.
LIBRARIES = ascendcl acl_rt nnopbase opapi hccl acl_op_compiler msprofiler ascend_dump acl_tdt_channel acl_tdt_queue ms_tools_ext acl_rt_impl profapi c_sec

sdk: ## the emulator as a CANN toolkit: libraries and headers for programs in any language
	$(GO) run ./internal/npugen sdk -version $(CANN_VERSION) -out $(SDK)/include
	$(GO) build -buildmode=c-shared -ldflags '-s -w' -o $(SDK)/lib64/libcann_emu.so ./internal/emu/sdk
	rm -f $(SDK)/lib64/libcann_emu.h
	for name in $(LIBRARIES); do ln -sf libcann_emu.so $(SDK)/lib64/lib$$name.so; done
	mkdir -p $(CUSTOM)
	ln -sf ../../../../../lib64/libcann_emu.so $(CUSTOM)/libcust_opapi.so
	cp internal/emu/sdk/set_env.sh internal/emu/sdk/version.info $(SDK)/
	mkdir -p $(SDK)/share/cmake/cann
	cp internal/emu/sdk/cann-config.cmake $(SDK)/share/cmake/cann/
