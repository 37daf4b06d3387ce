package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/safetensors"
)

// processor is how long this process has computed.
func processor(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestManyTensors: the time of a header grows with the number of its tensors, and not with the square of it.
func TestManyTensors(t *testing.T) {
	file := func(n int) []byte {
		var header strings.Builder
		header.WriteString("{")
		for i := range n {
			if i > 0 {
				header.WriteString(",")
			}
			fmt.Fprintf(&header, `"model.layers.%d.weight":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}`, i, 4*i, 4*i+4)
		}
		header.WriteString("}")
		file := binary.LittleEndian.AppendUint64(nil, uint64(header.Len()))
		return append(append(file, header.String()...), make([]byte, 4*n)...)
	}
	open := func(file []byte, times int) time.Duration {
		began := processor(t)
		for range times {
			f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)))
			require.NoError(t, err)
			require.NotEmpty(t, f.Names())
		}
		return processor(t) - began
	}
	small, large := file(1_200), file(120_000)
	least := open(small, 100)
	most := open(large, 1)
	t.Logf("%v for 100 files of 1,200 tensors, %v for one of 120,000", least, most)
	require.Less(t, most, 6*least)
}
