package simulate

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// Limit names the unit of the chip that bounds the time of a kernel.
type Limit string

// Limits of kernels.
const (
	Cube   Limit = "cube"
	Vector Limit = "vector"
	Memory Limit = "memory"
	AICPU  Limit = "AI CPU"
)

// Operations of the vector cores. They are assumed: no kernel's are public in a form that could be counted.
const (
	elementOperations  = 4 // for an element of the largest tensor of an operator
	scoreOperations    = 6 // for a pair of a query and a key, in the forward pass: scale, maximum, difference, exponential, sum, cast
	gradientOperations = 8 // in the backward pass
)

// work counts the operations of the cube and of the vector cores, and the bytes, of a launch.
type work struct {
	cube, vector, bytes float64
	dtype               string // of the factors of products
}

// seconds returns the time of a launch, and its limit.
func (c Chip) seconds(e *Entry) (float64, Limit, error) {
	w, err := workOf(e)
	if err != nil {
		return 0, "", err
	}
	if e.AICPU != "" {
		return w.bytes / c.AICPU, AICPU, nil
	}
	longest, limit := w.bytes/c.Memory, Memory
	if t := w.vector / c.Vector; t > longest {
		longest, limit = t, Vector
	}
	if w.cube > 0 {
		rate, ok := c.Cube[w.dtype]
		if !ok {
			return 0, "", fmt.Errorf("simulate: %s multiplies %s, for which %s has no rate (cube.%s)", e.Launch, w.dtype, c.Name, w.dtype)
		}
		if t := w.cube / rate; t > longest {
			longest, limit = t, Cube
		}
	}
	return longest, limit, nil
}

// products matches operators that the cube computes; those without a rule are refused.
var products = regexp.MustCompile(`(?i)matmul|addmm|baddbmm|addbmm|attention|convolution|gmm|^aclnn(Mm|Bmm|Addmv|Mv|Dot)$`)

// plain are products of two tensors with the same leading dimensions, some of which add a third tensor.
var plain = map[string]bool{
	"aclnnMatmul": true, "aclnnMatmulWeightNz": true, "aclnnMm": true, "aclnnBatchMatMul": true, "aclnnAddmm": true, "aclnnInplaceAddmm": true, "aclnnBaddbmm": true, "aclnnInplaceBaddbmm": true,
}

// combining are operators of attention without products.
var combining = map[string]bool{"aclnnRingAttentionUpdate": true, "aclnnRingAttentionUpdateV2": true, "aclnnAttentionUpdate": true}

// reading are operators that read of their first tensor only the rows that they write.
var reading = map[string]bool{"aclnnEmbedding": true, "aclnnIndexSelect": true, "aclnnGatherV2": true}

func workOf(e *Entry) (w work, err error) {
	largest := 0.0
	for i, t := range e.Tensors {
		bytes := t.Bytes
		if reading[e.Launch] && i == 0 {
			bytes = min(bytes, e.Tensors[len(e.Tensors)-1].Bytes)
		} else {
			largest = max(largest, elements(t))
		}
		if t.Use == "u" {
			bytes *= 2
		}
		w.bytes += bytes
	}
	w.vector = elementOperations * largest
	switch {
	case strings.HasPrefix(e.Launch, "aclnnFlashAttention"):
		err = w.attention(e)
	case strings.HasPrefix(e.Launch, "aclnnGroupedMatmul"):
		err = w.grouped(e)
	case plain[e.Launch]:
		err = w.product(e)
	case combining[e.Launch]:
	case products.MatchString(e.Launch):
		err = fmt.Errorf("simulate: %s computes products, and there is no rule for how many", e.Launch)
	}
	return w, err
}

// find returns the tensor of a name, or the first of a list.
func (e *Entry) find(names ...string) (*Tensor, error) {
	for _, name := range names {
		for i := range e.Tensors {
			if e.Tensors[i].Name == name || e.Tensors[i].Name == name+"[0]" {
				return &e.Tensors[i], nil
			}
		}
	}
	return nil, fmt.Errorf("simulate: %s has none of the tensors %s", e.Launch, strings.Join(names, ", "))
}

func elements(t Tensor) float64 {
	n := 1.0
	for _, d := range t.Shape {
		n *= float64(d)
	}
	return n
}

// factors sets the type of the factors of a product.
func (w *work) factors(e *Entry, t *Tensor) {
	w.vector = 0
	switch w.dtype = map[string]string{"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "int8": "int8"}[t.DType]; {
	case w.dtype == "":
		w.dtype = t.DType
	case w.dtype == "fp32" && e.number("cubeMathType") == 3:
		w.dtype = "hf32"
	}
}

func (e *Entry) number(name string) float64 {
	x, _ := e.Args[name].(float64)
	return x
}

// product counts those of [..., m, k] and [..., k, n].
func (w *work) product(e *Entry) error {
	a, err := e.find("mat1", "batch1", "self")
	if err != nil {
		return err
	}
	out, err := e.find("out", "selfRef")
	if err != nil {
		return err
	}
	if len(a.Shape) == 0 {
		return fmt.Errorf("simulate: %s multiplies a scalar", e.Launch)
	}
	w.factors(e, a)
	w.cube = 2 * elements(*out) * float64(a.Shape[len(a.Shape)-1])
	return nil
}

