package main

// #include <stdlib.h>
import "C"

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"time"
	"unsafe"

	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
)

// task is a case: a product of [M,K] and [K,N], or attention of Heads × Rows × Dim with as many keys.
type task struct {
	Kind             string  // matmul, forward or backward
	Type             string  // float32 or bfloat16, and of a product also float16, int8 or int4
	M, N, K          int64   // of a product
	LeftTransposed   bool    // the left operand is [K,M]
	Transposed       bool    // the weight is [N,K], as it always is of int4, with a scale for 32 elements along K
	Heads, Rows, Dim int64   // of attention
	Causal           bool    // of attention
	Seconds          float64 // of a turn
}

var types = map[string]dtype.Type{"float32": dtype.Float32, "bfloat16": dtype.BFloat16, "float16": dtype.Float16, "int8": dtype.Int8}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	prepared := map[string]func() error{}
	for lines.Scan() {
		run, ok := prepared[lines.Text()]
		var t task
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			log.Fatal(err)
		}
		if !ok {
			run = t.prepare()
			prepared[lines.Text()] = run
		}
		best := math.Inf(1)
		for end := time.Now().Add(time.Duration(t.Seconds * 1e9)); best == math.Inf(1) || time.Now().Before(end); {
			begin := time.Now()
			if err := run(); err != nil {
				log.Fatal(err)
			}
			best = min(best, time.Since(begin).Seconds())
		}
		fmt.Println(best)
	}
}

// prepare makes the operands and returns the call that a turn repeats.
func (t task) prepare() func() error {
	d := types[t.Type]
	if t.Type == "int4" {
		packed, x, out := random(dtype.Int8, t.N, t.K/2), random(dtype.Float16, t.M, t.K), random(dtype.Float16, t.M, t.N)
		q := gemm.QuantWeight{Weight: packed, Packed: packed.Data, Group: 32, Scale: random(dtype.Float16, t.K/32, t.N)}
		q.Weight.Shape, q.Weight.Strides = []int64{t.K, t.N}, []int64{1, t.K}
		return func() error { return q.Product(out, x, kernel.View{}) }
	}
	if t.Kind == "matmul" {
		p := gemm.Product{A: random(d, t.M, t.K), B: random(d, t.K, t.N), Alpha: 1}
		if t.LeftTransposed {
			p.A.Strides = []int64{1, t.M}
		}
		if t.Transposed {
			p.B.Strides = []int64{1, t.K}
		}
		out := d
		if d == dtype.Int8 {
			out = dtype.Int32
		}
		p.Out = random(out, t.M, t.N)
		return func() error { return gemm.Gemm(p) }
	}
	some := func() kernel.View { return random(d, t.Heads, t.Rows, t.Dim) }
	stats := func() kernel.View { return random(dtype.Float32, t.Heads, t.Rows, attention.AttentionStatCopies) }
	a := attention.Attention{
		Query: some(), Key: some(), Value: some(), Out: some(), Max: stats(), Sum: stats(),
		Scale: float32(1 / math.Sqrt(float64(t.Dim))), First: -attention.Unlimited, Last: attention.Unlimited,
	}
	if t.Causal {
		a.Last = 0
	}
	items := []attention.Attention{a}
	if t.Kind == "forward" {
		return func() error { return attention.FlashAttention(items) }
	}
	if err := attention.FlashAttention(items); err != nil {
		log.Fatal(err)
	}
	n, err := attention.FlashAttentionGradWorkspace(items)
	if err != nil {
		log.Fatal(err)
	}
	grads, work := []attention.AttentionGrad{{OutGrad: some(), QueryGrad: some(), KeyGrad: some(), ValueGrad: some()}}, C.malloc(C.size_t(n))
	return func() error { return attention.FlashAttentionGrad(items, grads, work) }
}

// random returns a contiguous view of normally distributed numbers.
func random(d dtype.Type, shape ...int64) kernel.View {
	v := kernel.View{DType: d, Shape: shape, Strides: make([]int64, len(shape))}
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		v.Strides[i] = n
		n *= shape[i]
	}
	v.Data = C.aligned_alloc(64, C.size_t((n*int64(d.Size())+63)/64*64))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		switch x := float32(r.NormFloat64()); d {
		case dtype.BFloat16:
			unsafe.Slice((*half.BFloat16)(v.Data), n)[i] = half.BFloat16FromFloat32(x)
		case dtype.Float16:
			unsafe.Slice((*half.Float16)(v.Data), n)[i] = half.Float16FromFloat32(x)
		case dtype.Int8:
			unsafe.Slice((*int8)(v.Data), n)[i] = int8(32 * x)
		case dtype.Int32:
			unsafe.Slice((*int32)(v.Data), n)[i] = 0
		default:
			unsafe.Slice((*float32)(v.Data), n)[i] = x
		}
	}
	return v
}
