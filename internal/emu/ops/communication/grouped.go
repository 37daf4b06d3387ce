package communication

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/matmul"
)

// groupedSums lists products of groups of rows that are summed over ranks.
var groupedSums = op.Table{"GroupedMatMulAllReduce": groupedAllReduce}

// mostWeights is the number of groups for which the kernel has room.
const mostWeights = 64

// rowGroup is rows of x, or of y, from the first one on.
type rowGroup struct {
	t    *op.Tensor
	from int64 // elements before it
	rows int64
}

// view returns the rows as a matrix.
func (g rowGroup) view() kernel.View {
	n := g.t.Dim(-1)
	v := g.t.As([]int64{g.rows, n}, []int64{n, 1})
	v.Data = unsafe.Add(v.Data, g.from*int64(g.t.DType.Size()))
	return v
}

// groupedAllReduce multiplies each group of rows by its weight and sums the products over the ranks. splitItem says whether x (1), y (2) or
// both (3) are one tensor for all groups.
func groupedAllReduce(c *op.Call) (op.Run, error) {
	c.Needs("x", "weight", "y")
	if reduce := c.RequiredText("reduceOp"); c.Err() == nil && reduce != "sum" {
		c.Invalid("reduceOp is %q; only sum is supported", reduce)
	}
	for _, x := range []struct {
		name string
		want int64
	}{{"streamMode", 1}, {"commTurn", 0}} {
		if n := c.Int(x.name); n != x.want {
			c.Invalid("%s is %d; only %d is supported", x.name, n, x.want)
		}
	}
	comm, split := c.Communicator("group"), c.Int("splitItem")
	x, weights, y, bias := c.Tensors("x"), c.Tensors("weight"), c.Tensors("y"), c.Tensors("bias")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if split < 0 || split > 3 {
		c.Invalid("splitItem is %d; 0 to 3 are possible", split)
	}
	if !slices.Contains([]int{1, 2, 4, 8}, comm.Size) {
		c.Invalid("the group has %d ranks; the kernel takes 1, 2, 4 or 8", comm.Size)
	}
	if len(bias) == 1 && bias[0].Rank() > 0 && bias[0].Dim(0) == 0 {
		bias = nil
	}
	oneX, oneY := split == 1 || split == 3, split == 2 || split == 3
	for _, list := range []struct {
		name    string
		tensors []*op.Tensor
		one     bool
	}{{"x", x, oneX}, {"y", y, oneY}, {"weight", weights, false}, {"bias", bias, false}} {
		want := len(weights)
		if list.one {
			want = 1
		}
		if len(list.tensors) != want && (list.name != "bias" || bias != nil) {
			c.Invalid("%s has %d tensors; with splitItem %d and %d weights it must have %d", list.name, len(list.tensors), split, len(weights), want)
		}
	}
	if n := len(weights); n < 1 || n > mostWeights {
		c.Invalid("weight has %d tensors; 1 to %d are possible", n, mostWeights)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	d := x[0].DType
	c.DType(x[0], op.HalfTypes...)
	for _, t := range slices.Concat(x, weights, y) {
		c.Plain(t)
		c.SameDType(x[0], t)
	}
	for _, t := range bias {
		c.Plain(t)
		c.Rank(t, 1, 1)
		want := dtype.Float16
		if d == dtype.BFloat16 {
			want = dtype.Float32
		}
		c.DType(t, want)
	}
	c.Dense(slices.Concat(x, weights, y, bias)...)
	for _, t := range weights {
		c.Rank(t, 2, 2)
	}
	most := 2
	if split == 0 {
		most = 5 // the page has 6, which CANN refuses
	}
	for _, t := range slices.Concat(x, y) {
		c.Rank(t, 2, most)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	in, out := groupsOf(c, x, weights, oneX), make([]rowGroup, len(weights))
	if c.Err() != nil {
		return nil, c.Err()
	}
	total := int64(0)
	for i, w := range weights {
		k, n := in[i].t.Dim(-1), w.Dim(1)
		if k != w.Dim(0) {
			c.Invalid("%v and %v: x has %d columns, and the weight %d rows", in[i].t, w, k, w.Dim(0))
		}
		if bias != nil {
			c.Shape(bias[i], []int64{n}, "an element for each column of the weight")
		}
		out[i] = rowGroup{y[min(i, len(y)-1)], 0, in[i].rows}
		switch {
		case oneY:
			out[i].from = total * n
			if n != weights[0].Dim(1) {
				c.Invalid("%v and %v have other columns; the products must fit into one tensor", weights[0], w)
			}
		case oneX:
			c.Shape(y[i], []int64{in[i].rows, n}, "the rows of the group with the columns of its weight")
		default:
			c.Shape(y[i], resultShape(x[i], n), "that of x with the columns of the weight")
		}
		total += in[i].rows
	}
	if oneY {
		c.Shape(y[0], []int64{total, weights[0].Dim(1)}, "the rows of all groups")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	products := make([]*op.Tensor, len(weights))
	for i, w := range weights {
		rows := c.Scratch(d, in[i].rows, w.Dim(0))
		products[i] = c.Scratch(d, in[i].rows, w.Dim(1))
		var add *op.Tensor
		if bias != nil {
			add = bias[i]
		}
		run, err := matmul.Multiply(c, expertProduct(products[i], rows, w, add))
		if err != nil {
			return nil, err
		}
		c.Compute(func(e *op.Exec) error {
			if err := elementwise.Copy(rows.View(), in[i].view()); err != nil {
				return err
			}
			return run(e)
		})
		c.AllReduce(comm, products[i])
	}
	return func(*op.Exec) error {
		for i, p := range products {
			if err := elementwise.Copy(out[i].view(), p.View()); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// groupsOf returns the rows of each group: all rows of the group's own tensor, or the part of the only tensor that groupListOptional gives it.
func groupsOf(c *op.Call, x, weights []*op.Tensor, one bool) (all []rowGroup) {
	list := c.Ints("groupListOptional")
	if !one {
		if len(list) > 0 {
			c.Invalid("groupListOptional is %s; with a tensor for each group it must be null", op.Dims(list))
		}
		for _, t := range x {
			all = append(all, rowGroup{t, 0, op.Count(t.Shape[:t.Rank()-1])})
		}
		return all
	}
	if len(list) != len(weights) {
		c.Invalid("groupListOptional has %d numbers; there are %d weights", len(list), len(weights))
		return nil
	}
	before := int64(0)
	for _, end := range list {
		if end < before {
			c.Invalid("groupListOptional is %s; the ends of groups must not decrease", op.Dims(list))
			return nil
		}
		all = append(all, rowGroup{x[0], before * x[0].Dim(1), end - before})
		before = end
	}
	if before != x[0].Dim(0) {
		c.Invalid("groupListOptional ends with %d; %v has %d rows", before, x[0], x[0].Dim(0))
	}
	return all
}