// grouped counts the products of groups of rows [m, k] with weights [groups, k, n], or with rows [m, n] for the gradients [groups, k, n] of
// weights. In both cases the sizes of the three tensors multiply to groups · (m·k·n)².
func (w *work) grouped(e *Entry) error {
	x, err := e.find("x")
	if err != nil {
		return err
	}
	weight, err := e.find("weight")
	if err != nil {
		return err
	}
	out, err := e.find("yRef", "out", "y")
	if err != nil {
		return err
	}
	groups := 1.0
	for _, t := range []*Tensor{weight, out} {
		if len(t.Shape) == 3 {
			groups = float64(t.Shape[0])
		}
	}
	if _, err := e.find("weight[1]"); err == nil {
		return fmt.Errorf("simulate: %s has a weight for each group, and the rule is for one tensor of all", e.Launch)
	}
	w.factors(e, x)
	w.cube = 2 * math.Sqrt(elements(*x)*elements(*weight)*elements(*out)/groups)
	return nil
}

// attention counts the pairs that the mask of a call leaves.
func (w *work) attention(e *Entry) error {
	q, err := e.find("query")
	if err != nil {
		return err
	}
	k, err := e.find("key", "keyIn")
	if err != nil {
		return err
	}
	v, err := e.find("value")
	if err != nil {
		return err
	}
	layout, _ := e.Args["inputLayout"].(string)
	heads := e.number("headNum")
	at := map[string][4]int{"BSND": {0, 1, 2, 3}, "BNSD": {0, 2, 1, 3}, "BSH": {0, 1, -1, 2}, "SBH": {1, 0, -1, 2}, "TND": {-1, 0, 1, 2}} // batch, length, heads, width
	places, known := at[layout]
	if !known || heads <= 0 {
		return fmt.Errorf("simulate: %s has the layout %q and %g heads; known are BSND, BNSD, BSH, SBH and TND", e.Launch, layout, heads)
	}
	batch := 1.0
	if places[0] >= 0 {
		batch = float64(q.Shape[places[0]])
	}
	width, valueWidth := float64(q.Shape[places[3]]), float64(v.Shape[places[3]])
	if places[2] < 0 {
		width /= heads
		valueWidth = width // key heads may be fewer, all of the same width
	}
	lengths := [][2]float64{{float64(q.Shape[places[1]]), float64(k.Shape[places[1]])}}
	if layout == "TND" {
		if lengths, err = e.packed(); err != nil {
			return err
		}
	}
	pairs := 0.0
	for _, l := range lengths {
		n, err := e.pairs(l[0], l[1])
		if err != nil {
			return err
		}
		pairs += n
	}
	pairs *= batch * heads
	w.factors(e, q)
	if strings.Contains(e.Launch, "Grad") {
		w.cube, w.vector = 2*pairs*(3*width+2*valueWidth), gradientOperations*pairs
	} else {
		w.cube, w.vector = 2*pairs*(width+valueWidth), scoreOperations*pairs
	}
	return nil
}

// packed returns the lengths of packed sequences of queries and keys.
func (e *Entry) packed() (lengths [][2]float64, err error) {
	ends := func(names ...string) (list []float64) {
		for _, name := range names {
			if all, ok := e.Args[name].([]any); ok {
				for _, x := range all {
					end, _ := x.(float64)
					list = append(list, end)
				}
				return list
			}
		}
		return nil
	}
	q, k := ends("actualSeqQLenOptional"), ends("actualSeqKvLenOptional")
	if len(q) == 0 || len(q) != len(k) {
		return nil, fmt.Errorf("simulate: %s has the ends of %d and %d sequences in actualSeqQLenOptional and actualSeqKvLenOptional", e.Launch, len(q), len(k))
	}
	var lastQ, lastK float64
	for i := range q {
		lengths = append(lengths, [2]float64{q[i] - lastQ, k[i] - lastK})
		lastQ, lastK = q[i], k[i]
	}
	return lengths, nil
}

// pairs returns how many pairs of so many queries and keys the sparse mode of a call computes.
func (e *Entry) pairs(q, k float64) (float64, error) {
	switch mode := e.number("sparseMode"); mode {
	case 0, 1: // a mask that the kernel does not know hides nothing from it
		return q * k, nil
	case 2: // a query sees the keys up to its own number
		return ahead(q, k, 0), nil
	case 3: // the last query sees all keys
		return ahead(q, k, k-q), nil
	case 4: // a band, whose middle goes through the last query and the last key
		return ahead(q, k, k-q+e.number("nextTokens")) - ahead(q, k, k-q-e.number("preTokens")-1), nil
	default:
		return 0, fmt.Errorf("simulate: %s has the sparse mode %g, for which there is no rule", e.Launch, mode)
	}
}

// ahead returns how many of the pairs of q queries and k keys have a key at most n positions ahead of the query.
func ahead(q, k, n float64) float64 {
	upTo := func(keys float64) float64 { // the sum over all rows that see so many keys at most, each of which sees one more than the one before it
		in := min(max(keys, 0), k)
		return in*(in+1)/2 + max(keys-k, 0)*k
	}
	return upTo(n+q) - upTo(n)
}
