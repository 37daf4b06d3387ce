package ccl_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/ccl"
	"github.com/goascend/cann/internal/emu/rt"
)

// hasty is for ranks that must notice that another one is missing. Connecting has longer, because those that
// are there must have found each other by then.
var hasty = ccl.Timeouts{Connect: 3 * time.Second, Execute: 500 * time.Millisecond}

// hurry sets the timeouts of the ranks.
func hurry(all []*rank, limits ccl.Timeouts) {
	for _, r := range all {
		ccl.SetTimeouts(r.n.l, limits)
	}
}

// requireNews requires that ranks whose communicator failed have released everything, and that
// they can use a new communicator.
func requireNews(all []*rank, memory []uint64) {
	hurry(all, patient)
	for i, r := range all {
		r.close()
		require.Equal(r.tb, memory[i], r.available(), "device memory of rank %d", i)
	}
	joinAll(all)
	each(all, func(r *rank) {
		p := r.upload(ones(1000))
		r.must("HcclAllReduce", p, p, 1000, int32Type, sum, r.comm, r.stream)
		require.Zero(r.tb, r.sync(), r.text())
		require.EqualValues(r.tb, len(all), r.download(p, 4)[0])
		r.free(p)
	})
	each(all, (*rank).close)
}

func memoryOf(all []*rank) (free []uint64) {
	for _, r := range all {
		free = append(free, r.available())
	}
	return free
}

// TestRankDrops lets the last of three ranks drop out of a communicator without ending its
// process. The others get an error and can use another communicator. One of them is waiting when
// it happens, the other calls afterwards. The reduction is so large that each rank reduces a
// slice, which needs all ranks, so that no rank can succeed.
func TestRankDrops(t *testing.T) {
	const count = 8 << 10
	for _, c := range []struct {
		name   string
		limits ccl.Timeouts
		drops  func(r *rank)
		text   string // a regular expression
		codes  []int32
	}{
		{"does not come", hasty, func(*rank) {}, "EI0002", []int32{outOfTime, lostPeer, remote}},
		{"leaves", patient, (*rank).close, "EI0006: rank 2 left", []int32{lostPeer, remote}},
		{"gives up", hasty, func(r *rank) {
			p := r.upload(ones(count))
			r.must("HcclAllReduce", p, p, count, int32Type, sum, r.comm, r.stream)
			r.must("aclrtStreamAbort", r.stream)
			r.sync()
			_ = r.text()
			r.free(p)
		}, "aborted|EI0002", []int32{outOfTime, lostPeer, remote}}, // EI0002 if it had not begun
		{"gives memory that is not there", patient, func(r *rank) {
			p := r.upload(ones(count))
			r.free(p)
			if r.call("HcclAllReduce", p, p, count, int32Type, sum, r.comm, r.stream) == 0 {
				require.NotZero(r.tb, r.sync())
			}
			_ = r.text()
		}, "rank 2 of 3", []int32{lostPeer, remote}},
		{"makes another call", patient, func(r *rank) {
			p := r.upload(ones(count))
			if r.call("HcclBroadcast", p, count, int32Type, 0, r.comm, r.stream) == 0 {
				require.NotZero(r.tb, r.sync())
			}
			_ = r.text()
			r.free(p)
		}, "EI0005", []int32{lostPeer, exception, remote}},
	} {
		for connection := range worlds {
			t.Run(c.name+"/"+connection, func(t *testing.T) {
				all := unjoined(t, 3, patient, connection)
				survivors, memory := all[:2], memoryOf(all)
				joinAll(all)
				hurry(all, c.limits)
				dropped := make(chan struct{})
				each(all, func(r *rank) {
					switch r.id {
					case 2:
						defer close(dropped)
						c.drops(r)
						return
					case 1:
						<-dropped
					}
					p := r.upload(ones(count))
					code := r.call("HcclAllReduce", p, p, count, int32Type, sum, r.comm, r.stream)
					if code == 0 {
						code = r.sync()
					}
					text := r.text()
					require.Contains(r.tb, c.codes, code, text)
					require.Regexp(r.tb, c.text, text)
					failure := new(int32)
					r.must("HcclGetCommAsyncError", r.comm, address(failure))
					require.EqualValues(r.tb, remote, *failure)
					r.free(p)
				})
				all[2].close()
				requireNews(survivors, memory)
			})
		}
	}
}

