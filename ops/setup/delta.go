package setup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/ops"
)

// DeltaStack is the software that runs gated delta nets in a training job.
type DeltaStack int

const (
	DeltaOps          DeltaStack = iota // the operators of package ops
	DeltaMegatron                       // Megatron-core's own layer
	DeltaWrapped                        // Hugging Face's layer in Megatron, always for qwen3_next
	DeltaTransformers                   // Hugging Face's layer in transformers, FSDP, and Ulysses
)

// Delta describes how a job runs gated delta nets. Programs that start jobs check it before
// they occupy a device, because most unsupported setups fail late or silently compute wrong
// numbers.
type Delta struct {
	Stack                  DeltaStack
	KeyHeads, ValueHeads   int
	Parallel               ops.Parallel
	Megatron, MindSpeed    string // versions, such as "0.16.0" and "core_r0.16.0"; "" is unknown
	FLA                    bool   // flash-linear-attention is installed
	FlashAttention         bool   // the attention layers use it
	Packed                 bool   // several sequences share a row
	PaddingFree            bool   // each row is one sequence without padding
	PaddingMask            bool   // the two-dimensional mask of valid tokens reaches the layer
	Positions              bool   // the batch has position ids
	Deterministic          bool   // results must be bit-identical on repetition
	Inference, Cache       bool   // no gradients; decoding continues from a state
	RingRanks              int    // ranks of ring attention besides Ulysses
	Exchange               bool   // the all-to-all helpers of Megatron 0.18 and later are present
	Experts, SequenceSplit bool   // the model has experts; tensor parallelism splits the sequence between layers
	SoC                    string // aclrtGetSocName
	ChunkOperator          bool   // CANN's own aclnnChunkGatedDeltaRule is to be used
}

// deltaCapability is one entry of the table of rules. Advice marks a rule that the software itself
// follows, or that only costs speed.
type deltaCapability struct {
	rule           string
	advice         bool
	applies        func(s *Delta) bool
	reason, remedy string
}

// deltaCapabilities is the table, in the order of the rules' names.
var deltaCapabilities = []deltaCapability{
	{"C1", false, func(s *Delta) bool { return s.Stack == DeltaMegatron && !versionFrom(s.Megatron, 0, 16) },
		"Megatron-core has the gated delta net from 0.16 on", "upgrade it, or set USE_MCORE_GDN=0"},
	{"C2", false, func(s *Delta) bool { return s.Stack == DeltaMegatron && !versionFrom(s.MindSpeed, 0, 16) },
		"MindSpeed adapts it to the NPU from core_r0.16.0 on", "upgrade it, or set USE_MCORE_GDN=0"},
	{"C3", false, func(s *Delta) bool { return s.Stack == DeltaWrapped && s.Packed },
		"packed sequences would see each other's state", "train without packing, padding-free if you like, or use Megatron-core's layer with flash-linear-attention"},
	{"C4", false, func(s *Delta) bool { return s.Stack == DeltaWrapped && s.Parallel.Context > 1 },
		"a rank's part of the sequence gets neither the state nor the inputs before it", "set context parallelism to 1, or use Megatron-core's layer"},
	{"C5", true, func(s *Delta) bool { return s.Stack == DeltaWrapped && s.Parallel.Tensor > 1 },
		"every rank of tensor parallelism computes the whole layer", "use Megatron-core's layer to split it"},
	{"C6", false, func(s *Delta) bool {
		return s.Stack == DeltaWrapped && s.FlashAttention && !s.PaddingFree && !s.PaddingMask
	}, "the mask that flash attention gets hides no padding from the layer, and the fault shows later, elsewhere", "keep the two-dimensional attention mask, or train padding-free"},
	{"C7", false, func(s *Delta) bool { return s.Stack == DeltaMegatron && s.Packed && !s.FLA },
		"without flash-linear-attention the rule takes no packed sequences", "install flash-linear-attention 0.5.2 or later"},
	{"C8", false, func(s *Delta) bool { return s.Stack == DeltaMegatron && s.Packed && s.Deterministic },
		"the deterministic rule takes no packed sequences", "train without packing, or without determinism"},
	{"C9", false, func(s *Delta) bool { return s.Stack == DeltaMegatron && s.Inference },
		"Megatron-core's layer has no inference", "decode with transformers or package ops"},
	{"C10", false, func(s *Delta) bool {
		return s.Stack == DeltaMegatron && s.Parallel.Context > 1 && !s.Exchange && !versionFrom(s.Megatron, 0, 18)
	}, "the all-to-all helpers are missing, which Megatron-core has from 0.18 on", "use a MindSpeed that brings them"},
	{"C11", false, func(s *Delta) bool { return !s.headsDivide() },
		"every rank needs as many key heads and value heads as the others", "use a number of ranks that divides both"},
	{"C12", false, func(s *Delta) bool { return s.Stack == DeltaTransformers && s.RingRanks > 1 },
		"a ring hands on keys and values, and the layer has a state instead", "use a number of ranks that divides key and value heads"},
	{"C13", false, func(s *Delta) bool { return s.split() > 1 && s.Cache },
		"a state whose heads are on several ranks is for training and prefill only", "decode without sequence parallelism"},
	{"C14", false, func(s *Delta) bool { return s.Stack == DeltaTransformers && s.Packed && !s.FLA },
		"the kernels of transformers carry the state over the boundaries of sequences", "install flash-linear-attention 0.5.2 or later"},
	{"C15", false, func(s *Delta) bool { return s.Stack == DeltaTransformers && s.Packed && !s.Positions },
		"without positions the boundaries of packed sequences are unknown", "pass position ids, which begin at 0 with each sequence"},
	{"C16", false, func(s *Delta) bool { return s.Stack == DeltaTransformers && s.Packed && !s.FlashAttention },
		"the other attention layers take no packed sequences but with flash attention", "use flash attention"},
	{"C20", false, func(s *Delta) bool { return s.ChunkOperator && !s.Inference },
		"aclnnChunkGatedDeltaRule has no gradient", "use the operators of the custom package, or composites"},
	{"C23", true, func(s *Delta) bool {
		return s.Stack == DeltaMegatron && s.Packed && strings.HasPrefix(s.SoC, "Ascend950")
	}, "MindSpeed's gradients of packed sequences are wrong on this chip", "take one sequence after another, or flash-linear-attention"},
	{"C25", true, func(s *Delta) bool {
		return s.megatron() && s.Experts && s.Parallel.Tensor > 1 && !s.SequenceSplit
	}, "experts under tensor parallelism need the sequence split between layers, which Megatron switches on", "set sequence_parallel"},
}

