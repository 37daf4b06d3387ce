package rt_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// errorInfoHead is the first part of C's aclrtErrorInfo.
type errorInfoHead struct {
	tryRepair, hasDetail uint8
	_                    [2]uint8
	kind                 int32
	_                    [4096]byte
}

func TestErrorVerbose(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(1)
	s := p.Stream(th)
	kind := func() int64 {
		head := errorInfoHead{tryRepair: 9, hasDetail: 9, kind: 9}
		p.Must(th, "aclrtGetErrorVerbose", 1, rttest.Address(&head))
		require.Zero(t, head.tryRepair)
		require.Zero(t, head.hasDetail)
		return int64(head.kind)
	}
	require.EqualValues(t, abi.ACL_RT_NO_ERROR, kind())
	done := make(chan struct{})
	p.Submit(th, s, func() error { return errors.New("broken") })
	p.Submit(th, s, func() error { close(done); return nil })
	<-done // the fault of the previous task is set
	require.EqualValues(t, abi.ACL_RT_ERROR_OTHERS, kind())
	require.Equal(t, rt.VectorException, p.Call(th, "aclrtSynchronizeStream", s))
	require.EqualValues(t, abi.ACL_RT_NO_ERROR, kind(), "it was reported")

	p.Must(th, "aclrtSetStreamFailureMode", s, 1)
	p.Submit(th, s, func() error { return errors.New("broken") })
	require.Equal(t, rt.VectorException, p.Call(th, "aclrtSynchronizeStream", s))
	require.EqualValues(t, abi.ACL_RT_ERROR_OTHERS, kind(), "the context is stopped")
	require.Equal(t, rt.InvalidDevice, p.Call(th, "aclrtGetErrorVerbose", 4, rttest.Address(&errorInfoHead{})))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclrtGetErrorVerbose", 1, 0))
	p.Must(th, "aclrtResetDeviceForce", 1)
}
