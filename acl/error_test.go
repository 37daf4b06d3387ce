package acl

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/cshim"
)

var groups = []error{
	ErrNotInstalled, ErrNotSupported, ErrInvalidArgument, ErrClosed, ErrBusy, ErrWrongDevice, ErrOutOfMemory, ErrExhausted,
	ErrTimeout, ErrAborted, ErrKernel, ErrOverflow, ErrDeviceLost, ErrPeerLost, ErrCapture,
}

// requireGroup checks that an error is of one group and no other; an object of another device is
// an invalid argument too.
func requireGroup(t *testing.T, err, want error) {
	t.Helper()
	for _, g := range groups {
		is := g == want || g == ErrInvalidArgument && want == ErrWrongDevice
		require.Equal(t, is, errors.Is(err, g), "%v: %v", g, err)
	}
}

func TestErrorsOfTheShim(t *testing.T) {
	library := &cshim.LibraryError{Library: cshim.ACL, Tried: []cshim.Attempt{{Path: "/x/lib.so", Reason: "no such file"}}}
	symbol := &cshim.SymbolError{Symbol: "aclrtNew", Library: cshim.ACL}
	for _, c := range []struct {
		name  string
		err   error
		op    string
		code  Code
		group error
		says  []string
		not   []string
	}{
		{"invalid", &cshim.Error{Func: "aclrtMemcpy", Code: 107000, Message: "EE1003: size"}, "aclrtMemcpy", 107000, ErrInvalidArgument,
			[]string{"ACL_ERROR_RT_PARAM_INVALID (107000)", "EE1003: size"}, []string{"usable"}},
		{"memory", &cshim.Error{Func: "aclrtMalloc", Code: 207001}, "aclrtMalloc", 207001, ErrOutOfMemory, []string{"EmptyCache", "still usable"}, nil},
		{"memory inside an operator", &cshim.Error{Func: "aclnnAdd", Code: 561000, Message: "EL0004: Failed to allocate memory"}, "aclnnAdd", 561000, ErrOutOfMemory, nil, nil},
		{"operator", &cshim.Error{Func: "aclnnAddGetWorkspaceSize", Code: 161002}, "aclnnAddGetWorkspaceSize", 161002, ErrInvalidArgument, nil, []string{"usable"}},
		{"inner", &cshim.Error{Func: "aclnnAdd", Code: 561000, Message: "EZ9999"}, "aclnnAdd", 561000, nil, nil, []string{"usable"}},
		{"kernel", &cshim.Error{Func: "aclrtSynchronizeStream", Code: 507015}, "aclrtSynchronizeStream", 507015, ErrKernel, []string{"ASCEND_LAUNCH_BLOCKING", "results on the stream are lost"}, nil},
		{"peer lost", &cshim.Error{Func: "aclrtSynchronizeStream", Code: 507057}, "aclrtSynchronizeStream", 507057, ErrPeerLost, []string{"other ranks"}, nil},
		{"lost", &cshim.Error{Func: "aclrtMemcpy", Code: 507053}, "aclrtMemcpy", 507053, ErrDeviceLost, []string{"unusable"}, nil},
		{"stub", &cshim.Error{Func: "aclInit", Code: 100039}, "aclInit", 100039, ErrNotInstalled, []string{"stub", "LD_LIBRARY_PATH"}, nil},
		{"unknown", &cshim.Error{Func: "aclrtNew", Code: 299999}, "aclrtNew", 299999, nil, []string{"code 299999"}, nil},
		{"library", library, "libascendcl.so", 0, ErrNotInstalled, []string{"/x/lib.so", "no such file"}, nil},
		{"symbol", symbol, "aclrtNew", 0, ErrNotSupported, []string{"aclrtNew"}, nil},
		{"other", errors.New("odd"), "acl", 0, ErrInvalidArgument, []string{"odd"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := wrap(c.err)
			assert.Equal(t, c.op, e.Op)
			assert.Equal(t, c.code, e.Code)
			assert.Equal(t, -1, e.Device)
			assert.Equal(t, -1, e.Stream)
			requireGroup(t, e, c.group)
			for _, s := range c.says {
				assert.Contains(t, e.Error(), s)
			}
			for _, s := range c.not {
				assert.NotContains(t, e.Error(), s)
			}
			if c.code != 0 {
				assert.Equal(t, c.code.String(), e.Name)
				assert.Equal(t, c.code, codeOf(e))
				assert.Equal(t, c.code, codeOf(c.err))
			}
		})
	}
	var l *cshim.LibraryError
	require.ErrorAs(t, wrap(library), &l)
	var s *cshim.SymbolError
	require.ErrorAs(t, wrap(symbol), &s)
	require.Zero(t, codeOf(errors.New("odd")))
}

