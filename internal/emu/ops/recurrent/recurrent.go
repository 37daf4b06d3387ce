package recurrent

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	recurrentkernel "github.com/goascend/cann/internal/emu/kernel/recurrent"
	"github.com/goascend/cann/internal/emu/op"
)

// recurrences lists the recurrent networks and their cells.
var recurrences = op.Table{
	"LSTM": recurrent, "GRU": recurrent, "LstmBackward": recurrentGrad, "GRUBackward": recurrentGrad, "BidirectionLSTM": layerLSTM, "BidirectionLSTMV2": layerLSTM, "ThnnFusedLstmCell": lstmCell, "ThnnFusedLstmCellBackward": lstmCellGrad,
}.Selects("LstmBackward", "ThnnFusedLstmCell", "ThnnFusedLstmCellBackward")

// recurrentTypes are the element types of recurrent networks.
var recurrentTypes = []dtype.Type{dtype.Float32, dtype.Float16}

// network is a stack of recurrent layers over sequences of one length.
type network struct {
	x, out, hy, cy           *op.Tensor
	start                    []*op.Tensor // initial h and, for an LSTM, c; empty for zeros
	params                   []*op.Tensor // by layer and direction
	layers, directions       int64
	times, batch, size       int64
	lstm, biased, batchFirst bool
	gates, states            [][]*op.Tensor // per layer and direction, by kind; or empty
}

