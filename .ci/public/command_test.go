package public

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Where a command runs as it stands, so that TestCommands need not run it again.
const (
	byRun     = ".ci/run"
	bySDK     = ".ci/sdk"
	byProxy   = "TestExamplesOutside"
	wholeRuns = "this is the whole check"
)

// fromHub runs a command with a small hub folder, whose path follows, and tokens of its vocabulary.
const fromHub = `go build -tags emu -o build/trainstep ./examples/trainstep; for i in $(seq 500); do printf '\1\0\2\0'; done >$TMP/tokens.bin; ` +
	`%s -steps 1 -seq 32 -data $TMP/tokens.bin -model testdata/golden/hub`

// checks says of every command in the documents how it is checked: by one of the scripts above,
// which must contain it, or by what TestCommands runs: the command itself, with %s in its place,
// shortened where it takes minutes.
var checks = map[string]string{
	"go test -tags emu ./... ./examples/...":                byRun,
	".ci/run":                                               wholeRuns,
	"go get github.com/goascend/cann":                       byProxy,
	"git clone https://github.com/goascend/cann && cd cann": ": '%s'; git clone -q . $TMP/cann && cd $TMP/cann && go list ./examples/trainstep",

	"go run -tags emu ./examples/trainstep":                                      "%s -steps 2",
	"go run -tags emu ./examples/trainstep -model qwen3_moe -dtype bf16 -gmm-nz": "%s -steps 1",
	"go run -tags emu ./examples/trainstep -model qwen3_next":                    "%s -steps 1",
	"go run -tags emu ./examples/matmul":                                         "[[ $(%s) == *'[32., 77.]]' ]]",
	"go run -tags emu ./examples/tensorparallel":                                 "%s | grep -q '^step 5 .* 2 ranks'",
	"go run -tags emu ./examples/customop":                                       "[[ $(%s) == '[15 20 25] [300 350 400]' ]]",
	"go run -tags emu ./examples/generate -prompt package -n 300":                "%s -n 3 -train-steps 1",
	"go run -tags emu ./examples/generate -prompt package -n 300 -graph":         "%s -n 3 -train-steps 1",
	"go run -tags emu ./examples/serve": `set -m; %s -listen 127.0.0.1:0 -train-steps 1 >$TMP/out & until grep -q ^curl $TMP/out; do kill -0 $!; sleep 0.1; done; ` +
		`bash -euc "$(grep ^curl $TMP/out)" | grep completion_tokens; kill -- -$!`,
	"go run -tags emu ./examples/embed -query three one two":                                                                         "[[ $(%s | wc -l) == 2 ]]",
	`go run -tags emu ./examples/embed -model testdata/golden/encoders/bert -query "a small fox" "a small brown fox" "the lazy dog"`: "[[ $(%s | wc -l) == 2 ]]",
	"go run -tags emu ./examples/serve -model testdata/golden/encoders/bert_rerank": `set -m; %s -listen 127.0.0.1:0 >$TMP/out & until grep -q ^curl $TMP/out; do kill -0 $!; sleep 0.1; done; ` +
		`bash -euc "$(grep ^curl $TMP/out)" | grep relevance_score; kill -- -$!`,
	"go run -tags emu ./examples/attention -seq 512":              "%s -seq 64",
	"go run -tags emu ./examples/hccltest -p 2 -op all -b 64K":    "%s -n 1 -w 1",
	"go run -tags emu ./examples/npuinfo":                         "%s",
	"go run -tags emu ./examples/npuinfo -smoke -only golden:rms": "%s -report $TMP/day1",

	"go run -tags emu ./examples/trainstep -ranks 8 -tp 2 -pp 2 -micro 2":                        "%s -steps 1",
	"go run -tags emu ./examples/trainstep -ranks 8 -fsdp":                                       "%s -steps 1",
	"go run -tags emu ./examples/trainstep -ranks 8 -model qwen3_moe -ep 4":                      "%s -steps 1",
	"go run -tags emu ./examples/trainstep -ranks 8 -model qwen3_moe -tp 2 -cp 2 -ep 2 -sp":      "%s -steps 1",
	"go run -tags emu ./examples/trainstep -ranks 4 -model qwen3_next -seq 128 -cp 2 -ulysses 2": "%s -steps 1",

	"go run -tags emu ./examples/trainstep -ranks 8 -tp 8 -sp -recompute block -vocab 151936 -hidden 512 -layers 8 -heads 8 -kv-heads 8 -head-dim 32 -intermediate 1024 " +
		"-seq 32768 -batch 1 -dtype bf16 -steps 2 -warmup 0 -watchdog 0": "%s -steps 1 -layers 2 -seq 512",

	"go run -tags emu ./examples/trainstep -ranks 2 -tp 2 -steps 40 -save build/run -save-every 10 -keep 3": "rm -rf build/run; %s -steps 4 -save-every 2",
	"go run -tags emu ./examples/trainstep -ranks 2 -fsdp -steps 60 -save build/run -resume build/run":      "%s -steps 5",
	"go run -tags emu ./examples/trainstep -steps 40 -export build/model":                                   "%s -steps 2",
	"go run -tags emu ./examples/trainstep -model build/model -lora 8 -steps 20 -export build/adapter":      "%s -steps 2",
	"go run -tags emu ./examples/generate -model build/model -adapter build/adapter -n 100":                 "%s -n 3",
	"go run -tags emu ./examples/generate -model build/run -n 300":                                          "%s -n 3",

	"GOMAXPROCS=1 go test -run '^$' -bench Matmul -benchtime 30x ./internal/tools/compare":  "%s -benchtime 1x",
	"GOMAXPROCS=1 go test -run '^$' -bench Decoding -benchtime 4x ./internal/tools/compare": "%s -benchtime 1x -bench Decoding/1/int4",

	// Without the tag the program asks for CANN, where there is none.
	"go build -o build/trainstep ./examples/trainstep": "%s",
	"build/trainstep": `go build -o build/trainstep ./examples/trainstep; %s -steps 1 || [[ $(build/trainstep -steps 1 2>&1) == *libascendcl.so* ]]`,
	"go build -tags emu -o build/trainstep ./examples/trainstep":            "%s",
	"go run ./examples/launch -n 8 -- build/trainstep -tp 2 -pp 2 -micro 2": "go build -tags emu -o build/trainstep ./examples/trainstep && %s -steps 1",

	"go run ./examples/launch -n 8 -- build/trainstep -model Qwen3-0.6B -tp 2 -pp 2 -micro 2":                 fromHub + "/qwen3_tied",
	"go run ./examples/launch -n 8 -- build/trainstep -model Qwen3-30B-A3B -tp 2 -pp 2 -ep 2 -micro 2":        fromHub + "/qwen3_moe",
	"go run ./examples/launch -n 8 -- build/trainstep -model Qwen3-30B-A3B -tp 2 -cp 2 -ep 2 -pp 2 -micro 2":  fromHub + "/qwen3_moe",
	"go run ./examples/launch -n 8 -- build/trainstep -model Qwen3.5-0.8B -fsdp -replicas 2 -cp 2 -ulysses 2": fromHub + "/qwen3_5",

	"go run -tags emu ./examples/trainstep -simulate Ascend910B2 -world 32 -tp 8 -sp -pp 4 -micro 64 -batch 64 -seq 4096 -model examples/simulate/testdata/qwen2-72b":                                                    simulated,
	"go run -tags emu ./examples/trainstep -simulate Ascend910B2 -world 32 -tp 8 -sp -pp 2 -micro 16 -batch 32 -seq 8192 -model examples/simulate/testdata/qwen1.5-32b":                                                  simulated,
	"go run -tags emu ./examples/trainstep -simulate Ascend910B2 -world 8 -fsdp -batch 64 -micro 8 -seq 4096 -recompute block -model examples/simulate/testdata/qwen2-7b":                                                simulated,
	"go run -tags emu ./examples/trainstep -simulate Ascend910B2 -world 8 -fsdp -batch 8 -seq 32768 -recompute block -model examples/simulate/testdata/qwen2-7b":                                                         simulated,
	"go run -tags emu ./examples/trainstep -simulate Ascend910B2 -world 64 -tp 8 -sp -pp 8 -micro 64 -batch 64 -seq 8192 -model examples/simulate/testdata/llama3-70b":                                                   simulated,
	"go run -tags emu ./examples/trainstep -simulate Ascend910B2 -world 64 -tp 8 -sp -cp 4 -etp 8 -distributed-optimizer -recompute block -micro 16 -batch 32 -seq 32768 -model examples/simulate/testdata/mixtral-8x7b": simulated,
	"go run -tags emu ./examples/trainstep -simulate Ascend910B2 -world 8 -tp 2 -sp -cp 4 -ulysses 4 -micro 16 -batch 16 -seq 32768 -model examples/simulate/testdata/llama2-7b":                                         simulated,
	"go run -tags emu ./examples/trainstep -simulate Ascend910B2 -world 8 -tp 2 -sp -cp 4 -micro 16 -batch 16 -seq 32768 -model examples/simulate/testdata/llama2-7b":                                                    simulated,
	"go run -tags emu ./examples/trainstep -simulate Ascend910_93 -world 512 -fsdp -recompute block -batch 4096 -seq 4096 -model examples/simulate/testdata/qwen3-235b":                                                  "%s | grep -q 'tokens/s on each die'",

	"make sdk":                        bySDK,
	"source build/sdk/set_env.sh":     "[ -d build/sdk ] || make -s sdk; %s",
	"make sdk && chmod -R go-w build": ": '%s'; [ -d build/sdk ] || make -s sdk; chmod -R go-w build",
	"export CANN_EMU_DEVICES=8 CANN_EMU_SOC=Ascend910B1 CANN_EMU_HEALTH=$PWD/health":                    devices + "cd $TMP; : >health; %s; npu-smi info -l | grep -q 'Total Count *: 8'",
	": > health && ./npu-exporter &":                                                                    "cd $TMP; printf '#!/bin/sh\\nls health >seen' >npu-exporter; chmod +x npu-exporter; %s wait; [ -s seen ]",
	"echo '3 alarm=3 fault=0x80e01801 celsius=91' > health":                                             devices + "cd $TMP; export CANN_EMU_DEVICES=8 CANN_EMU_SOC=Ascend910B1 CANN_EMU_HEALTH=$PWD/health; %s; npu-smi info -t health -i 3 | grep -q Critical",
	"gcc program.c -I$ASCEND_HOME_PATH/include -L$ASCEND_HOME_PATH/lib64 -lascendcl -lnnopbase -lopapi": "[ -d build/sdk ] || make -s sdk; source build/sdk/set_env.sh; cp internal/emu/sdk/testdata/add.c $TMP/program.c; cd $TMP; %s; ./a.out",
}