func (s *Delta) megatron() bool { return s.Stack == DeltaMegatron || s.Stack == DeltaWrapped }

// split returns the number of ranks that share the heads of a sequence.
func (s *Delta) split() int { return max(s.Parallel.Sequence, 1) }

// headsDivide reports whether the heads can be divided among the ranks.
func (s *Delta) headsDivide() bool {
	ranks := s.split()
	switch s.Stack {
	case DeltaOps: // if there are fewer key heads than ranks of Ulysses, several ranks get the same one
		tensor := max(s.Parallel.Tensor, 1)
		keys, values := s.KeyHeads/tensor, s.ValueHeads/tensor
		return s.KeyHeads%tensor == 0 && s.ValueHeads%tensor == 0 &&
			values%ranks == 0 && (keys%ranks == 0 || keys > 0 && ranks%keys == 0)
	case DeltaMegatron:
		ranks = max(s.Parallel.Tensor, 1) * max(s.Parallel.Context, 1)
	case DeltaWrapped:
		return true
	}
	return s.KeyHeads%ranks == 0 && s.ValueHeads%ranks == 0
}

// Check returns nil if the setup works, or else joins a *ops.Refusal for each violated rule. advice
// holds violations that do not prevent the job from running.
func (s Delta) Check() (advice []*ops.Refusal, err error) {
	var refusals []error
	for _, c := range deltaCapabilities {
		if !c.applies(&s) {
			continue
		}
		r := &ops.Refusal{Rule: c.rule, Reason: c.reason, Remedy: c.remedy}
		if c.advice {
			advice = append(advice, r)
		} else {
			refusals = append(refusals, r)
		}
	}
	return advice, errors.Join(refusals...)
}

// versionFrom reports whether a version, such as 0.16.0 or core_r0.16.0, is at least major.minor.
// It returns false for an empty version and one that it cannot parse.
func versionFrom(version string, major, minor int) bool {
	var m, n int
	at := strings.IndexAny(version, "0123456789")
	if at < 0 {
		return false
	}
	if _, err := fmt.Sscanf(version[at:], "%d.%d", &m, &n); err != nil {
		return false
	}
	return m > major || m == major && n >= minor
}
