package simulate_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/simulate"
)

// chip has round figures: a second is easy to see.
var chip = simulate.Chip{
	Name: "test", SoC: "Ascend910B2", Cube: map[string]float64{"bf16": 1e12}, Vector: 1e11, Memory: 1e12, Capacity: 1 << 36, Launch: 1e-6, Start: 1e-9, AICPU: 1e9, Host: 1e10,
	HCCS: simulate.Link{Bandwidth: 7e9, Pair: 1e9, Latency: 1e-3, Dies: 8}, RoCE: simulate.Link{Bandwidth: 5e8, Pair: 5e8, Latency: 1e-2}, Communicator: 1,
}

// program is a schedule, a line for each entry, with a step around it.
func program(t *testing.T, lines ...string) []simulate.Entry {
	t.Helper()
	all := append(append([]string{`{"stream":1,"begin":"step 0"}`}, lines...), `{"stream":1,"sync":true}`, `{"stream":1,"end":"step 0"}`)
	entries, err := simulate.ReadSchedule(strings.NewReader(strings.Join(all, "\n")))
	require.NoError(t, err)
	return entries
}

// timed returns the last step of a schedule of rank 0 among some ranks.
func timed(t *testing.T, c simulate.Chip, ranks int, lines ...string) *simulate.Result {
	t.Helper()
	places := make([]int, ranks)
	for i := range places {
		places[i] = i
	}
	r, err := simulate.Simulation{Chip: c, Entries: program(t, lines...), Ranks: map[int]int{0: 0}, Places: map[string][]int{"c": places}}.Run()
	require.NoError(t, err)
	return r
}

const (
	matmul = `{"stream":1,"launch":"aclnnMatmul","tensors":[{"name":"self","dtype":"bfloat16","shape":[1000,500],"bytes":1e6,"use":"r"},{"name":"mat2","dtype":"bfloat16","shape":[500,2000],"bytes":2e6,"use":"r"},{"name":"out","dtype":"bfloat16","shape":[1000,2000],"bytes":4e6,"use":"w"}],"args":{"cubeMathType":0}}`
	add    = `{"stream":1,"launch":"aclnnInplaceAdd","tensors":[{"name":"selfRef","dtype":"bfloat16","shape":[1000],"bytes":4e9,"use":"u"},{"name":"other","dtype":"bfloat16","shape":[1000],"bytes":2e9,"use":"r"}]}`
)

