package hccl_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// member is a rank of a test with what it needs for tensors.
type member struct {
	t  *testing.T
	st *acl.Stream
	*hccl.Comm
	made []*aclnn.Tensor
}

// members runs f on n ranks and closes the tensors they made.
func members(t *testing.T, n int, f func(m *member)) {
	joined(t, n, func(st *acl.Stream, c *hccl.Comm) {
		m := &member{t: t, st: st, Comm: c}
		f(m)
		for _, x := range m.made {
			assert.NoError(t, x.Close())
		}
	})
}

// tensor is a vector of int32.
func (m *member) tensor(values ...int32) *aclnn.Tensor {
	x, err := aclnn.New(m.st, aclnn.Int32, int64(len(values)))
	if !assert.NoError(m.t, err) {
		m.t.FailNow()
	}
	m.made = append(m.made, x)
	if len(values) > 0 {
		assert.NoError(m.t, aclnn.CopyToDevice(context.Background(), m.st, x, values))
	}
	return x
}

func (m *member) equal(x *aclnn.Tensor, want ...int32) {
	m.t.Helper()
	got := make([]int32, len(want))
	assert.NoError(m.t, aclnn.CopyFromDevice(context.Background(), m.st, got, x))
	assert.Equal(m.t, want, got, "rank %d", m.Rank())
}

func (m *member) refused(err error, parts ...string) {
	m.t.Helper()
	var e *hccl.Error
	if assert.ErrorAs(m.t, err, &e) && assert.ErrorIs(m.t, err, acl.ErrInvalidArgument) {
		assert.Zero(m.t, e.Code, "HCCL was called: %v", err)
		assert.Equal(m.t, m.Rank(), e.Rank)
	}
	for _, p := range parts {
		assert.ErrorContains(m.t, err, p)
	}
}

// Blocks of unequal size, empty blocks and blocks with gaps arrive in their places, and elements in
// the gaps are not changed.
func TestUnevenBlocks(t *testing.T) {
	counted := has(t, "8.5.0")
	members(t, 3, func(m *member) {
		r := int32(m.Rank())
		mine := [][]int32{{10, 11}, {}, {30}}[m.Rank()]
		gathered := m.tensor(-1, -1, -1, -1, -1)
		placed := hccl.Blocks{Counts: []int64{2, 0, 1}, Offsets: []int64{3, 2, 1}}
		assert.NoError(t, m.AllGatherV(m.st, m.tensor(mine...), gathered, placed))
		m.equal(gathered, -1, 30, -1, 10, 11)

		sums := m.tensor(make([]int32, []int{2, 0, 1}[m.Rank()])...)
		assert.NoError(t, m.ReduceScatterV(m.st, m.tensor(1*r, 2*r, 3*r), sums, hccl.Packed(2, 0, 1), hccl.Sum))
		m.equal(sums, [][]int32{{3, 6}, {}, {9}}[m.Rank()]...)

		// Rank i sends j elements to rank j.
		got := m.tensor(make([]int32, 3*r+1)...)
		in := hccl.Blocks{Counts: []int64{int64(r), int64(r), int64(r)}, Offsets: []int64{int64(2*r + 1), int64(r + 1), 1}}
		assert.NoError(t, m.AllToAllV(m.st, m.tensor(10*r+1, 10*r+2, 10*r+3), hccl.Packed(0, 1, 2), got, in))
		m.equal(got, [][]int32{{0}, {0, 21, 11, 1}, {0, 22, 23, 12, 13, 2, 3}}[m.Rank()]...)

		got = m.tensor(make([]int32, 3*r)...)
		counts := [][]int64{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}
		err := m.AllToAllVC(m.st, m.tensor(10*r+1, 10*r+2, 10*r+3), got, counts)
		if !counted {
			assert.ErrorIs(t, err, acl.ErrNotSupported)
			return
		}
		assert.NoError(t, err)
		m.equal(got, [][]int32{{}, {1, 11, 21}, {2, 3, 12, 13, 22, 23}}[m.Rank()]...)
	})
}

