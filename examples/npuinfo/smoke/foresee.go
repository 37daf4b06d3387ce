package smoke

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Outlook predicts how a toolkit runs a call.
type Outlook string

// The outlooks of a call. CANN refuses a call without a kernel in phase one, with a code from 561000 on.
const (
	Ready   Outlook = "ready"   // there is a kernel for the AI Core
	AICPU   Outlook = "ai cpu"  // only the AI CPU, which is slow, has it
	Absent  Outlook = "absent"  // the toolkit has no configuration of the operator
	Refuses Outlook = "refused" // there are kernels, and none for these dtypes
	Unknown Outlook = "unknown" // it is not known which kernels the call needs
)

// Forecast is a call of a kernel of package ops that is not ready.
type Forecast struct {
	Kernel  string  `json:"kernel"` // "op|dtype|kernel"
	Call    string  `json:"call"`
	Outlook Outlook `json:"outlook"`
	Reason  string  `json:"reason"`
}

// Foresee returns the calls in needs that the toolkit does not run on the AI Core.
func (t *Toolkit) Foresee(needs Needs) (all []Forecast) {
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		for _, text := range needs[name] {
			c, _ := parseCall(text)
			if outlook, reason := t.Ask(c); outlook != Ready {
				all = append(all, Forecast{name, text, outlook, reason})
			}
		}
	}
	return all
}

// Ask returns what the toolkit will do with a call, and why.
func (t *Toolkit) Ask(c Call) (Outlook, string) {
	types := t.typesOf(c.Operator)
	if types == nil {
		return Unknown, "nothing is known of the kernels of aclnn" + c.Operator
	}
	if len(types) == 0 || len(c.Inputs) == 0 {
		return Ready, ""
	}
	if slices.Contains(widened, c.Operator) && strings.Contains(c.Inputs[0].DType, "float") {
		c.Inputs = append([]Input{{c.Inputs[0].Name, "float32"}}, c.Inputs[1:]...)
	}
	var known []string
	for _, name := range types {
		kernels, ok := t.operators[name]
		if !ok {
			continue
		}
		known = append(known, name)
		if slices.ContainsFunc(kernels, func(k kernel) bool { return k.takes(c) }) {
			return Ready, ""
		}
	}
	dt := c.Inputs[0].DType
	for _, name := range types {
		if inputs, ok := t.aicpu[name]; ok && len(inputs) > 0 && inputs[0].takes(dt) {
			return AICPU, fmt.Sprintf("%s of %s is on the AI CPU alone", name, dt)
		}
	}
	if known == nil {
		return Absent, "there is no configuration of " + strings.Join(types, " or ")
	}
	return Refuses, fmt.Sprintf("%s has no kernel for %s", strings.Join(known, " or "), c)
}

// widened are operators that convert floats to float32 before their kernels.
var widened = []string{"EmbeddingDenseBackward"}

// deciding names the input that has the dtype of a call, where it is not the first.
var deciding = map[string]string{"Fill": "value"}

// takes reports whether a kernel takes the inputs of a call: the first of them, and those floats that
// have the name of an input of the kernel. Operators convert integers as they need them.
func (k *kernel) takes(c Call) bool {
	matched := false
	for i, in := range c.Inputs {
		name := snake(in.Name)
		at := slices.IndexFunc(k.inputs, func(s slot) bool { return s.name == name })
		if at < 0 {
			continue
		}
		matched = matched || i == 0
		if (i == 0 || strings.Contains(in.DType, "float")) && !k.inputs[at].takes(in.DType) {
			return false
		}
	}
	first := max(0, slices.IndexFunc(k.inputs, func(s slot) bool { return s.name == deciding[k.operator] }))
	return matched || len(k.inputs) == 0 || k.inputs[first].takes(c.Inputs[0].DType)
}

