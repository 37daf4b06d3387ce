# What one command does each. The whole check is .ci/run.

GO ?= go

.PHONY: test race fuzz sanitize generate lint bench sdk

test: ## the suites on the emulator
	$(GO) test -tags emu ./... ./examples/...

race: ## the same under the race detector, without the long tests
	$(GO) test -tags emu -race -short ./... ./examples/...

# How long each target runs.
T ?= 10m

fuzz: ## every fuzz target for T each, such as make fuzz T=1m; findings stay in testdata/fuzz
	.ci/fuzz $(T)

sanitize: ## the suites with the emulator's sanitizers
	CANN_EMU_SANITIZE=memory,race $(GO) test -count=1 -tags emu -short ./... ./examples/...

generate: ## everything that comes from the ABI table
	$(GO) generate ./... ./internal/tools/npugen ./examples/...

lint: ## formatting, vet, staticcheck, and gcc's warnings
	.ci/lint

bench: ## cost of a launch against C, and speed of the emulator's kernels, beside oneDNN and OpenBLAS if installed
	$(GO) test -run '^$$' -bench 'Launch|Runtime' -benchmem ./internal/tools/emptycann
	for procs in 1 $$(nproc); do \
		GOMAXPROCS=$$procs $(GO) test -run '^$$' -bench Matmul -benchtime 30x ./internal/tools/compare && \
		GOMAXPROCS=$$procs $(GO) test -run '^$$' -bench Decoding -benchtime 4x ./internal/tools/compare || exit; \
	done
	$(GO) test -run '^$$' -bench Launch -benchmem -tags emu ./internal/emu/nn
	$(GO) test -run '^$$' -bench 'Million|PackSlice' -tags emu ./internal/emu/kernel/...
	$(GO) test -run '^$$' -bench 'GEMM|Attention|Rows|Map' -tags emu ./internal/tools/compare

SDK = build/sdk
# The release, such as 9.1.0, whose headers, libraries and functions the SDK has. Without one the libraries have the
# functions of all, and where releases differ the headers have the declarations of the oldest.
CANN_VERSION ?=
CUSTOM = $(SDK)/opp/vendors/emu/op_api/lib

# Each of CANN's libraries has its own name and functions, as in a CANN installation. The first call of one loads
# libcann_emu.so, which it finds by its own -rpath.
STUB = $(CC) -shared -O1 -fPIC -Wall -Wextra -Werror -pthread

sdk: ## the emulator as a CANN toolkit: libraries and headers for programs in any language
	rm -rf $(SDK)/src $(SDK)/lib64 $(SDK)/include $(CUSTOM)
	$(GO) run ./internal/tools/npugen sdk -version $(or $(CANN_VERSION),8.1.RC1) -libraries "$(CANN_VERSION)" -out $(SDK)/include -stubs $(SDK)/src
	ln -sfn . $(SDK)/include/aclnnop/level2 # the same headers, as in a CANN installation
	$(GO) build -buildmode=c-shared -ldflags '-s -w -extldflags=-Wl,-soname,libcann_emu.so' -o $(SDK)/lib64/libcann_emu.so ./internal/emu/sdk
	rm -f $(SDK)/lib64/libcann_emu.h
	mkdir -p $(CUSTOM)
	$(STUB) -Wl,-soname,libcust_opapi.so -Wl,-rpath,'$$ORIGIN/../../../../../lib64' -o $(CUSTOM)/libcust_opapi.so $(SDK)/src/libcust_opapi.c -ldl
	rm $(SDK)/src/libcust_opapi.c
	set -e; for file in $(SDK)/src/*.c; do \
		name=$$(basename $$file .c); $(STUB) -Wl,-soname,$$name.so -Wl,-rpath,'$$ORIGIN' -o $(SDK)/lib64/$$name.so $$file -ldl; \
	done
	rm -r $(SDK)/src
	$(GO) build -o $(SDK)/bin/npu-smi ./internal/emu/sdk/npusmi
	cp internal/emu/sdk/set_env.sh internal/emu/sdk/version.info $(SDK)/
	[ -z "$(CANN_VERSION)" ] || echo 'export CANN_EMU_API=$${CANN_EMU_API:-$(CANN_VERSION)}' >> $(SDK)/set_env.sh
	mkdir -p $(SDK)/share/cmake/cann
	cp internal/emu/sdk/cann-config.cmake $(SDK)/share/cmake/cann/
