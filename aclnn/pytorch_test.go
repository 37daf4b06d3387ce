package aclnn_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

var updatePyTorch = flag.Bool("update-pytorch", false, "write the tables of "+pytorchFile)

const (
	pytorchFile = "docs/pytorch.md"
	pytorchMark = "<!-- The tables below come from the tests: go test -tags emu -run PyTorch ./aclnn -update-pytorch -->\n"
)

// translation is a row of docs/pytorch.md: a call of PyTorch and how it is said here. The source
// text of run, or of view, is what the document shows.
type translation struct {
	torch  string
	remark string
	run    func() error
	view   func() *aclnn.Tensor
	shape  []int64        // of the result
	got    **aclnn.Tensor // what run writes; nil is out
	want   []float64      // nil if it is random
}

// pytorch has the tensors of the rows: inputs by the names of the document, and outputs of each
// dtype in the shape of the row.
type pytorch struct {
	st *acl.Stream

	x, y, minus, v, w, b, ones, u, image, kernel, moment, square, step *aclnn.Tensor // float32
	mask                                                               *aclnn.Tensor // bool
	index, columns                                                     *aclnn.Tensor // int64
	none, noIndex                                                      *aclnn.Tensor // empty; float32, int64

	out, halves, bools, ints, places *aclnn.Tensor
	bits, stats, logProb, total      *aclnn.Tensor // further outputs, in shapes of their own
}

// section is a table of the document, and the function that has its rows.
type section struct {
	title, file, function string
	rows                  []translation
}

func (f *pytorch) sections() []section {
	return []section{
		{"Making and filling", "pytorch_elements_test.go", "making", f.making()},
		{"Element by element", "pytorch_elements_test.go", "pointwise", f.pointwise()},
		{"Activations", "pytorch_elements_test.go", "activations", f.activations()},
		{"Reductions and order", "pytorch_elements_test.go", "reductions", f.reductions()},
		{"Products", "pytorch_layers_test.go", "products", f.products()},
		{"Shapes", "pytorch_layers_test.go", "shapes", f.shapes()},
		{"Indexing", "pytorch_layers_test.go", "indexing", f.indexing()},
		{"Layers and losses", "pytorch_layers_test.go", "layers", f.layers()},
	}
}

