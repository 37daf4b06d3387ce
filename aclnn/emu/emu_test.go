//go:build emu && linux && cgo && (amd64 || arm64)

package emu_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/emu"
)

// everythingParams has a parameter of each class, and more of each kind than there are registers.
type everythingParams struct {
	X, Y, Absent                *aclnn.Tensor
	A                           float64
	List                        []*aclnn.Tensor
	B                           float32
	One                         aclnn.Scalar
	Many                        []aclnn.Scalar
	C                           float64
	Ints                        []int64
	Floats                      []float32
	Bools                       []bool
	D, E, F                     float64
	Text                        string
	Yes, No                     bool
	G, H                        float32
	Small                       int8
	Large                       int64
	Type                        aclnn.DType
	Address                     unsafe.Pointer
	I0, I1, I2, I3, I4, I5, End int32
	Out                         *aclnn.Tensor
}

var everything = aclnn.Operator{
	Symbol: "aclnnTestEverything", Library: "libcust_opapi", Since: "custom",
	Params: "x y absent a list b one many c ints floats bools d e f text yes no g h small large type address i0 i1 i2 i3 i4 i5 end out",
	Slots:  "iii-i-hh-hhh-------------------o",
}

func (p *everythingParams) Operator() *aclnn.Operator { return &everything }

func (p *everythingParams) Encode(c *aclnn.Call) {
	c.Tensor(p.X)
	c.Tensor(p.Y)
	c.Tensor(p.Absent)
	c.Float64(p.A)
	c.Tensors(p.List)
	c.Float32(p.B)
	c.Scalar(p.One)
	c.Scalars(p.Many)
	c.Float64(p.C)
	c.Ints(p.Ints)
	c.Floats(p.Floats)
	c.Bools(p.Bools)
	c.Float64(p.D)
	c.Float64(p.E)
	c.Float64(p.F)
	c.Str(p.Text)
	c.Bool(p.Yes)
	c.Bool(p.No)
	c.Float32(p.G)
	c.Float32(p.H)
	c.Int64(int64(p.Small))
	c.Int64(p.Large)
	c.Int64(int64(p.Type))
	c.Pointer(p.Address)
	for _, v := range []int32{p.I0, p.I1, p.I2, p.I3, p.I4, p.I5, p.End} {
		c.Int64(int64(v))
	}
	c.Tensor(p.Out)
}

// doParams are those of an operator that does what the test says.
type doParams struct{ X, Out *aclnn.Tensor }

var do = aclnn.Operator{Symbol: "aclnnTestDo", Library: "libcust_opapi", Since: "custom", Params: "x out", Slots: "io"}

func (p *doParams) Operator() *aclnn.Operator { return &do }

func (p *doParams) Encode(c *aclnn.Call) {
	c.Tensor(p.X)
	c.Tensor(p.Out)
}

// now is phase one of each operator at present.
var now struct {
	everything, do func(c *emu.Call) (emu.Run, error)
}