// TestCallsAfterALoss checks that a rank which comes late to a call gets the report that a peer left, and not
// that its call differs from the later ones which another rank had queued behind the failed one.
func TestCallsAfterALoss(t *testing.T) {
	const queued = 1000
	for connection := range worlds {
		t.Run(connection, func(t *testing.T) {
			all := unjoined(t, 3, patient, connection)
			joinAll(all)
			held, begun, failed := make(chan struct{}), make(chan struct{}), make(chan struct{})
			each(all, func(r *rank) {
				defer r.close()
				if r.id == 1 { // rank 0 hears from it first, rank 2 from rank 0
					<-begun
					return
				}
				p := r.upload(ones(2))
				defer r.free(p)
				reduce := func(count uint64) {
					r.must("HcclAllReduce", p, p, count, int32Type, sum, r.comm, r.stream)
				}
				if r.id == 2 {
					ccl.Hold(r.n.l, r.t, r.stream, failed)
					reduce(1)
					close(held)
				} else {
					<-held
					reduce(1)
					for range queued {
						reduce(2)
					}
					close(begun)
					failure := new(int32)
					require.Eventually(r.tb, func() bool {
						r.must("HcclGetCommAsyncError", r.comm, address(failure))
						return *failure == remote
					}, watchdog, 100*time.Microsecond)
					close(failed)
				}
				require.NotZero(r.tb, r.sync())
				require.Regexp(r.tb, "EI0006: rank 1 left", r.text())
			})
		})
	}
}

// TestLossBetweenChecks: a call that loses its peer after its handle was checked is queued, and the stream reports the loss.
func TestLossBetweenChecks(t *testing.T) {
	for connection := range worlds {
		t.Run(connection, func(t *testing.T) {
			all := unjoined(t, 3, patient, connection)
			joinAll(all)
			each(all, func(r *rank) {
				require.NoError(r.tb, ccl.Lost(r.n.l, r.t, r.comm, r.stream))
				r.close()
			})
		})
	}
}

// TestLossBeforeTimeout: when a peer is lost and the timeout passes too, the loss is reported, also when the
// machine was too busy to notice it in time.
func TestLossBeforeTimeout(t *testing.T) {
	for connection := range worlds {
		for _, noticed := range []bool{true, false} {
			if connection == "one process" && !noticed {
				continue // there is no connection whose end could be noticed late
			}
			t.Run(fmt.Sprintf("%s/noticed=%v", connection, noticed), func(t *testing.T) {
				all := unjoined(t, 2, patient, connection)
				joinAll(all)
				var lose func()
				if !noticed {
					lose = func() { ccl.Disconnect(all[1].n.l, all[1].comm, 0) }
				}
				for _, err := range ccl.TimedOut(all[0].n.l, all[0].comm, 1, lose) {
					var f *rt.Fault
					require.ErrorAs(t, err, &f)
					require.EqualValues(t, lostPeer, f.Code, f.Text)
				}
				each(all, (*rank).close)
			})
		}
	}
}