// prepare makes the inputs anew, and outputs of a shape.
func (f *pytorch) prepare(t *testing.T, shape []int64) {
	fill := func(dst **aclnn.Tensor, dt aclnn.DType, shape []int64, values ...float64) {
		*dst = f.tensor(t, dt, shape, values)
	}
	fill(&f.x, aclnn.Float32, []int64{2, 3}, 1, 2, 3, 4, 5, 6)
	fill(&f.y, aclnn.Float32, []int64{2, 3}, 6, 5, 4, 3, 2, 1)
	fill(&f.minus, aclnn.Float32, []int64{2, 3}, -1, -2, -3, -4, -5, -6)
	fill(&f.v, aclnn.Float32, []int64{3}, 1, 2, 3)
	fill(&f.w, aclnn.Float32, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	fill(&f.b, aclnn.Float32, []int64{2}, 1, 2)
	fill(&f.ones, aclnn.Float32, []int64{3}, 1, 1, 1)
	fill(&f.u, aclnn.Float32, []int64{2, 2}, 10, 20, 30, 40)
	fill(&f.image, aclnn.Float32, []int64{1, 1, 3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	fill(&f.kernel, aclnn.Float32, []int64{1, 1, 2, 2}, 1, 0, 0, 1)
	fill(&f.moment, aclnn.Float32, []int64{2, 3}, 0, 0, 0, 0, 0, 0)
	fill(&f.square, aclnn.Float32, []int64{2, 3}, 0, 0, 0, 0, 0, 0)
	fill(&f.step, aclnn.Float32, []int64{1}, 0)
	fill(&f.mask, aclnn.Bool, []int64{2, 3}, 1, 0, 1, 0, 1, 0)
	fill(&f.index, aclnn.Int64, []int64{2}, 2, 0)
	fill(&f.columns, aclnn.Int64, []int64{2, 2}, 0, 2, 1, 0)
	fill(&f.none, aclnn.Float32, []int64{0})
	fill(&f.noIndex, aclnn.Int64, []int64{0})
	for dst, dt := range map[**aclnn.Tensor]aclnn.DType{
		&f.out: aclnn.Float32, &f.halves: aclnn.BFloat16, &f.bools: aclnn.Bool, &f.ints: aclnn.Int64, &f.places: aclnn.Int32,
	} {
		fill(dst, dt, shape)
	}
	fill(&f.bits, aclnn.Uint8, []int64{16})
	fill(&f.stats, aclnn.Float32, []int64{2, 1})
	fill(&f.logProb, aclnn.Float32, []int64{2, 3})
	fill(&f.total, aclnn.Float32, []int64{})
}

// tensor makes a tensor until the test ends. Without values its elements are undefined.
func (f *pytorch) tensor(t *testing.T, dt aclnn.DType, shape []int64, values []float64) *aclnn.Tensor {
	made, err := aclnn.New(f.st, dt, shape...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, made.Close()) })
	if len(values) > 0 {
		wide, err := aclnn.FromSlice(t.Context(), f.st, aclnn.Float64, values, shape...)
		require.NoError(t, err)
		require.NoError(t, aclnn.Cast(f.st, aclnn.CastParams{Self: wide, Dtype: dt, Out: made}))
		require.NoError(t, wide.Close())
	}
	return made
}

// values reads a tensor of any dtype and layout.
func (f *pytorch) values(t *testing.T, of *aclnn.Tensor) []float64 {
	wide := f.tensor(t, aclnn.Float64, of.Shape(), nil)
	require.NoError(t, aclnn.Cast(f.st, aclnn.CastParams{Self: of, Dtype: aclnn.Float64, Out: wide}))
	list, err := aclnn.ToSlice[float64](t.Context(), f.st, wide)
	require.NoError(t, err)
	return list
}

// TestPyTorch: every row of docs/pytorch.md computes what PyTorch computes.
func TestPyTorch(t *testing.T) {
	f := &pytorch{st: acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))}
	for _, section := range f.sections() {
		for _, r := range section.rows {
			t.Run(r.torch, func(t *testing.T) {
				f.prepare(t, r.shape)
				result := f.out
				if r.view != nil {
					result = r.view()
					require.Equal(t, r.shape, result.Shape())
				} else {
					require.NoError(t, r.run())
					if r.got != nil {
						result = *r.got
					}
				}
				got := f.values(t, result)
				if r.want == nil {
					assert.NotContains(t, got, math.NaN())
					assert.NotEqual(t, make([]float64, len(got)), got)
					return
				}
				assert.InDeltaSlice(t, r.want, got, 2e-3)
			})
		}
	}
}

// TestPyTorchDocument: the document has the rows that TestPyTorch runs.
func TestPyTorchDocument(t *testing.T) {
	old, err := os.ReadFile(pytorchFile)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(old), pytorchMark)
	require.True(t, found)
	var b strings.Builder
	b.WriteString(head + pytorchMark)
	for _, section := range new(pytorch).sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| PyTorch | here | |\n|---|---|---|\n", section.title)
		code := sources(t, section.file, section.function)
		require.Len(t, code, len(section.rows))
		for i, r := range section.rows {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", r.torch, code[i], r.remark)
		}
	}
	if *updatePyTorch {
		require.NoError(t, os.WriteFile(pytorchFile, []byte(b.String()), 0o644))
		return
	}
	require.Equal(t, b.String(), string(old), "run the command that the document names")
}

// sources are the texts of what the functions run and view of a table of this package return.
func sources(t *testing.T, file, function string) (list []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, 0)
	require.NoError(t, err)
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != function {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncLit)
			if !ok {
				return true
			}
			result := f.Body.List[0].(*ast.ReturnStmt).Results[0]
			code := string(text[set.Position(result.Pos()).Offset:set.Position(result.End()).Offset])
			list = append(list, strings.ReplaceAll(code, "f.", ""))
			return false
		})
	}
	require.NotEmpty(t, list, "%s has no %s", file, strconv.Quote(function))
	return list
}