// TestLaunches holds the times of launches against counts by hand.
func TestLaunches(t *testing.T) {
	attention := func(launch, layout, shape, mask string) string {
		return `{"stream":1,"launch":"` + launch + `","tensors":[{"name":"query","dtype":"bfloat16","shape":` + shape + `},{"name":"key","dtype":"bfloat16","shape":` + shape + `},{"name":"value","dtype":"bfloat16","shape":` + shape + `}],"args":{"headNum":4,"inputLayout":"` + layout + `",` + mask + `}}`
	}
	grouped := func(launch, x, w, y, name string) string {
		return `{"stream":1,"launch":"` + launch + `","tensors":[{"name":"x","dtype":"bfloat16","shape":` + x + `},{"name":"weight","dtype":"bfloat16","shape":` + w + `},{"name":"` + name + `","dtype":"bfloat16","shape":` + y + `}]}`
	}
	for name, c := range map[string]struct {
		line    string
		seconds float64
		limit   simulate.Limit
	}{
		"product":                 {matmul, 2 * 1000 * 500 * 2000 / 1e12, simulate.Cube},
		"sum in place":            {add, 10e9 / 1e12, simulate.Memory},
		"AI CPU":                  {strings.Replace(add, `"launch"`, `"aicpu":"Sort","launch"`, 1), 10e9 / 1e9, simulate.AICPU},
		"elements":                {`{"stream":1,"launch":"aclnnExp","tensors":[{"name":"self","dtype":"bfloat16","shape":[1000000],"bytes":2e6,"use":"r"}]}`, 4 * 1e6 / 1e11, simulate.Vector},
		"rows of a table":         {`{"stream":1,"launch":"aclnnEmbedding","tensors":[{"name":"weight","dtype":"bfloat16","shape":[1000,1000],"bytes":1e12,"use":"r"},{"name":"out","dtype":"bfloat16","shape":[1],"bytes":1e9,"use":"w"}]}`, 2e9 / 1e12, simulate.Memory},
		"grouped product":         {grouped("aclnnGroupedMatmulV5", "[64,30]", "[8,30,50]", "[64,50]", "out"), 2 * 64 * 30 * 50 / 1e12, simulate.Cube},
		"gradient of groups":      {grouped("aclnnGroupedMatmulAddV2", "[64,30]", "[64,50]", "[8,30,50]", "yRef"), 2 * 64 * 30 * 50 / 1e12, simulate.Cube},
		"causal attention":        {attention("aclnnFlashAttentionScore", "BSND", "[2,100,4,500]", `"sparseMode":3`), 2 * 4 * (100 * 101 / 2) * 4 * 500 / 1e12, simulate.Cube},
		"whole attention":         {attention("aclnnFlashAttentionScore", "BSH", "[2,100,2000]", `"sparseMode":0`), 2 * 4 * 100 * 100 * 4 * 500 / 1e12, simulate.Cube},
		"narrow heads":            {attention("aclnnFlashAttentionScore", "BNSD", "[2,4,100,8]", `"sparseMode":0`), 6 * 2 * 4 * 100 * 100 / 1e11, simulate.Vector},
		"gradients of attention":  {attention("aclnnFlashAttentionScoreGrad", "SBH", "[100,2,2000]", `"sparseMode":2`), 2 * 4 * (100 * 101 / 2) * 10 * 500 / 1e12, simulate.Cube},
		"attention in a window":   {attention("aclnnFlashAttentionScore", "BSND", "[2,100,4,500]", `"sparseMode":4,"preTokens":9,"nextTokens":0`), 2 * 4 * (100*10 - 45) * 4 * 500 / 1e12, simulate.Cube},
		"band without a left end": {attention("aclnnFlashAttentionScore", "BSND", "[2,100,4,500]", `"sparseMode":4,"preTokens":2147483647,"nextTokens":0`), 2 * 4 * (100 * 101 / 2) * 4 * 500 / 1e12, simulate.Cube},
		"packed attention":        {attention("aclnnFlashAttentionVarLenScore", "TND", "[100,4,500]", `"sparseMode":3,"actualSeqQLenOptional":[30,100],"actualSeqKvLenOptional":[30,100]`), 4 * (30*31/2 + 70*71/2) * 4 * 500 / 1e12, simulate.Cube},
	} {
		r := timed(t, chip, 1, c.line)
		require.InEpsilon(t, c.seconds+chip.Start, r.Devices[0].Kernels, 1e-9, name)
		require.InEpsilon(t, c.seconds+chip.Start, r.Devices[0].Limits[c.limit], 1e-9, name)
	}
	for line, want := range map[string]string{
		strings.Replace(matmul, "aclnnMatmul", "aclnnQuantMatmulV4", 1):                                                   "no rule",
		strings.ReplaceAll(matmul, "bfloat16", "float32"):                                                                 "cube.fp32",
		attention("aclnnFlashAttentionScore", "SBNDX", "[1,1,1,1]", `"sparseMode":3`):                                     "SBNDX",
		attention("aclnnFlashAttentionScore", "BSND", "[1,1,1,1]", `"sparseMode":7`):                                      "sparse mode 7",
		attention("aclnnFlashAttentionVarLenScore", "TND", "[100,4,500]", `"sparseMode":3,"actualSeqQLenOptional":[100]`): "1 and 0 sequences",
		`{"stream":1,"collective":"HcclNew","comm":"c","ranks":2}`:                                                        "HcclNew",
		`{"stream":1,"collective":"HcclAllReduce","comm":"unknown","ranks":2}`:                                            "unknown",
	} {
		_, err := simulate.Simulation{Chip: chip, Entries: program(t, line), Ranks: map[int]int{0: 0}, Places: map[string][]int{"c": {0, 1}}}.Run()
		require.ErrorContains(t, err, want)
	}
}

