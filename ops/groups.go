package ops

import (
	"context"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Groups say how many rows each group of a grouped product has: on the device, where the
// host does not know them, or on the host, where they are checked before anything is
// launched. Exactly one of the two is set.
type Groups struct {
	Device *aclnn.Tensor // [groups], int64
	Host   []int64
	// Cumulative says that the numbers are running sums instead of sizes.
	Cumulative bool
}

// Len is the number of groups.
func (g *Groups) Len() int64 {
	if g.Device != nil {
		return g.Device.Dim(0)
	}
	return int64(len(g.Host))
}

// listType is CANN's groupListType.
func (g *Groups) listType() int64 {
	if g.Cumulative {
		return 0
	}
	return 1
}

// maxGroups is the longest group list that CANN takes.
const maxGroups = 1024

// groups checks a group list against the number of groups and of rows.
func (c *check) groups(g *Groups, want, rows int64) {
	if !c.ok() {
		return
	}
	if (g.Device == nil) == (g.Host == nil) {
		c.fail("Groups has device and host lists, or neither; it must have one")
		return
	}
	if g.Device != nil {
		c.tensor("Groups.Device", g.Device, aclnn.Int64)
		c.shape("Groups.Device", g.Device, want)
		c.contiguous("Groups.Device", g.Device)
		return
	}
	if g.Len() != want {
		c.fail("Groups.Host has %d groups, the weight has %d", len(g.Host), want)
		return
	}
	sum := int64(0)
	for i, n := range g.sizes(g.Host) {
		if sum += n; n < 0 {
			c.fail("Groups.Host[%d] makes a group of %d rows: %v, cumulative %t", i, n, g.Host, g.Cumulative)
			return
		}
	}
	if sum != rows {
		c.fail("Groups.Host adds up to %d rows, there are %d: %v, cumulative %t", sum, rows, g.Host, g.Cumulative)
	}
}

// sizes turns the numbers of a list into sizes.
func (g *Groups) sizes(list []int64) []int64 {
	if !g.Cumulative {
		return list
	}
	sizes := slices.Clone(list)
	for i := len(sizes) - 1; i > 0; i-- {
		sizes[i] -= sizes[i-1]
	}
	return sizes
}

// onDevice is the list where kernels read it.
func (s *steps) onDevice(ctx context.Context, g *Groups) *aclnn.Tensor {
	if g.Device != nil {
		return g.Device
	}
	t := s.tensor(aclnn.Int64, g.Len())
	if s.err == nil {
		s.err = aclnn.CopyToDevice(ctx, s.st, t, g.Host)
	}
	return t
}

// sums is the list as running sums, on the device.
func (s *steps) sums(ctx context.Context, g *Groups) *aclnn.Tensor {
	list := s.onDevice(ctx, g)
	if g.Cumulative {
		return list
	}
	out := s.tensor(aclnn.Int64, g.Len())
	launch(s, aclnn.Cumsum, aclnn.CumsumParams{Self: list, Dim: 0, Dtype: aclnn.Int64, Out: out})
	return out
}

// onHost is the size of each group; it waits for the stream when the device has the list.
func (g *Groups) onHost(ctx context.Context, st *acl.Stream) ([]int64, error) {
	if g.Host != nil {
		return g.sizes(g.Host), nil
	}
	list := make([]int64, g.Len())
	if err := aclnn.CopyFromDevice(ctx, st, list, g.Device); err != nil {
		return nil, err
	}
	return g.sizes(list), nil
}
