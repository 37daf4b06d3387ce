package rt

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

func TestErrorVerbose(t *testing.T) {
	p := newProcess(t)
	th := p.thread(1)
	s := p.stream(th)
	kind := func() int64 {
		head := errorInfoHead{tryRepair: 9, hasDetail: 9, kind: 9}
		p.must(th, "aclrtGetErrorVerbose", 1, address(&head))
		require.Zero(t, head.tryRepair)
		require.Zero(t, head.hasDetail)
		return int64(head.kind)
	}
	require.EqualValues(t, abi.ACL_RT_NO_ERROR, kind())
	done := make(chan struct{})
	p.submit(th, s, func() error { return errors.New("broken") })
	p.submit(th, s, func() error { close(done); return nil })
	<-done // the one before has left its fault
	require.EqualValues(t, abi.ACL_RT_ERROR_OTHERS, kind())
	require.Equal(t, vectorException, p.call(th, "aclrtSynchronizeStream", s))
	require.EqualValues(t, abi.ACL_RT_NO_ERROR, kind(), "it was reported")

	p.must(th, "aclrtSetStreamFailureMode", s, 1)
	p.submit(th, s, func() error { return errors.New("broken") })
	require.Equal(t, vectorException, p.call(th, "aclrtSynchronizeStream", s))
	require.EqualValues(t, abi.ACL_RT_ERROR_OTHERS, kind(), "the context is stopped")
	require.Equal(t, invalidDevice, p.call(th, "aclrtGetErrorVerbose", 4, address(&errorInfoHead{})))
	require.Equal(t, invalidParam, p.call(th, "aclrtGetErrorVerbose", 1, 0))
	p.must(th, "aclrtResetDeviceForce", 1)
}