// TestCollectives holds collectives against the formulas of latency and bandwidth: n bytes on 8 dies of one domain of HCCS with seven links of
// 1 GB/s, and on 16 of two, which RoCE of 0.5 GB/s joins.
func TestCollectives(t *testing.T) {
	const n = 8e9
	mesh := func(n float64) float64 { return 1e-3 + n/8/1e9 }
	across := func(n float64) float64 { return 1e-2 + n/2/5e8 }
	for call, c := range map[string]struct{ one, two float64 }{
		"HcclAllGather":     {mesh(8 * n), mesh(8*n) + across(16*n)},
		"HcclReduceScatter": {mesh(8 * n), mesh(8*n) + across(16*n)},
		"HcclAllReduce":     {2 * mesh(n), 2*mesh(n) + 2*across(n/8)},
		"HcclBroadcast":     {2 * mesh(n), 2*mesh(n) + across(n/8)},
		"HcclBarrier":       {1e-3, 1e-3 + 1e-2},
	} {
		line := `{"stream":1,"collective":"` + call + `","comm":"c","count":8e9}`
		require.InEpsilon(t, c.one, timed(t, chip, 8, line).Devices[0].Exchanges, 1e-9, call)
		require.InEpsilon(t, c.two, timed(t, chip, 16, line).Devices[0].Exchanges, 1e-9, call)
	}
	all := `{"stream":1,"collective":"HcclAlltoAllV","comm":"c","sent":15e9,"received":15e9}`
	require.InEpsilon(t, 1e-3+1+1e-2+16, timed(t, chip, 16, all).Devices[0].Exchanges, 1e-9)
	require.InEpsilon(t, 1e-3+15e9/7/1e9, timed(t, chip, 8, all).Devices[0].Exchanges, 1e-9)
	ring := `{"stream":1,"collective":"HcclSend/HcclRecv","comm":"c","messages":[{"peer":1,"sent":1e9},{"peer":15,"received":2e9}]}`
	require.InEpsilon(t, 1e-3+1+1e-2+4, timed(t, chip, 16, ring).Devices[0].Exchanges, 1e-9)
}

// TestStreams: an exchange beside kernels is hidden, one that kernels wait for is exposed, and the host's launches show where kernels are
// short.
func TestStreams(t *testing.T) {
	const gather = `{"stream":2,"collective":"HcclAllGather","comm":"c","count":1e6}` // 2 ms
	hidden := timed(t, chip, 8, gather, add, add, `{"stream":2,"record":1}`, `{"stream":1,"wait":1}`, add).Devices[0]
	require.InEpsilon(t, 30e-3, hidden.Kernels, 1e-3)
	require.InEpsilon(t, 2e-3, hidden.Exchanges, 1e-9)
	require.InDelta(t, 0, hidden.Exposed, 1e-5)
	exposed := timed(t, chip, 8, add, `{"stream":1,"record":1}`, `{"stream":2,"wait":1}`, gather, `{"stream":2,"record":2}`, `{"stream":1,"wait":2}`, add).Devices[0]
	require.InEpsilon(t, 2e-3, exposed.Exposed, 1e-2)
	require.InEpsilon(t, exposed.Seconds, exposed.Kernels+exposed.Exposed+exposed.Idle, 1e-9)

	short := `{"stream":1,"launch":"aclnnExp","tensors":[{"name":"self","dtype":"bfloat16","shape":[1],"bytes":2,"use":"r"}]}`
	r := timed(t, chip, 1, short, short, short, short)
	require.InEpsilon(t, 4e-6, r.Seconds, 1e-2)
	require.Equal(t, 4, r.Devices[0].Launches)
	require.Greater(t, r.Devices[0].Idle, 0.9*r.Seconds)
	require.Equal(t, map[string]int{"aclrtFoo": 2}, timed(t, chip, 1, short, `{"stream":1,"task":"aclrtFoo"}`, `{"stream":1,"task":"aclrtFoo"}`).Unknown)
}

