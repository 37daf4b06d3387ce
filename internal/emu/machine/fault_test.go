package machine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
)

// A rule that can never apply is an error, so that a test with a misspelt name does not pass for
// nothing.
func TestFaultsOfUnknownNames(t *testing.T) {
	for name, text := range map[string]string{
		"aclrtMallocAlign32": "", "aclnnAdd": "", "aclnnAddGetWorkspaceSize": "", "HcclAllReduce": "", "aclrtRecordEvent": "",
		"run/aclnnMul": "", "run/HcclAllReduce": "", "run/aclrtMemcpyAsync": "", "run/aclrtRecordEvent": "", "run/aclmdlRIExecuteAsync": "",
		"run/HcclSend/HcclRecv": "", "run/HcclSend/HcclRev": "no such function", "aclrtMaloc": "no such function", "aclnnAd": "no such function", "HcclReduceAll": "no such function", "run/aclnnNothing": "no such function",
		"aclGetTensorDescSize": "returns no code", "run/aclnnAddGetWorkspaceSize": "phase one", "run/aclrtMalloc": "puts no work",
		"run/HcclCommDestroy": "puts no work",
	} {
		faults, err := rt.ParseFaults("aclrtFree:3=207001;"+name+"=507015", 0)
		require.NoError(t, err)
		if err = faults.Check(canFail); text == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, text, name)
		assert.ErrorContains(t, err, name)
	}
	assert.NoError(t, (*rt.Faults)(nil).Check(canFail))
}

// A machine that is refused reports it when a device is set, whose code the program sees.
func TestRefusedMachine(t *testing.T) {
	r := rt.NewMachine(rt.Config{Devices: 1, SoC: "Ascend910B1", Memory: 1 << 20})
	r.Refuse(nil)
	r.Refuse(assert.AnError)
	r.Refuse(nil)
	m := &Machine{rt: r}
	for name, f := range r.Functions() {
		m.calls[id(t, name)] = f
	}
	var thread rt.Thread
	require.NotZero(t, m.Call(&thread, id(t, "aclrtSetDevice"), []uint64{0}))
	require.Contains(t, text(&thread), assert.AnError.Error())
}
