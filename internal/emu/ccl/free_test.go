package ccl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// TestFreedInCollective: the sanitizer reports memory that is freed while a collective uses it, and
// nothing when the program has waited for the collective.
func TestFreedInCollective(t *testing.T) {
	for _, z := range []sanitize.Config{{Memory: true}, {Race: true}} {
		n := newMachine(t, patient, z)
		all := []*rank{newRank(t, n, 0), newRank(t, n, 1)}
		joinAll(all)
		notify := new(uint64)
		all[0].must("aclrtCreateNotify", address(notify), 0)
		gate := *notify // which nobody opens
		for name, queue := range map[string]func(r *rank, p, q uint64){
			"HcclAllReduce": func(r *rank, p, q uint64) { r.must("HcclAllReduce", p, q, 4, int32Type, sum, r.comm, r.stream) },
			"HcclSend/HcclRecv": func(r *rank, p, q uint64) {
				items := &[2]item{{0, 0, p, 4, int32Type, uint32(1 - r.id)}, {1, 0, q, 4, int32Type, uint32(1 - r.id)}}
				r.must("HcclBatchSendRecv", address(&items[0]), 2, r.comm, r.stream)
			},
		} {
			first, second := all[0], all[1]
			p, q := first.upload(ones(4)), first.upload(ones(4))
			first.must("aclrtWaitAndResetNotify", gate, first.stream, 0)
			queue(first, p, q)
			for _, used := range []uint64{p, q} {
				require.EqualValues(t, 507035, first.call("aclrtFree", used), "the collective is queued")
				text := first.text()
				require.Contains(t, text, "use after free: allocation")
				require.Contains(t, text, "is freed while "+name+" on stream")
			}
			first.must("aclrtStreamAbort", first.stream)
			_ = first.sync() // reports that the wait was cut

			p, q = first.upload(ones(4)), first.upload(ones(4))
			x, y := second.upload(ones(4)), second.upload(ones(4))
			queue(first, p, q)
			queue(second, x, y)
			require.Zero(t, first.sync(), first.text())
			require.Zero(t, second.sync(), second.text())
			for _, m := range []uint64{p, q} {
				first.free(m)
			}
			second.free(x)
			second.free(y)
		}
		all[0].must("aclrtDestroyNotify", gate)
		for _, r := range all {
			r.close()
		}
	}
}

// TestTwoStreams: the sanitizer reports collectives of one communicator on two streams that nothing orders, which share notifies on a device, and nothing when an
// event orders them.
func TestTwoStreams(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		n := newMachine(t, patient, sanitize.Config{Race: true})
		all := []*rank{newRank(t, n, 0), newRank(t, n, 1)}
		joinAll(all)
		type second struct{ stream, event uint64 }
		var others []second
		for _, r := range all {
			stream, event := new(uint64), new(uint64)
			r.must("aclrtCreateStream", address(stream))
			r.must("aclrtCreateEvent", address(event))
			others = append(others, second{*stream, *event})
			p, q := r.upload(ones(4)), r.upload(ones(4))
			r.must("HcclAllReduce", p, p, 4, int32Type, sum, r.comm, r.stream)
			if ordered {
				r.must("aclrtRecordEvent", *event, r.stream)
				r.must("aclrtStreamWaitEvent", *stream, *event)
			}
			r.must("HcclAllReduce", q, q, 4, int32Type, sum, r.comm, *stream)
		}
		for i, r := range all {
			first, last := r.sync(), r.call("aclrtSynchronizeStream", others[i].stream)
			if ordered {
				require.Zero(t, first, r.text())
				require.Zero(t, last, r.text())
			} else {
				require.NotZero(t, max(first, last), "rank %d", i)
			}
			r.must("aclrtDestroyStream", others[i].stream)
			r.must("aclrtDestroyEvent", others[i].event)
		}
		for _, r := range all {
			r.close()
		}
	}
}
