package optest

import (
	"encoding/json"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// surveyOf returns the survey of an implementation of aclnnAbs.
func surveyOf(t *testing.T, prepare op.Prepare) *Survey {
	t.Helper()
	before := Tested
	t.Cleanup(func() { Tested = before })
	Tested = op.Table{"Abs": prepare}
	s := NewSurvey(op.Find("Abs"))
	fresh, err := s.Add(AcceptedCall{Operator: "Abs", Args: recordedArgs{
		"self": json.RawMessage(`{"DType":0,"Shape":[2,3],"Format":2,"Values":[-1.5,0.25,2]}`),
		"out":  json.RawMessage(`{"DType":0,"Shape":[2,3],"Format":2}`),
	}})
	require.NoError(t, err)
	require.True(t, fresh)
	return s
}

// copying is phase two of an operator that copies self to out.
func copying(c *op.Call, change func(self, out *op.Tensor) error) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	return func(*op.Exec) error {
		if err := change(self, out); err != nil {
			return err
		}
		return elementwise.Copy(out.View(), self.View())
	}, c.Err()
}

func TestSurvey(t *testing.T) {
	halves := []dtype.Type{dtype.Float32, dtype.Float16, dtype.Int8}
	checked := func(c *op.Call) {
		for _, name := range []string{"self", "out"} {
			c.DType(c.Tensor(name), halves...)
		}
	}
	right := surveyOf(t, func(c *op.Call) (op.Run, error) {
		checked(c)
		return copying(c, func(self, out *op.Tensor) error { return nil })
	})
	assert.Empty(t, right.Wrong())
	assert.Equal(t, "self,out float32 float16 int8", right.String())

	lax := surveyOf(t, func(c *op.Call) (op.Run, error) {
		return copying(c, func(self, out *op.Tensor) error { return nil })
	})
	assert.NotContains(t, lax.String(), "float4_e2m1")
	assert.Contains(t, lax.Wrong()[0], "accepts")

	wrong := surveyOf(t, func(c *op.Call) (op.Run, error) {
		checked(c)
		return copying(c, func(self, out *op.Tensor) error {
			if self.DType == dtype.Float16 {
				return elementwise.Zero(self.View())
			}
			return nil
		})
	})
	assert.Equal(t, "self,out float32 int8", wrong.String())
	require.NotEmpty(t, wrong.Wrong())
	assert.Contains(t, wrong.Wrong()[0], "aclnnAbs accepts self")

	unread := surveyOf(t, func(c *op.Call) (op.Run, error) {
		out := c.Tensor("out")
		checked(c)
		return func(*op.Exec) error { return elementwise.Fill(out.View(), elementwise.Whole(1)) }, c.Err()
	})
	assert.Equal(t, "out float32 float16 int8", unread.String(), "the types of a tensor that is not read mean nothing")
}

func TestCodes(t *testing.T) {
	for d, values := range map[dtype.Type][]float64{
		dtype.Int4: {-8, -1, 0, 7}, dtype.Uint1: {0, 1}, dtype.Float4E2M1: {-6, -.5, 0, 1.5, 4}, dtype.Float4E1M2: {-1.75, .25, 1},
		dtype.Float6E3M2: {-28, .0625, 1.25}, dtype.Float6E2M3: {-7.5, .125, 1.125}, dtype.HiFloat8: {-1.125, .75, 5, 16, 0x1p15, 0x1p-22, 0},
		dtype.Float8E4M3: {448, -.5}, dtype.Float8E5M2: {57344, -.25}, dtype.Float8E8M0: {1, .5, 0x1p127}, dtype.Complex32: {-1.5},
	} {
		for _, v := range values {
			assert.Equal(t, v, rounded(d, v), "%v", d)
		}
	}
	assert.Equal(t, 1.0, rounded(dtype.Uint1, 3))
	assert.Equal(t, 7.0, rounded(dtype.Int4, 100))
}

// A shorter call that shows fewer types does not displace a recorded one: here copies of rows take float16, and copies of
// single elements float32 alone.
func TestRecorderKeepsWhatShowedMore(t *testing.T) {
	before := Tested
	t.Cleanup(func() { Tested = before })
	Tested = op.Table{"Abs": func(c *op.Call) (op.Run, error) {
		types := []dtype.Type{dtype.Float32, dtype.Float16}
		if c.Tensor("self").Len() < 3 {
			types = types[:1]
		}
		c.DType(c.Tensor("self"), types...)
		c.DType(c.Tensor("out"), types...)
		return copying(c, func(self, out *op.Tensor) error { return nil })
	}}
	call := func(sizes, values string) AcceptedCall {
		return AcceptedCall{Operator: "Abs", Args: recordedArgs{
			"self": json.RawMessage(`{"DType":0,"Shape":[` + sizes + `],"Format":2,"Values":[` + values + `]}`),
			"out":  json.RawMessage(`{"DType":0,"Shape":[` + sizes + `],"Format":2}`),
		}}
	}
	file := filepath.Join(t.TempDir(), "testdata", "calls.jsonl")
	for _, a := range []AcceptedCall{call("2,3", "-1.5,0.25,2"), call("2", "-1.5,2")} {
		var r recorder
		r.add(a, "float32")
		require.NoError(t, r.write(file, io.Discard))
	}
	kept, err := ReadCalls(file)
	require.NoError(t, err)
	s := NewSurvey(op.Find("Abs"))
	for _, a := range kept["Abs"] {
		_, err := s.Add(a)
		require.NoError(t, err)
	}
	assert.Equal(t, "self,out float32 float16", s.String())
}