func init() {
	err := errors.Join(
		emu.Register(&everythingParams{}, func(c *emu.Call) (emu.Run, error) { return now.everything(c) }),
		emu.Register(&doParams{}, func(c *emu.Call) (emu.Run, error) { return now.do(c) }),
	)
	if err != nil {
		panic(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

func launch(st *acl.Stream, p aclnn.Params) error {
	c := aclnn.NewCall(st, p.Operator())
	p.Encode(c)
	return c.Launch()
}

func stream(t *testing.T) *acl.Stream {
	return acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
}

func tensor(t *testing.T, st *acl.Stream, values ...float32) *aclnn.Tensor {
	x, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, values, int64(len(values)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// double is the operator that doubles.
func double(c *emu.Call) (emu.Run, error) {
	x, out := c.Tensor("x"), c.Tensor("out")
	return func([]byte) error {
		values, err := emu.Load[float32](x)
		for i := range values {
			values[i] *= 2
		}
		return errors.Join(err, emu.Store(out, values))
	}, nil
}

// TestArguments: every argument arrives, whatever registers and stack it comes through.
func TestArguments(t *testing.T) {
	st := stream(t)
	x, y, out := tensor(t, st, 1), tensor(t, st, 2, 3), tensor(t, st, 0, 0, 0)
	var text string
	now.everything = func(c *emu.Call) (emu.Run, error) {
		one, ok := c.Scalar("one")
		text = fmt.Sprintln(c.Tensor("x").Shape(), c.Tensor("y").Shape(), c.Optional("absent") == nil, c.Float("a"), len(c.Tensors("list")), c.Tensors("list")[1].Shape(), c.Float("b"),
			one, ok, c.Scalars("many"), c.Float("c"), c.Ints("ints"), c.Floats("floats"), c.Bools("bools"), c.Float("d"), c.Float("e"), c.Float("f"), c.Text("text"),
			c.Bool("yes"), c.Bool("no"), c.Float("g"), c.Float("h"), c.Int("small"), c.Int("large"), aclnn.DType(c.Int("type")), c.Int("address"),
			c.Int("i0"), c.Int("i1"), c.Int("i2"), c.Int("i3"), c.Int("i4"), c.Int("i5"), c.Int("end"), c.Tensor("out").Shape())
		return func([]byte) error { return nil }, nil
	}
	require.NoError(t, launch(st, &everythingParams{
		X: x, Y: y, A: 1.5, List: []*aclnn.Tensor{x, y}, B: 2.5, One: aclnn.Float(3.5), Many: []aclnn.Scalar{aclnn.Float(4), aclnn.Float(5)}, C: -6.5,
		Ints: []int64{7, -8}, Floats: []float32{9.5}, Bools: []bool{true, false}, D: 10, E: 11, F: 12, Text: "words", Yes: true, G: 13.5, H: 14.5,
		Small: -15, Large: 1 << 40, Type: aclnn.BFloat16, I0: 1, I1: 2, I2: 3, I3: 4, I4: 5, I5: -6, End: 99, Out: out,
	}))
	require.Equal(t, "[1] [2] true 1.5 2 [2] 2.5 3.5 true [4 5] -6.5 [7 -8] [9.5] [true false] 10 11 12 words true false 13.5 14.5 -15 1099511627776 bfloat16 0 1 2 3 4 5 -6 99 [3]\n", text)
}

// TestTensors: views with strides and offsets are read and written in their order.
func TestTensors(t *testing.T) {
	st := stream(t)
	x, err := tensor(t, st, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), error(nil)
	whole := x.Reshape(3, 4)
	out, err := aclnn.New(st, aclnn.Float32, 5, 2, 2)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	part := whole.Narrow(0, 1, 2).Narrow(1, 1, 2).Transpose(0, 1)
	now.do = func(c *emu.Call) (emu.Run, error) {
		x, out := c.Tensor("x"), c.Tensor("out")
		if x.DType() != aclnn.Float32 || x.Format() != aclnn.ND || fmt.Sprint(x.Strides(), x.Len(), x.Storage()) != "[1 4] 4 [12]" || x.Bytes() != nil {
			return nil, fmt.Errorf("%v %v %v %v", x, x.Strides(), x.Len(), x.Storage())
		}
		if _, err := emu.Load[float32](x); err == nil {
			return nil, errors.New("phase one has no memory")
		}
		return func([]byte) error {
			values, err := emu.Load[float32](x)
			if err != nil {
				return err
			}
			if fmt.Sprint(values) != "[5 9 6 10]" || len(x.Bytes()) != 4*6 {
				return fmt.Errorf("%v, %d bytes", values, len(x.Bytes()))
			}
			if _, err := emu.Load[uint16](x); err == nil || emu.Store(out, values[:3]) == nil {
				return errors.New("wrong sizes are refused")
			}
			return emu.Store(out, values)
		}, nil
	}
	require.NoError(t, launch(st, &doParams{part, out.Narrow(0, 3, 1).Reshape(2, 2)}))
	got, err := aclnn.ToSlice[float32](t.Context(), st, out.Narrow(0, 3, 1))
	require.NoError(t, err)
	require.Equal(t, []float32{5, 9, 6, 10}, got)
}

// TestRefusals: what phase one returns becomes a code of aclnn.
func TestRefusals(t *testing.T) {
	st := stream(t)
	x := tensor(t, st, 1)
	for code, one := range map[acl.Code]func(c *emu.Call) (emu.Run, error){
		161001: func(c *emu.Call) (emu.Run, error) { c.Tensor("out"); return double(c) },
		161002: func(c *emu.Call) (emu.Run, error) { return nil, fmt.Errorf("%v is odd", c.Tensor("x")) },
		561002: func(c *emu.Call) (emu.Run, error) {
			return nil, fmt.Errorf("tiling: %w", &emu.Error{Code: 561002, Text: "too large"})
		},
		561000: func(c *emu.Call) (emu.Run, error) { c.Int("none"); return nil, nil },
	} {
		now.do = one
		p := &doParams{X: x, Out: x}
		if code == 161001 {
			p.Out = nil
		}
		var e *acl.Error
		require.ErrorAs(t, launch(st, p), &e)
		require.Equal(t, code, e.Code, e)
		require.Equal(t, "aclnnTestDoGetWorkspaceSize", e.Op)
	}
	now.do = func(*emu.Call) (emu.Run, error) { return nil, nil }
	require.ErrorContains(t, launch(st, &doParams{x, x}), "neither a Run nor an error")
	require.Empty(t, st.Recent())
}

// TestFailedRun: an error of phase two is a fault of the stream, which the next wait returns and which names
// the operator.
func TestFailedRun(t *testing.T) {
	st := stream(t)
	x := tensor(t, st, 1)
	for _, c := range []struct {
		code acl.Code
		run  emu.Run
	}{
		{507035, func([]byte) error { return errors.New("index outside") }},
		{507014, func([]byte) error { return fmt.Errorf("step 3: %w", &emu.Error{Code: 507014, Text: "too slow"}) }},
		{507035, func([]byte) error { panic("a bug") }},
	} {
		now.do = func(*emu.Call) (emu.Run, error) { return c.run, nil }
		require.NoError(t, launch(st, &doParams{x, x}))
		var e *acl.Error
		require.ErrorAs(t, st.Synchronize(t.Context()), &e)
		require.Equal(t, c.code, e.Code)
		require.Equal(t, "aclnnTestDo", e.Suspects[0])
		require.NoError(t, st.Synchronize(t.Context()), "returned once")
	}
}

// TestInjectedFault: rules of CANN_EMU_FAULTS know the operator.
func TestInjectedFault(t *testing.T) {
	acltest.Faults(t, "run/aclnnTestDo:2=507015;aclnnTestDoGetWorkspaceSize:3=161002", func(t *testing.T) {
		st := stream(t)
		x := tensor(t, st, 1)
		now.do = double
		require.NoError(t, launch(st, &doParams{x, x}))
		require.NoError(t, st.Synchronize(t.Context()))
		require.NoError(t, launch(st, &doParams{x, x}))
		require.ErrorIs(t, st.Synchronize(t.Context()), acl.ErrKernel)
		require.ErrorIs(t, launch(st, &doParams{x, x}), acl.ErrInvalidArgument)
	})
}

// TestWorkspace: a Run has the workspace that phase one asked for.
func TestWorkspace(t *testing.T) {
	st := stream(t)
	x, out := tensor(t, st, 3), tensor(t, st, 0)
	for _, n := range []int{100, 5000, 1} {
		now.do = func(c *emu.Call) (emu.Run, error) {
			c.Workspace(n)
			out := c.Tensor("out")
			return func(workspace []byte) error {
				for i := range workspace {
					workspace[i] = 1
				}
				return emu.Store(out, []float32{float32(len(workspace))})
			}, nil
		}
		require.NoError(t, launch(st, &doParams{x, out}))
		got, err := aclnn.ToSlice[float32](t.Context(), st, out)
		require.NoError(t, err)
		require.Equal(t, []float32{float32(n)}, got)
	}
}

// TestRepeated: a prepared operator and a graph run it again and again.
func TestRepeated(t *testing.T) {
	st := stream(t)
	now.do = double
	x := tensor(t, st, 1, 2)
	ex, err := aclnn.Prepare(st, &doParams{x, x})
	require.NoError(t, err)
	require.NoError(t, ex.Run())
	require.NoError(t, ex.Run())
	require.NoError(t, ex.Close())
	g, err := st.Capture(t.Context(), acl.CaptureThreadLocal, func() error { return launch(st, &doParams{x, x}) })
	require.NoError(t, err)
	require.NoError(t, g.Replay(st))
	require.NoError(t, g.Replay(st))
	got, err := aclnn.ToSlice[float32](t.Context(), st, x)
	require.NoError(t, err)
	require.Equal(t, []float32{16, 32}, got)
	require.NoError(t, g.Close())
}

// TestConcurrency: many goroutines launch an operator on their streams.
func TestConcurrency(t *testing.T) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	now.do = double
	var all sync.WaitGroup
	for i := range 8 {
		st := acltest.Stream(t, dev)
		x, out := tensor(t, st, float32(i)), tensor(t, st, 0)
		all.Go(func() {
			for range 30 {
				assert.NoError(t, launch(st, &doParams{x, out}))
				got, err := aclnn.ToSlice[float32](t.Context(), st, out)
				assert.NoError(t, err)
				assert.Equal(t, []float32{2 * float32(i)}, got)
			}
		})
	}
	all.Wait()
}

// otherParams are those of an operator that a test names.
type otherParams struct {
	op *aclnn.Operator
	X  *aclnn.Tensor
}

func (p *otherParams) Operator() *aclnn.Operator { return p.op }
func (p *otherParams) Encode(c *aclnn.Call)      { c.Tensor(p.X) }

// TestRegister: what cannot be an operator of a custom package is refused, with the reason.
func TestRegister(t *testing.T) {
	named := func(symbol, params, slots string) *otherParams {
		return &otherParams{op: &aclnn.Operator{Symbol: symbol, Params: params, Slots: slots}}
	}
	for reason, p := range map[string]aclnn.Params{
		"is no pointer":         nil,
		"no operator":           &otherParams{},
		"does not fit":          named("aclnnTestOther", "x", "i"),
		"no parameter of C":     named("aclnnTestOther", "op x", "-i"),
		"registered already":    &doParams{},
		"CANN has an operator":  &aclnn.AddParams{},
		"is no pointer to the ": (*doParams)(nil),
	} {
		err := emu.Register(p, double)
		require.ErrorIs(t, err, acl.ErrInvalidArgument, reason)
		require.ErrorContains(t, err, reason)
	}
	require.ErrorContains(t, emu.Register(&doParams{}, nil), "phase one is nil")
}