func TestErrorNamesItsPlace(t *testing.T) {
	e := wrap(&cshim.Error{Func: "aclrtSynchronizeStream", Code: 507015})
	e.Device, e.Stream, e.Suspects = 3, 7, []string{"aclnnAdd", "aclnnMul"}
	assert.Contains(t, e.Error(), "aclrtSynchronizeStream on device 3 stream 7: ")
	assert.Contains(t, e.Error(), "most likely aclnnAdd, of the last launches aclnnAdd, aclnnMul")
}

func TestInterruptedWait(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := interrupted("x", ctx)
	require.ErrorIs(t, e, context.Canceled)
	requireGroup(t, e, nil)
	ctx, cancel = context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	e = interrupted("x", ctx)
	require.ErrorIs(t, e, context.DeadlineExceeded)
	requireGroup(t, e, ErrTimeout)
}

func TestSuspects(t *testing.T) {
	for _, c := range []struct {
		name    string
		newest  []string
		message string
		want    []string
	}{
		{"none", nil, "Add failed", nil},
		{"the message names it", []string{"aclnnMul", "aclnnAdd", "aclnnExp"}, "kernel Add failed", []string{"aclnnAdd", "aclnnExp", "aclnnMul"}},
		{"the longer name", []string{"aclnnAddRmsNorm", "aclnnAdd"}, "kernel AddRmsNorm failed", []string{"aclnnAddRmsNorm", "aclnnAdd"}},
		{"without a name the oldest", []string{"aclnnMul", "aclnnAdd", "aclnnMul"}, "507015", []string{"aclnnMul", "aclnnAdd"}},
	} {
		assert.Equal(t, c.want, rankSuspects(c.newest, c.message), c.name)
	}
}

func TestRing(t *testing.T) {
	var r ring
	ops := []*cshim.Operator{{Symbol: "a"}, {Symbol: "b"}, {Symbol: "c"}}
	assert.Empty(t, r.recent())
	for _, op := range ops {
		r.add(op)
	}
	assert.Equal(t, []string{"c", "b", "a"}, r.recent())
	r.passed(2)
	r.passed(1) // a slower goroutine
	assert.Equal(t, []string{"c"}, r.recent())
	assert.Equal(t, []string{"c", "b", "a"}, r.names(0))
	for range 2 * ringSize {
		r.add(ops[0])
	}
	assert.Len(t, r.recent(), named)
	r.passed(r.launched.Load())
	assert.Empty(t, r.recent())
}

// TestRingWhileLaunching: a launch that another goroutine notes at this moment is left out. It is not taken for the one
// whose place it gets.
func TestRingWhileLaunching(t *testing.T) {
	q := &queue{scope: &scope{chip: new(chip)}}
	r := &q.ring
	r.add(&cshim.Operator{Symbol: "old"})
	for range ringSize - 1 {
		r.add(&cshim.Operator{Symbol: "new"})
	}
	r.launched.Add(1) // as add does first
	for _, name := range r.recent() {
		require.Equal(t, "new", name)
	}
	all := q.launches()
	require.Len(t, all, ringSize-1)
	for _, l := range all {
		require.Equal(t, "new", l.Operator)
	}
}

// TestNoOperatorPackage: the code of a failure inside aclnn hides that the operator package is missing, and CANN's text
// does not.
func TestNoOperatorPackage(t *testing.T) {
	for _, text := range []string{
		"EZ9999: Parse dynamic kernel config fail; AclOpKernelInit failed opType",
		"EZ1001: Get path and read binary_info_config.json failed, please check if the opp_kernel package is installed!",
	} {
		for _, code := range []int32{561000, 561103} {
			err := wrap(&cshim.Error{Func: "aclnnAddGetWorkspaceSize", Code: code, Message: text})
			require.ErrorIs(t, err, ErrNotInstalled)
			require.ErrorContains(t, err, "no operator package for this chip is installed")
			require.ErrorContains(t, err, "install the kernels package")
		}
	}
	err := wrap(&cshim.Error{Func: "aclnnAddGetWorkspaceSize", Code: 561103, Message: "EZ9999: self"})
	require.NotErrorIs(t, err, ErrNotInstalled)
}
