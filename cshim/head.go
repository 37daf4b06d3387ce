package cshim

// The numbers of arguments that a launch can hold. Two words are kept for the results of phase
// one.
const (
	maxParams = 64
	maxFloats = 8
	maxWords  = maxParams - 2
)

// head is the part of a launch that C reads and writes. It has the fields of C's struct
// cann_launch.
type head struct {
	prepare, execute uint64 // the two phases
	context, stream  uint64
	workspace, size  uint64
	words, records   uint32
	word             [maxParams]uint64
	floats           [maxFloats]float64
	objects          uint32
	code             int32
	stage            int32
	kind             [maxParams]uint8
	object           [maxParams]uint64
	executor         uint64
	need             uint64 // bytes of workspace that phase one asked for
	message          uint64
}

// Stages at which C returns, as in enum cann_stage.
const (
	stageDone = iota
	stageBind
	stageBuild
	stagePrepare
	stageExecute
	stageWorkspace
)
