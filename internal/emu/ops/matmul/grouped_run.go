package matmul

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// prepare returns the function that computes the groups, and reserves its workspace.
func (g *grouped) prepare() op.Run {
	product := g.plain
	switch g.mode {
	case antiquant:
		product = g.antiquant()
	case quantised:
		product = g.quantised()
	case quantisedA8W4, quantisedA4W4:
		product = g.quantisedInt4()
	}
	return func(x *op.Exec) error {
		groups, err := g.split()
		if err != nil {
			return err
		}
		for _, p := range groups {
			if err := product(x, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// plain computes y = x·w + bias.
func (g *grouped) plain(_ *op.Exec, p group) error {
	bias, err := g.biasOf(p)
	if err != nil {
		return err
	}
	return g.multiply(p, bias)
}

// multiply computes y = x·w + bias. x may be a batch.
func (g *grouped) multiply(p group, bias *kernel.View) error {
	weights, err := p.weights.Broadcast(append(p.x.Shape[:len(p.x.Shape)-2:len(p.x.Shape)-2], p.weights.Shape...))
	if err != nil {
		return err
	}
	return gemmkernel.Gemm(gemmkernel.Product{
		Out: p.y, A: p.x, B: weights, Add: bias, Alpha: 1, Beta: 1, NZ: g.weight[0].NZColumns(),
	})
}

// biasOf returns the bias of a group as an addend of y, or nil.
func (g *grouped) biasOf(p group) (*kernel.View, error) {
	if len(g.bias) == 0 {
		return nil, nil
	}
	bias, err := g.rowOf(g.bias, p.index).Broadcast(p.y.Shape)
	return &bias, err
}

// rowOf returns the entry for one group of a list that matches the weights.
func (g *grouped) rowOf(list []*op.Tensor, i int64) kernel.View {
	if len(g.weight) > 1 || g.weight[0].Rank() == 2 {
		return list[i].View()
	}
	return list[0].View().Select(0, i)
}

// buffer is a part of the workspace.
type buffer struct {
	at int64
	d  dtype.Type
}

// buffer reserves workspace for n elements.
func (g *grouped) buffer(d dtype.Type, n int64) buffer {
	b := buffer{at: g.WorkspaceSize(), d: d}
	g.Workspace((int64(d.Bytes(int(n))) + 63) / 64 * 64)
	return b
}

// view is the buffer with a shape. Valid inside Run only.
func (b buffer) view(x *op.Exec, shape ...int64) kernel.View {
	return kernel.View{Data: unsafe.Add(x.Workspace(), b.at), DType: b.d, Shape: shape, Strides: op.ContiguousStrides(shape)}
}