// TestStages: two stages of a pipeline wait for each other's messages, and a message that never comes is an error.
func TestStages(t *testing.T) {
	on := func(device string, lines ...string) (all []simulate.Entry) {
		for _, e := range program(t, lines...) {
			if device == "1" {
				e.Device = 1
			}
			all = append(all, e)
		}
		return all
	}
	send := `{"stream":1,"collective":"HcclSend/HcclRecv","comm":"p","messages":[{"peer":1,"sent":1e6}]}`
	receive := `{"stream":1,"collective":"HcclSend/HcclRecv","comm":"p","messages":[{"peer":0,"received":1e6}]}`
	s := simulate.Simulation{
		Chip: chip, Ranks: map[int]int{0: 0, 1: 4}, Places: map[string][]int{"p": {0, 4}},
		Entries: append(on("0", add, send, add), on("1", receive, add)...),
	}
	r, err := s.Run()
	require.NoError(t, err)
	require.InEpsilon(t, 22e-3, r.Devices[0].Seconds, 1e-3)
	require.InEpsilon(t, 22e-3, r.Devices[1].Seconds, 1e-3)
	require.InEpsilon(t, 10e-3, r.Devices[1].Idle, 1e-3, "until the message is sent")
	s.Entries = append(on("0", add), on("1", receive)...)
	_, err = s.Run()
	require.ErrorContains(t, err, "never comes")
	s.Ranks = map[int]int{0: 0}
	_, err = s.Run()
	require.ErrorContains(t, err, "device 1")
}

// TestMonotone: no step gets slower on a chip that is faster in anything.
func TestMonotone(t *testing.T) {
	lines := []string{matmul, `{"stream":2,"collective":"HcclAllReduce","comm":"c","count":1e9}`, add, `{"stream":2,"record":1}`, `{"stream":1,"wait":1}`, add, `{"stream":1,"copy":"aclrtMemcpyAsync","from":"device","to":"pinned","bytes":1e9}`}
	before := timed(t, chip, 16, lines...).Seconds
	for name, change := range map[string]func(*simulate.Chip){
		"cube": func(c *simulate.Chip) { c.Cube = map[string]float64{"bf16": 2e12} }, "memory": func(c *simulate.Chip) { c.Memory *= 2 }, "host": func(c *simulate.Chip) { c.Host *= 2 },
		"hccs": func(c *simulate.Chip) { c.HCCS.Pair, c.HCCS.Bandwidth = 2*c.HCCS.Pair, 2*c.HCCS.Bandwidth }, "roce": func(c *simulate.Chip) { c.RoCE.Bandwidth *= 2 },
		"latency": func(c *simulate.Chip) { c.HCCS.Latency /= 2 }, "launch": func(c *simulate.Chip) { c.Launch /= 2 }, "start": func(c *simulate.Chip) { c.Start /= 2 },
	} {
		faster := chip
		change(&faster)
		require.LessOrEqual(t, timed(t, faster, 16, lines...).Seconds, before, name)
	}
}

// TestTrace: the trace is JSON that Perfetto reads, with every span inside the step.
func TestTrace(t *testing.T) {
	r := timed(t, chip, 8, `{"stream":1,"begin":"layer \"0\"\n"}`, matmul, `{"stream":2,"collective":"HcclAllReduce","comm":"c","count":1e9}`, `{"stream":1,"end":"layer \"0\"\n"}`)
	var b bytes.Buffer
	require.NoError(t, r.WriteTrace(&b))
	var trace struct {
		Events []struct {
			Name, Ph string
			Ts, Dur  *float64
			Pid, Tid *int
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &trace))
	names := map[string]int{}
	for _, e := range trace.Events {
		require.NotNil(t, e.Pid)
		require.NotNil(t, e.Tid)
		if e.Ph == "X" {
			names[e.Name]++
			require.False(t, math.IsNaN(*e.Ts))
		}
	}
	require.Equal(t, map[string]int{"Matmul": 1, "HcclAllReduce": 1, "layer \"0\"\n": 1, "step 0": 1}, names)
}
