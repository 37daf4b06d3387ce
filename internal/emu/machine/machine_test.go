package machine

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFunctionsFollowTheTable(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	require.Len(t, table.Functions, len(functions))
	for i, f := range table.Functions {
		assert.Equal(t, f.Name, functions[i].name)
		if f.Ret == "aclError" || f.Ret == "aclnnStatus" || f.Ret == "HcclResult" {
			assert.NotZero(t, functions[i].absent, "%s would report success", f.Name)
		}
	}
	assert.Equal(t, len(table.Operators), nn.Operators())
}

// An implementation under a name that CANN does not have would never be called, and of two
// implementations of one name only one would be used.
func TestEveryImplementationHasASymbol(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for _, name := range Implemented() {
		_, ok := table.Function(name)
		assert.True(t, ok, "%s is implemented, but CANN has no such function", name)
	}
	r := rt.New()
	inRuntime := r.Functions()
	for name := range nn.New(r).Functions() {
		assert.NotContains(t, inRuntime, name, "implemented twice")
	}
	for _, name := range nn.Implemented() {
		_, ok := table.Operator(name)
		assert.True(t, ok, "operator %s is implemented, but CANN has no such operator", name)
	}
}

func id(t testing.TB, name string) int {
	t.Helper()
	i := slices.IndexFunc(functions[:], func(f function) bool { return f.name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return i
}

// text returns the unread error text of a thread.
func text(t *rt.Thread) string {
	address := t.TakeText()
	if address == 0 {
		return ""
	}
	b := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), 4096)
	return string(b[:bytes.IndexByte(b, 0)])
}

// Functions that are not implemented report it with the error value of their return type.
func TestUnimplementedFunctionsSaySo(t *testing.T) {
	for name, result := range map[string]uint64{
		"aclmdlQuerySize":      abi.ACL_ERROR_API_NOT_SUPPORT,
		"aclnnTransQuantParam": abi.ACLNN_ERR_INNER,
		"HcclSetConfig":        abi.HCCL_E_NOT_SUPPORT,
		"aclGetTensorDescType": ^uint64(0),
		"aclGetTensorDescSize": 0,
		"aclCreateTensorDesc":  0,
		"aclAppLog":            0,
	} {
		m := &Machine{rt: rt.NewMachine(rt.Config{})} // implements nothing
		var thread rt.Thread
		assert.Equal(t, result, m.Call(&thread, id(t, name), make([]uint64, 8)), name)
		assert.Zero(t, thread.LastError, "%s: the runtime layer has not failed", name)
		assert.Contains(t, text(&thread), fmt.Sprintf("Not_Supported(EE1005): %s: the emulator does not implement this function\n        Solution: ", name))
	}
}

func TestPanicOfAnImplementationIsAnError(t *testing.T) {
	m := &Machine{rt: rt.NewMachine(rt.Config{})}
	i := id(t, "aclrtSetDevice")
	m.calls[i] = func(*rt.Thread, []uint64) uint64 { panic("boom") }
	var thread rt.Thread
	assert.EqualValues(t, abi.ACL_ERROR_API_NOT_SUPPORT, m.Call(&thread, i, []uint64{0}))
	assert.Contains(t, text(&thread), "aclrtSetDevice: internal error of the emulator: boom")
}
