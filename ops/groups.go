package ops

import (
	"context"
	"slices"

	"github.com/goascend/cann/aclnn"
)

// Groups deals consecutive rows to groups, such as the tokens of each expert. One of Device
// and Host says how many; empty groups are fine.
type Groups struct {
	// Device is [groups], int64 or int32. Only the running kernel can read it: rows past its
	// sum are then left unwritten, and a sum of more than the rows is an error of the stream.
	Device *aclnn.Tensor
	// Host is checked before launch: the groups must hold all rows.
	Host []int64
	// Cumulative says that entry g is the end of group g, not its size.
	Cumulative bool
}

// Len is the number of groups.
func (g *Groups) Len() int64 {
	if g.Device != nil {
		return g.Device.Dim(0)
	}
	return int64(len(g.Host))
}

// validate checks that the list deals the rows to want groups.
func (g *Groups) validate(c *check, want, rows int64) {
	if c.err != nil {
		return
	}
	if (g.Device == nil) == (g.Host == nil) {
		c.fail("Groups needs one of Device and Host")
		return
	}
	if c.optional("Groups.Device", g.Device, indices...) && g.Device.Rank() != 1 {
		c.fail("Groups.Device is %v; it must be [groups]", g.Device)
	}
	if c.ok() && g.Len() != want {
		c.fail("Groups has %d groups, the weight %d", g.Len(), want)
	}
	if g.Host == nil || !c.ok() {
		return
	}
	sum := int64(0)
	for i, n := range g.Sizes() {
		// A size beyond the rows is refused at once, so that the sum cannot overflow.
		if n < 0 || n > rows {
			c.fail("group %d of Groups.Host has %d of the %d rows (Cumulative is %v); are the entries sizes, or running sums?", i, n, rows, g.Cumulative)
			return
		}
		sum += n
	}
	if sum != rows {
		c.fail("Groups.Host holds %d rows, X has %d (Cumulative is %v)", sum, rows, g.Cumulative)
	}
}

// Sizes are the sizes of the groups of a host list; nil for one on the device.
func (g *Groups) Sizes() []int64 {
	sizes := slices.Clone(g.Host)
	if g.Cumulative {
		for i := len(sizes) - 1; i > 0; i-- {
			sizes[i] -= sizes[i-1]
		}
	}
	return sizes
}

// list is the group list as an int64 tensor, of running sums if these are asked for, or else
// in the form it has.
func (g *Groups) list(ctx context.Context, s *steps, cumulative bool) *aclnn.Tensor {
	cumulative = cumulative && !g.Cumulative
	if g.Device == nil {
		values := g.Host
		if cumulative {
			values = slices.Clone(values)
			for i := 1; i < len(values); i++ {
				values[i] += values[i-1]
			}
		}
		t := s.tensor(aclnn.Int64, int64(len(values)))
		if s.err == nil {
			s.err = aclnn.CopyToDevice(ctx, s.st, t, values)
		}
		return t
	}
	t := s.cast(g.Device, aclnn.Int64)
	if !cumulative {
		return s.dense(t)
	}
	sums := s.tensor(aclnn.Int64, t.Dim(0))
	launch(s, aclnn.Cumsum, aclnn.CumsumParams{Self: t, Dim: 0, Dtype: aclnn.Int64, Out: sums})
	return sums
}

// Values of groupListType.
const (
	runningSums = 0
	groupSizes  = 1
)

// listType is how CANN calls the form the list has.
func (g *Groups) listType() int64 {
	if g.Cumulative {
		return runningSums
	}
	return groupSizes
}

// each calls f with the rows of every group of a host list that is not empty.
func (g *Groups) each(f func(group, first, rows int64)) {
	first := int64(0)
	for i, n := range g.Sizes() {
		if n > 0 {
			f(int64(i), first, n)
		}
		first += n
	}
}