func recurrent(c *op.Call) (op.Run, error) {
	n := network{
		x: c.Tensor("input"), out: c.Tensor("output"), hy: c.Tensor("hy"), params: c.Tensors("params"), layers: c.Int("numLayers"), directions: 1,
		lstm: c.Op.Name == "LSTM", biased: c.Bool("hasBias"), batchFirst: c.Bool("batchFirst"),
	}
	if c.Bool(c.Either("bidirectional", "bidirection")) {
		n.directions = 2
	}
	if n.lstm {
		n.cy, n.start = c.Tensor("cy"), c.Tensors("hx")
	} else if h := c.Optional("hx"); h != nil {
		n.start = []*op.Tensor{h}
	}
	if t := c.Optional("batchSizes"); t != nil {
		c.Invalid("%v: sequences of different lengths are not supported; pass null", t)
	}
	if c.Bool("train") && c.Float("dropout") != 0 {
		c.Invalid("dropout %g is not supported; use 0", c.Float("dropout"))
	}
	n.check(c)
	if c.Bool("train") {
		n.record(c)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return n.run, nil
}

// layerLSTM is one LSTM layer whose weights are separate arguments.
func layerLSTM(c *op.Call) (op.Run, error) {
	n := network{
		x: c.Tensor("x"), out: c.Tensor("yOut"), hy: c.Tensor("outputHOut"), cy: c.Tensor("outputCOut"), start: []*op.Tensor{c.Tensor("initH"), c.Tensor("initC")},
		layers: c.Int("numLayers"), directions: 1, lstm: true, biased: c.Bool("isbias"),
	}
	c.DType(n.x, dtype.Float16)
	if n.layers != 1 || c.Bool("batchFirst") {
		c.Invalid("numLayers is %d and batchFirst %v; only one layer is supported, with times first", n.layers, c.Bool("batchFirst"))
	}
	if c.Has("packed") {
		if t := c.Optional("batchSizeOptional"); t != nil || c.Bool("packed") {
			c.Invalid("packed is %v with %v: sequences of different lengths are not supported; use false and null", c.Bool("packed"), t)
		}
	}
	take := func(names ...string) {
		for i, name := range names {
			if i < 2 || n.biased {
				n.params = append(n.params, c.Tensor(name))
			}
		}
	}
	take("wIh", "wHh", "bIhOptional", "bHhOptional")
	if c.Bool("bidirection") {
		n.directions = 2
		take("wIhReverseOptional", "wHhReverseOptional", "bIhReverseOptional", "bHhReverseOptional")
	}
	if c.Err() == nil {
		n.check(c)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return n.run, nil
}

// check refuses tensors with inconsistent shapes or types.
func (n *network) check(c *op.Call) {
	c.Plain(n.x, n.out)
	c.DType(n.x, recurrentTypes...)
	c.Rank(n.x, 3, 3)
	each := int64(2)
	if n.biased {
		each = 4
	}
	if n.layers < 1 || int64(len(n.params)) != each*n.layers*n.directions {
		c.Invalid("params has %d tensors; %d layers in %d directions need %d", len(n.params), n.layers, n.directions, each*n.layers*n.directions)
	}
	if c.Err() != nil {
		return
	}
	n.times, n.batch = n.x.Shape[0], n.x.Shape[1]
	if n.batchFirst {
		n.times, n.batch = n.batch, n.times
	}
	c.Rank(n.params[1], 2, 2)
	if c.Err() != nil {
		return
	}
	n.size = n.params[1].Shape[1]
	width, in := n.kinds()*n.size, n.x.Shape[2]
	for i, p := range n.params {
		if int64(i) == each*n.directions {
			in = n.directions * n.size
		}
		want := [][]int64{{width, in}, {width, n.size}, {width}, {width}}[int64(i)%each]
		c.Plain(p)
		c.SameDType(n.x, p)
		c.Shape(p, want, "the gates of a layer")
	}
	c.SameDType(n.x, n.out, n.hy)
	c.Shape(n.out, append(slices.Clone(n.x.Shape[:2]), n.directions*n.size), "the states of the last layer")
	all := []int64{n.layers * n.directions, n.batch, n.size}
	c.Shape(n.hy, all, "the last state of each layer and direction")
	if n.lstm {
		c.SameDType(n.x, n.cy)
		c.Shape(n.cy, all, "the last cell of each layer and direction")
		if len(n.start) != 0 && len(n.start) != 2 {
			c.Invalid("hx has %d tensors; it has the states and the cells", len(n.start))
		}
	}
	for _, t := range n.start {
		c.Plain(t)
		c.SameDType(n.x, t)
		c.Shape(t, all, "the first state of each layer and direction")
	}
}

// kinds returns the number of gates.
func (n *network) kinds() int64 {
	if n.lstm {
		return 4
	}
	return 3
}

// record reads the output lists that training writes.
func (n *network) record(c *op.Call) {
	gates, states := []string{"rOut", "zOut", "nOut", "hnOut"}, []string{"hOut"}
	if n.lstm {
		gates, states = []string{"iOut", "jOut", "fOut", "oOut"}, []string{"hOut", "cOut", "tanhCOut"}
	}
	n.gates, n.states = n.recorded(c, gates...), n.recorded(c, states...)
}

// recorded reads the lists that training recorded.
func (n *network) recorded(c *op.Call, names ...string) (lists [][]*op.Tensor) {
	for _, name := range names {
		list := c.Tensors(name)
		if int64(len(list)) != n.layers*n.directions {
			c.Invalid("%s has %d tensors; training records %d, for each layer and direction", name, len(list), n.layers*n.directions)
		}
		for _, t := range list {
			c.Plain(t)
			c.SameDType(n.x, t)
			c.Shape(t, []int64{n.times, n.batch, n.size}, "what each time gives")
		}
		lists = append(lists, list)
	}
	return lists
}

// timeFirst is a view with the time dimension before the batch dimension.
func (n *network) timeFirst(v kernel.View) kernel.View {
	if n.batchFirst {
		return op.Permuted(v, []int64{1, 0, 2})
	}
	return v
}

func (n *network) run(*op.Exec) error {
	if n.out.Len() == 0 {
		return op.ZeroAll(n.hy, n.cy)
	}
	x := n.timeFirst(n.x.View())
	for layer := range n.layers {
		out, release := kernel.Temporary(n.times, n.batch, n.directions*n.size)
		defer release()
		for d := range n.directions {
			if err := n.direction(out.Narrow(2, d*n.size, n.size), x, layer*n.directions+d, d == 1); err != nil {
				return err
			}
		}
		x = out
	}
	return elementwise.Copy(n.timeFirst(n.out.View()), x)
}

// direction runs the k-th layer and direction, and writes its states to out.
func (n *network) direction(out, x kernel.View, k int64, reverse bool) error {
	p := n.weights(n.params, k)
	r := recurrentkernel.Recurrence{Input: p[0].View(), Hidden: p[1].View(), Reverse: reverse}
	if n.biased {
		r.InputBias, r.HiddenBias = p[2].View(), p[3].View()
	}
	states, release, err := n.stateCopies(n.start, k)
	defer release()
	if err != nil {
		return err
	}
	rec := recurrentkernel.Record{Out: out}
	for _, list := range n.gates {
		rec.Gates = append(rec.Gates, list[k].View())
	}
	if n.lstm && n.states != nil {
		rec.Cell, rec.CellActivation = n.states[1][k].View(), n.states[2][k].View()
	}
	layer := r.GRU
	if n.lstm {
		layer = r.LSTM
	}
	if err := layer(x, recurrentkernel.States{H: states[0], C: states[1]}, rec); err != nil {
		return err
	}
	if n.states != nil {
		if err := elementwise.Copy(n.states[0][k].View(), out); err != nil {
			return err
		}
	}
	if n.lstm {
		if err := elementwise.Copy(n.cy.View().Select(0, k), states[1]); err != nil {
			return err
		}
	}
	return elementwise.Copy(n.hy.View().Select(0, k), states[0])
}

// weights returns the tensors of the k-th layer and direction from a list like params.
func (n *network) weights(list []*op.Tensor, k int64) []*op.Tensor {
	each := int64(2)
	if n.biased {
		each = 4
	}
	return list[k*each:][:each]
}

// stateCopies returns single-precision copies of h and c of the k-th layer and direction. The
// tensors hold the states of all layers; a missing one counts as zeros.
func (n *network) stateCopies(of []*op.Tensor, k int64) (states [2]kernel.View, release func(), err error) {
	var releases [2]func()
	for i := range states {
		states[i], releases[i] = kernel.Temporary(n.batch, n.size)
		if err != nil {
			continue
		}
		if i < len(of) && of[i] != nil {
			err = elementwise.Copy(states[i], of[i].View().Select(0, k))
		} else {
			err = elementwise.Zero(states[i])
		}
	}
	return states, func() { releases[0](); releases[1]() }, err
}

// cellShapes checks the tensors of a cell. The gates are four times as wide as the states.
func cellShapes(c *op.Call, state *op.Tensor, states, gates []*op.Tensor) {
	c.DType(state, recurrentTypes...)
	c.Rank(state, 2, 2)
	c.Plain(state)
	if c.Err() != nil {
		return
	}
	for _, t := range states {
		if t != nil {
			c.Plain(t)
			c.Same(state, t)
		}
	}
	for _, t := range gates {
		c.Plain(t)
		c.SameDType(state, t)
		c.Shape(t, []int64{state.Shape[0], 4 * state.Shape[1]}, "four gates for each element of the state")
	}
}

// gateBias checks an optional bias of the gates.
func gateBias(c *op.Call, t, state *op.Tensor) {
	if t != nil && c.Err() == nil {
		c.Plain(t)
		c.SameDType(state, t)
		c.Shape(t, []int64{4 * state.Shape[1]}, "one for each gate")
	}
}

func lstmCell(c *op.Call) (op.Run, error) {
	in, hidden, last := c.Tensor("inputGates"), c.Tensor("hiddenGates"), c.Tensor("cx")
	inBias, hiddenBias := c.Optional("inputBiasOptional"), c.Optional("hiddenBiasOptional")
	h, cell, gates := c.Tensor("hyOut"), c.Tensor("cyOut"), c.Tensor("storageOut")
	cellShapes(c, last, []*op.Tensor{h, cell}, []*op.Tensor{in, hidden, gates})
	gateBias(c, inBias, last)
	gateBias(c, hiddenBias, last)
	if (inBias == nil) != (hiddenBias == nil) {
		c.Invalid("one of inputBiasOptional and hiddenBiasOptional is null; give both or none")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if last.Len() == 0 {
			return nil
		}
		return recurrentkernel.LSTMCell(h.View(), cell.View(), gates.View(), in.View(), hidden.View(), op.OptionalView(inBias), op.OptionalView(hiddenBias), last.View())
	}, nil
}

func lstmCellGrad(c *op.Call) (op.Run, error) {
	dh, dcell := c.Optional("gradHyOptional"), c.Optional("gradCOptional")
	last, cell, gates, dgates, dlast := c.Tensor("cx"), c.Tensor("cy"), c.Tensor("storage"), c.Tensor("gradGatesOut"), c.Tensor("gradCxOut")
	cellShapes(c, last, []*op.Tensor{dh, dcell, cell, dlast}, []*op.Tensor{gates, dgates})
	dbias := (*op.Tensor)(nil)
	if c.Bool("hasBias") {
		dbias = c.Tensor("gradBiasOut")
		gateBias(c, dbias, last)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if last.Len() == 0 {
			return op.ZeroAll(dbias)
		}
		return recurrentkernel.LSTMCellGrad(dgates.View(), dlast.View(), op.OptionalView(dbias), op.OptionalView(dh), op.OptionalView(dcell), last.View(), cell.View(), gates.View())
	}, nil
}
