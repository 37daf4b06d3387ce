package smoke

import "time"

// Verdict is the outcome of one trial of a kernel.
type Verdict string

// Verdicts, the best first.
const (
	OK      Verdict = "ok"
	Unfit   Verdict = "unfit"   // the kernel does not take the arguments, and says why
	Wrong   Verdict = "wrong"   // it ran, and its result is not the reference's
	Refused Verdict = "refused" // the call returned an error
	Failed  Verdict = "failed"  // the device reported an error afterwards
	Hung    Verdict = "hung"    // the device did not end in time
	Crashed Verdict = "crashed" // the process ended
)

// Bad reports whether a bug can be reported for the verdict.
func (v Verdict) Bad() bool { return v != OK && v != Unfit }

// Step is a kernel with the arguments of a case.
type Step struct {
	Case   string `json:"case"`
	DType  string `json:"dtype"`
	Op     string `json:"op"`
	Kernel string `json:"kernel"`
}

// Name is the step in one word, which its range in a profile has too.
func (s Step) Name() string { return s.Case + "|" + s.DType + "|" + s.Op + "|" + s.Kernel }

// Result is the outcome of one step of the report.
type Result struct {
	Step
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	// Error is the largest ratio of the root mean squares of the error and of a result.
	Error  float64       `json:"error"`
	First  time.Duration `json:"first_ns"`  // the first run: launches and the device
	Host   time.Duration `json:"host_ns"`   // the launches of a later run
	Device time.Duration `json:"device_ns"` // a later run on the device
}

// Measure is a number that was measured.
type Measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Report is all that Run found.
type Report struct {
	Results  []Result  `json:"results"`
	Measures []Measure `json:"measures"`
	// Problems are parts that could not be tried, with the reason.
	Problems []string `json:"problems,omitempty"`
	// Untried are operators of ops without a case.
	Untried []string `json:"untried,omitempty"`
}

// Bad counts the results that are bugs, and the problems.
func (r *Report) Bad() (n int) {
	for _, x := range r.Results {
		if x.Verdict.Bad() {
			n++
		}
	}
	return n + len(r.Problems)
}

// message is a line that a part writes.
type message struct {
	Trying  *Step    `json:"trying,omitempty"`
	Result  *Result  `json:"result,omitempty"`
	Measure *Measure `json:"measure,omitempty"`
	Problem string   `json:"problem,omitempty"`
	Done    bool     `json:"done,omitempty"`
}
