package optest

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/goascend/cann/internal/emu/op"
)

// pytorchLimit returns how far a result may be from PyTorch's, relative to the larger of the element and the root mean square:
// eight distances of the numbers of the call's coarsest type, and sixteen of float32, in which operators compute what cancels.
func pytorchLimit(call recorded) float64 { return 8*coarsest(call) + 0x1p-19 }

// PyTorchCall is a call with what PyTorch computes for each of its results, by C name: float64 in little endian.
type PyTorchCall struct {
	AcceptedCall
	Wants map[string][]byte
}

// Compare computes the call and compares its results with PyTorch's.
func (c PyTorchCall) Compare() error {
	o := op.Find(c.Operator)
	if o == nil || Tested[c.Operator] == nil {
		return fmt.Errorf("aclnn%s is not implemented", c.Operator)
	}
	call, err := c.of(o)
	if err != nil {
		return err
	}
	out, err := call.play(start{fill: 0xa5})
	if err != nil {
		return err
	}
	compared := 0
	for i, p := range o.Params {
		wants, ok := c.Wants[p.Name]
		if !ok {
			continue
		}
		compared++
		want := make([]complex128, len(wants)/8)
		for k := range want {
			want[k] = complex(math.Float64frombits(binary.LittleEndian.Uint64(wants[8*k:])), 0)
		}
		d := call.tensors(i)[0].DType
		check := comparison{to: d, got: d, want: d, limit: pytorchLimit(call)}
		if err := check.check(out[i][0], want); err != nil {
			return fmt.Errorf("%s differs from PyTorch's: %w", p.Name, err)
		}
	}
	if compared != len(c.Wants) {
		return fmt.Errorf("%d of %v are parameters of aclnn%s", compared, slices.Sorted(maps.Keys(c.Wants)), c.Operator)
	}
	return nil
}

// ReadPyTorchCalls reads a compressed file with a call on each line.
func ReadPyTorchCalls(file string) (calls []PyTorchCall, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	lines := json.NewDecoder(bufio.NewReader(z))
	for {
		var c PyTorchCall
		switch err := lines.Decode(&c); err {
		case nil:
			calls = append(calls, c)
		case io.EOF:
			return calls, nil
		default:
			return nil, fmt.Errorf("%s: call %d: %w", file, len(calls), err)
		}
	}
}