// devices begins the check of a command that needs the SDK's libraries and programs.
const devices = "[ -d build/sdk ] || make -s sdk; source build/sdk/set_env.sh; "

// simulated is a simulation of shorter rows and fewer of them, which is over in a moment.
const simulated = "%s -batch 8 -micro 1 -seq 512 | grep -q 'tokens/s on each die'"

// TestCommands: the commands of the documents work, in the order in which they stand there.
func TestCommands(t *testing.T) {
	var shown []string
	for _, name := range documents(t) {
		for _, b := range blocksOf(t, name, "sh") {
			for line := range strings.Lines(b.text) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
				line = strings.TrimSpace(line)
				assert.Contains(t, checks, line, "%s:%d: say in checks how this command is checked", name, b.line)
				if !slices.Contains(shown, line) {
					shown = append(shown, line)
				}
			}
		}
	}
	assert.Len(t, shown, len(checks), "no document has some of the commands in checks any more")
	for _, line := range shown {
		t.Run(line, func(t *testing.T) {
			switch check := checks[line]; check {
			case wholeRuns, byProxy:
			case byRun, bySDK:
				plain := strings.Replace(line, "make ", "make -s ", 1)
				assert.Contains(t, text(t, check), "\n"+plain+"\n")
			default:
				command(t, repository(t), []string{"TMP=" + t.TempDir()}, "bash", "-euc", fmt.Sprintf(check, line))
			}
		})
	}
	assert.NoError(t, os.RemoveAll(filepath.Join(repository(t), "build", "trainstep")))
}