// snake returns the name that CANN's configurations have for a parameter of aclnn.
func snake(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "Optional"), "Ref")
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// operatorTypes are the operators of CANN that aclnn's operators run, where the names differ. One of
// them must take the call; none at all says that the operator moves bytes or does nothing.
var operatorTypes = map[string][]string{
	"Adds": {"Add", "Adds"}, "Subs": {"Sub"}, "Muls": {"Mul", "Muls"}, "Divs": {"RealDiv", "Div"}, "Div": {"RealDiv", "Div"},
	"PowTensorScalar": {"Pow", "Pows", "Square"}, "PowScalarTensor": {"Pow"}, "Cast": {"Cast"}, "Copy": {"Cast", "ViewCopy", "TensorMove"},
	"Matmul": {"MatMulV3", "MatMulV2", "BatchMatMulV3", "BatchMatMulV2"}, "Mm": {"MatMulV3", "MatMulV2"}, "BatchMatMul": {"BatchMatMulV3", "BatchMatMulV2"},
	"Baddbmm": {"BatchMatMulV3", "BatchMatMulV2"}, "Addmm": {"MatMulV3", "MatMulV2"}, "Gemm": {"MatMulV3", "MatMulV2"},
	"Silu": {"Swish"}, "SiluBackward": {"SwishGrad", "SiluGrad"}, "Softplus": {"SoftplusV2"}, "SoftplusBackward": {"SoftplusV2Grad"},
	"SigmoidBackward": {"SigmoidGrad"}, "Softmax": {"SoftmaxV2"}, "SoftmaxBackward": {"SoftmaxGrad"}, "LogSoftmax": {"LogSoftmaxV2"},
	"LogSoftmaxBackward": {"LogSoftmaxGrad"}, "Embedding": {"GatherV2"}, "IndexSelect": {"GatherV2"}, "EmbeddingDenseBackward": {"EmbeddingDenseGradV2", "EmbeddingDenseGrad"},
	"Gather": {"GatherElementsV2", "GatherElements"}, "Scatter": {"ScatterElementsV2", "ScatterElements"}, "ScatterAdd": {"ScatterElementsV2", "ScatterElements", "ScatterAdd"},
	"ReduceSum": {"ReduceSum"}, "Mean": {"ReduceMean"}, "MeanV2": {"ReduceMean"}, "Amax": {"ReduceMax"}, "Amin": {"ReduceMin"}, "Max": {"ReduceMax"}, "Sum": {"ReduceSum"},
	"Topk": {"TopKV2", "TopKV3"}, "Permute": {"Transpose"}, "Cat": {"ConcatD"}, "Stack": {"Pack"}, "MaskedFillScalar": {"MaskedFill"}, "MaskedFillTensor": {"MaskedFill"},
	"SWhere": {"SelectV2"}, "Where": {"SelectV2"}, "NLLLoss": {"NLLLoss"}, "NLLLossBackward": {"NLLLossGrad"}, "FillScalar": {"Fill"}, "Zero": {"ZerosLike"}, "One": {"OnesLike"},
	"Arange": {"Range"}, "GtScalar": {"Greater"}, "GeScalar": {"GreaterEqual"}, "LtScalar": {"Less"}, "LeScalar": {"LessEqual"}, "EqScalar": {"Equal"}, "NeScalar": {"NotEqual"},
	"GtTensor": {"Greater"}, "GeTensor": {"GreaterEqual"}, "LtTensor": {"Less"}, "LeTensor": {"LessEqual"}, "EqTensor": {"Equal"}, "NeTensor": {"NotEqual"},
	"Clamp": {"ClipByValueV2"}, "ClampMin": {"Maximum", "ClipByValueV2"}, "ClampMax": {"Minimum", "ClipByValueV2"}, "ApplyAdamWV2": {"ApplyAdamWV2"},
	"ConstantPadNd": {"PadV3"}, "Repeat": {"Tile", "BroadcastTo"}, "Expand": {"BroadcastTo"}, "Flip": {"ReverseV2"}, "Norm": {"LpNormV2", "LpNormReduceV2", "SquareSumV1"},
	"FlashAttentionScoreV2": {"FlashAttentionScore"}, "FlashAttentionVarLenScore": {"FlashAttentionScore"}, "FlashAttentionVarLenScoreV2": {"FlashAttentionScore"},
	"FlashAttentionScoreGradV2": {"FlashAttentionScoreGrad"}, "FlashAttentionUnpaddingScoreGrad": {"FlashAttentionScoreGrad"},
	"FlashAttentionUnpaddingScoreGradV2": {"FlashAttentionScoreGrad"}, "LinalgVectorNorm": {"LpNormV2", "LpNormReduceV2", "SquareSumV1", "ReduceSum"},
	"GroupedMatmulWeightNz": {"GroupedMatmul"}, "MatmulWeightNz": {"MatMulV3", "MatMulV2"}, "MoeGatingTopKSoftmaxV2": {"MoeGatingTopKSoftmaxV2", "MoeGatingTopKSoftmax"},
	"NpuFormatCast": {"TransData", "NpuFormatCast"}, "TransMatmulWeight": {"TransData"}, "ForeachMulScalarV2": {"ForeachMulScalar"},
}

// typesOf returns the operators of CANN behind one of aclnn, nil if they are not known. An operator
// with the same name, but for a version, is taken for the right one.
func (t *Toolkit) typesOf(operator string) []string {
	name := strings.TrimPrefix(operator, "Inplace")
	if types, ok := operatorTypes[name]; ok {
		return types
	}
	bare := strings.TrimRight(name, "0123456789")
	bare = strings.TrimSuffix(bare, "V")
	for _, n := range []string{name, bare, strings.Replace(bare, "Backward", "Grad", 1)} {
		if _, ok := t.operators[n]; ok {
			return []string{n}
		}
		if _, ok := t.aicpu[n]; ok {
			return []string{n}
		}
	}
	return nil
}