// TestJoiningFails checks that joining fails on all ranks if one does not join or if ranks
// contradict each other, and that a forged root info is refused.
func TestJoiningFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits ccl.Timeouts
		joins  func(r *rank, info *[4108]byte) int32 // of the last rank
		codes  []int32
		text   string
	}{
		{"does not come", hasty, func(*rank, *[4108]byte) int32 { return 9 }, []int32{9}, "ranks 2 of 3"},
		{"another size", patient, func(r *rank, info *[4108]byte) int32 { return r.join(info, 2, 4) }, []int32{4, 9}, "EI001[45]"}, // 9 if the root has stopped already
		{"a rank twice", patient, func(r *rank, info *[4108]byte) int32 { return r.join(info, 0, 3) }, []int32{4, 9}, "EI001[45]"}, // 9 if the root has stopped already
		{"a forged root info", hasty, func(r *rank, info *[4108]byte) int32 {
			forged := *info
			forged[9] ^= 1
			require.NotZero(r.tb, r.join(&forged, 2, 3))
			require.Contains(r.tb, r.text(), "does not know the root info")
			return 9
		}, []int32{9, 4}, "EI0015"}, // a root gives up when the rank of its process fails
	} {
		for connection := range worlds {
			t.Run(c.name+"/"+connection, func(t *testing.T) {
				all := unjoined(t, 3, c.limits, connection)
				memory := memoryOf(all)
				info := all[0].rootInfo()
				each(all, func(r *rank) {
					if r.id == 2 {
						require.Contains(r.tb, c.codes, c.joins(r, info))
						_ = r.text()
						return
					}
					require.Contains(r.tb, c.codes, r.join(info, r.id, 3), r.id)
					require.Regexp(r.tb, c.text, r.text())
				})
				for _, r := range all {
					require.Eventually(t, func() bool { _, roots := r.n.l.Live(); return roots == 0 }, watchdog, time.Millisecond)
				}
				requireNews(all, memory)
			})
		}
	}
}

// TestNoPort checks that no root can be made while all ports that HCCL may use are taken.
func TestNoPort(t *testing.T) {
	const first = 65520 // the highest port allowed, which leaves 16 ports
	t.Setenv("HCCL_IF_BASE_PORT", fmt.Sprint(first))
	r := newRank(t, newNode(t, patient), 0)
	var taken []net.Listener
	for port := first; port < 1<<16; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil { // else it is taken
			taken = append(taken, l)
		}
	}
	info := new([4108]byte)
	require.EqualValues(t, 7, r.call("HcclGetRootInfo", address(info)))
	text := r.text()
	require.Contains(t, text, "(EI0019): ports 65520 to 65535")
	require.Contains(t, text, "HCCL_IF_BASE_PORT")
	for _, l := range taken {
		require.NoError(t, l.Close())
	}
	requireNews([]*rank{r}, memoryOf([]*rank{r}))
}

// TestTablePortInUse checks the errors when another program listens on the port of a rank table's
// first rank: rank 0 reports that the port is taken, and the others that they cannot reach the
// root. Once the port is free, all ranks connect.
func TestTablePortInUse(t *testing.T) {
	for connection := range worlds {
		t.Run(connection, func(t *testing.T) {
			port := usePort(t)
			other, err := net.Listen("tcp", "127.0.0.1:"+port)
			require.NoError(t, err)
			path := save(t, tableOf(3))
			all := unjoined(t, 3, hasty, connection)
			memory := memoryOf(all)
			join := func(r *rank) {
				comm := new(uint64)
				r.must("HcclCommInitClusterInfo", path, uint64(r.id), address(comm))
				r.comm = *comm
			}
			each(all, join)
			each(all, func(r *rank) {
				require.EqualValues(r.tb, 9, r.barrier())
				text := r.text()
				if r.id == 0 {
					require.Contains(r.tb, text, "EI0019")
				} else {
					require.Contains(r.tb, text, "EI0015")
				}
				require.Contains(r.tb, text, port)
			})
			each(all, (*rank).close)
			require.NoError(t, other.Close())
			hurry(all, patient)
			each(all, join)
			each(all, func(r *rank) { require.Zero(r.tb, r.barrier(), r.text()) })
			requireNews(all, memory)
		})
	}
}

// A root whose process is at its limit of open files fails with the remedy. Its rank does not dial what listens no more until
// HCCL_CONNECT_TIMEOUT is over, to report a connection that was refused.
func TestRootWithoutDescriptors(t *testing.T) {
	r := unjoined(t, 1, ccl.Timeouts{Connect: 10 * time.Second, Execute: time.Second}, "hosts")[0]
	info, err := ccl.FullRoot(r.n.l)
	require.NoError(t, err)
	require.EqualValues(t, abi.HCCL_E_INTERNAL, r.join((*[4108]byte)(info), 0, 2))
	text := r.text()
	require.Contains(t, text, "the root gave up: no file descriptor is left for a connection (raise the limit on open files, ulimit -n)")
	require.NotContains(t, text, "refused")
}