// Reduce, Scatter and messages in a ring, to oneself and of several dtypes.
func TestRootsAndMessages(t *testing.T) {
	members(t, 3, func(m *member) {
		r := int32(m.Rank())
		sums := m.tensor(0, 0)
		assert.NoError(t, m.Reduce(m.st, m.tensor(r, r*r), sums, hccl.Max, 1))
		part := m.tensor(0)
		var all *aclnn.Tensor
		if m.Rank() == 1 {
			m.equal(sums, 2, 4)
			all = m.tensor(7, 8, 9)
		}
		assert.NoError(t, m.Scatter(m.st, all, part, 1))
		m.equal(part, 7+r)

		next, last := (m.Rank()+1)%3, (m.Rank()+2)%3
		in, own, none := m.tensor(0, 0), m.tensor(0), m.tensor()
		second, err := aclnn.Zeros(m.st, aclnn.Float16, 4)
		assert.NoError(t, err)
		m.made = append(m.made, second)
		assert.NoError(t, m.Exchange(m.st,
			hccl.RecvFrom(last, in), hccl.RecvFrom(m.Rank(), own), hccl.SendTo(next, none), hccl.SendTo(next, m.tensor(r, -r)),
			hccl.SendTo(m.Rank(), part), hccl.SendTo(last, second), hccl.RecvFrom(next, second.Narrow(0, 0, 4))))
		m.equal(in, int32(last), -int32(last))
		m.equal(own, 7+r)
		assert.NoError(t, m.Exchange(m.st), "nothing to do")
	})
}

// Blocks that do not fit are refused on every rank before HCCL is called, with the rank and the
// block at fault; the communicator stays usable.
func TestRefusedBlocks(t *testing.T) {
	members(t, 2, func(m *member) {
		one, two, out := m.tensor(1), m.tensor(1, 2), m.tensor(0, 0)
		half, err := aclnn.New(m.st, aclnn.Float16, 2)
		assert.NoError(t, err)
		m.made = append(m.made, half)
		m.refused(m.AllGatherV(m.st, one, out, hccl.Packed(2)), "1 counts", "2 ranks")
		m.refused(m.AllGatherV(m.st, one, out, hccl.Packed(1, 2)), "rank 1", "leaves the tensor of 2")
		m.refused(m.AllGatherV(m.st, one, out, hccl.Packed(-1, 2)), "rank 0 has -1")
		m.refused(m.AllGatherV(m.st, one, out, hccl.Blocks{Counts: []int64{1, 1}, Offsets: []int64{1, 1}}), "ranks 0 and 1 overlap")
		m.refused(m.AllGatherV(m.st, one, out, hccl.Blocks{Counts: []int64{1, 1}, Offsets: []int64{0, -1}}), "rank 1", "from -1 on")
		m.refused(m.AllGatherV(m.st, two, out, hccl.Packed(1, 1)), "send has 2 elements")
		m.refused(m.AllGatherV(m.st, out.Narrow(0, 0, 1), out, hccl.Packed(1, 1)), "share memory")
		m.refused(m.AllGatherV(m.st, one, half, hccl.Packed(1, 1)), "dtypes differ")
		m.refused(m.ReduceScatterV(m.st, two, out, hccl.Packed(1, 1), hccl.Sum), "recv has 2 elements")
		m.refused(m.AllToAllV(m.st, two, hccl.Packed(int64(m.Rank()), 1), out, hccl.Packed(int64(1-m.Rank()), 0)), "sends itself")
		m.refused(m.AllToAllV(m.st, two, hccl.Packed(1, 1), two, hccl.Packed(1, 1)), "share memory")
		m.refused(m.AllToAllVC(m.st, two, out, [][]int64{{1, 1}}), "1 rows")
		m.refused(m.AllToAllVC(m.st, two, out, [][]int64{{1}, {1, 1}}), "row 0")
		m.refused(m.AllToAllVC(m.st, two, out, [][]int64{{2, 1}, {2, 1}}), "send has 2 elements", "3")
		m.refused(m.AllToAllVC(m.st, two, out, [][]int64{{-1, 3}, {3, -1}}), "-1 elements")
		m.refused(m.AllToAll(m.st, two, two), "share memory")
		m.refused(m.Reduce(m.st, one, one, hccl.Sum, 2), "root 2", "0 to 1")
		m.refused(m.Reduce(m.st, one, nil, hccl.Sum, 1-m.Rank()), "nil")
		m.refused(m.Scatter(m.st, one, out, m.Rank()), "4 are needed")
		m.refused(m.Scatter(m.st, nil, one, m.Rank()), "nil")
		m.refused(m.Exchange(m.st, hccl.SendTo(5, one)), "peer 5")
		m.refused(m.Exchange(m.st, hccl.SendTo(m.Rank(), one)), "1 messages to itself and expects 0")
		m.refused(m.Exchange(m.st, hccl.SendTo(m.Rank(), one), hccl.RecvFrom(m.Rank(), two)), "differs")
		assert.NoError(t, m.Barrier(m.st))
	})
}
