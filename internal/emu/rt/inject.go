package rt

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// Faults are the failures that CANN_EMU_FAULTS asks for: rules separated by semicolons,
//
//	aclrtMalloc:3=207001          the third call fails with that code
//	aclnnAdd@1:2+=561000          on device 1, the second launch and all after it
//	run/aclnnMul:5%=507015        each execution fails with probability 5 %
//	aclrtMemcpy=507899            every call
//	dcmi_get_device_power_info=-8255   every call of the driver
//
// A name is that of a C function; phase one of an operator has its own, …GetWorkspaceSize.
// The prefix run/ lets the work itself fail on its stream, as the device reports it later.
// Probabilities are drawn from CANN_EMU_FAULT_SEED, in the order of the calls.
type Faults struct {
	rules map[string][]*rule

	mu     sync.Mutex
	random *rand.Rand
}

// rule is one failure rule. A rule with a count applies to one call, or to that call and all later
// ones.
type rule struct {
	device      int // -1 for any
	first       uint64
	all         bool
	probability float64 // 0 for a rule that counts calls
	code        int32

	calls uint64 // guarded by Faults.mu
}

// ParseFaults parses rules. The empty text gives nil, which never makes a call fail.
func ParseFaults(text string, seed uint64) (*Faults, error) {
	f := &Faults{rules: make(map[string][]*rule), random: rand.New(rand.NewPCG(seed, 0))}
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, r, err := parseRule(part)
		if err != nil {
			return nil, fmt.Errorf("CANN_EMU_FAULTS: %q: %w", part, err)
		}
		f.rules[name] = append(f.rules[name], r)
	}
	if len(f.rules) == 0 {
		return nil, nil
	}
	return f, nil
}

func parseRule(text string) (name string, r *rule, err error) {
	r = &rule{device: -1, first: 1, all: true}
	name, code, ok := strings.Cut(text, "=")
	n, err := strconv.ParseInt(code, 10, 32)
	driver := strings.HasPrefix(name, "dcmi_")
	if !ok || err != nil || n == 0 || (n < 0) != driver {
		return "", nil, fmt.Errorf("a rule ends with = and a code, such as =207001, or =-8255 of the driver")
	}
	r.code = int32(n)
	name, when, counted := strings.Cut(name, ":")
	if counted {
		if err := r.parseWhen(when); err != nil {
			return "", nil, err
		}
	}
	name, device, placed := strings.Cut(name, "@")
	if placed {
		if driver {
			return "", nil, fmt.Errorf("calls of the driver belong to no device; leave out @%s", device)
		}
		if r.device, err = strconv.Atoi(device); err != nil || r.device < 0 {
			return "", nil, fmt.Errorf("%q is no device", device)
		}
	}
	if !driver && !strings.HasPrefix(strings.TrimPrefix(name, "run/"), "acl") && !strings.HasPrefix(strings.TrimPrefix(name, "run/"), "Hccl") {
		return "", nil, fmt.Errorf("%q is no function of CANN", name)
	}
	return name, r, nil
}

func (r *rule) parseWhen(text string) (err error) {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		r.probability, err = strconv.ParseFloat(percent, 64)
		if r.probability /= 100; err != nil || !(r.probability > 0 && r.probability <= 1) {
			return fmt.Errorf("%q is no probability", text)
		}
		return nil
	}
	number, on := strings.CutSuffix(text, "+")
	r.all = on
	if r.first, err = strconv.ParseUint(number, 10, 64); err != nil || r.first == 0 {
		return fmt.Errorf("%q is no number of a call; the first is 1", text)
	}
	return nil
}

// Check returns an error for the first rule whose name the caller refuses.
func (f *Faults) Check(refuse func(name string) error) error {
	if f == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.rules)) {
		if err := refuse(name); err != nil {
			return fmt.Errorf("CANN_EMU_FAULTS: %q: %w", name, err)
		}
	}
	return nil
}

// hit counts a call and returns the code with which it must fail, or 0.
func (f *Faults) hit(name string, device int) int32 {
	if f == nil {
		return 0
	}
	rules := f.rules[name]
	if len(rules) == 0 {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	code := int32(0)
	for _, r := range rules { // all of them count the call; the first that matches decides
		if r.device >= 0 && r.device != device {
			continue
		}
		if r.matches(f.random) && code == 0 {
			code = r.code
		}
	}
	return code
}

// matches counts a call and reports whether it fails.
func (r *rule) matches(random *rand.Rand) bool {
	if r.calls++; r.probability > 0 {
		return random.Float64() < r.probability
	}
	return r.calls == r.first || r.all && r.calls > r.first
}

// CheckFaults refuses the machine if one of its fault rules has a name that the caller refuses.
func (r *Runtime) CheckFaults(refuse func(name string) error) { r.Refuse(r.faults.Check(refuse)) }

// Watched reports whether faults are injected or calls are traced.
func (r *Runtime) Watched() bool { return r.faults != nil || r.Trace != nil }

// Traces reports whether the work of streams is traced.
func (r *Runtime) Traces() bool { return r.Trace != nil }

// Inject applies the fault rules to a call. When a rule matches, it records an error text on the
// thread and returns the code and true.
func (r *Runtime) Inject(t *Thread, function string) (code uint64, failed bool) {
	if r.faults == nil {
		return 0, false
	}
	device := -1
	if c, ok := Lookup[*Context](&r.Handles, t.Context); ok {
		device = c.device.id
	}
	switch code := r.faults.hit(function, device); code {
	case 0:
	case abi.ACLNN_ERR_INNER_NULLPTR: // as phase one fails where the operator package for the chip is missing
		return t.Fail(code, "EZ9999: Parse dynamic kernel config fail.\nAclOpKernelInit failed opType\n%s: failure %d asked for by CANN_EMU_FAULTS", function, code), true
	default:
		return t.Fail(code, "EE9999: %s: failure %d asked for by CANN_EMU_FAULTS", function, code), true
	}
	return 0, false
}

// injectRun applies the fault rules to a task that runs on a stream.
func (s *Stream) injectRun(task string) error {
	faults := s.ctx.device.rt.faults
	if faults == nil {
		return nil
	}
	if code := faults.hit("run/"+task, s.Device()); code != 0 {
		return &Fault{Code: code, Text: fmt.Sprintf("%s: failure %d asked for by CANN_EMU_FAULTS", task, code)}
	}
	return nil
}
