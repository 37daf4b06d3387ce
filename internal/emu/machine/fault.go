package machine

import (
	"errors"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/nn"
	"github.com/goascend/cann/internal/emu/op"
)

// queues reports whether a function, which is no operator, puts work on a stream.
func queues(name string) bool {
	return strings.Contains(name, "Async") || slices.ContainsFunc([]string{
		"HcclAll", "HcclReduce", "HcclBroadcast", "HcclScatter", "HcclSend", "HcclRecv", "HcclBatchSendRecv", "HcclBarrier",
		"aclrtRecord", "aclrtStreamWait", "aclrtResetEvent", "aclrtResetNotify", "aclrtWaitAndReset", "aclrtLaunch",
		"aclrtActiveStream", "aclrtSwitch", "aclrtValue", "aclrtCmo", "aclrtProfTrace", "aclmdlRIExecute",
	}, func(start string) bool { return strings.HasPrefix(name, start) })
}

// canFail returns why a fault rule with the name would never apply, or returns nil. What several functions
// queue together, such as a send and its receive, has their names with / between.
func canFail(name string) error {
	work, runs := strings.CutPrefix(name, "run/")
	if first, rest, several := strings.Cut(work, "/"); runs && several {
		return errors.Join(canFail("run/"+first), canFail("run/"+rest))
	}
	operator, one := strings.CutSuffix(strings.TrimPrefix(work, "aclnn"), abi.PhaseOne)
	_, _, custom := nn.Custom(operator)
	if strings.HasPrefix(work, "aclnn") && (custom || op.Find(operator) != nil) {
		if one && runs {
			return errors.New("phase one does not run on a stream; leave out " + abi.PhaseOne)
		}
		return nil
	}
	i := slices.IndexFunc(functions[:], func(f function) bool { return f.name == work })
	switch {
	case i < 0:
		return errors.New("CANN has no such function")
	case !functions[i].coded():
		return errors.New("this function returns no code, so it cannot fail")
	case runs && !queues(work):
		return errors.New("this function puts no work on a stream; leave out run/")
	}
	return nil
}
