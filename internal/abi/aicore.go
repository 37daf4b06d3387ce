package abi

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// Kernel is a kernel of CANN that runs on the AI Core of an Atlas A2 or A3 for some dtypes, and on
// the slow AI CPU for all others.
type Kernel struct {
	Name   string
	DTypes []string // names as in package dtype, or "from>to" for a cast; none if it never does
	Source Page
}

// Takes reports whether the kernel runs on the AI Core for a dtype.
func (k *Kernel) Takes(dtype string) bool { return slices.Contains(k.DTypes, dtype) }

// Casts reports whether the dtypes of the kernel are pairs.
func (k *Kernel) Casts() bool { return len(k.DTypes) > 0 && strings.Contains(k.DTypes[0], ">") }

// AICore lists the operators that use such kernels.
type AICore struct {
	operators map[string][]*Kernel
}

// Of returns the kernels of an operator, by its name without prefix, that have an AI CPU form.
func (a *AICore) Of(operator string) []*Kernel { return a.operators[operator] }

// Computation is by what the processor of a call's kernels is decided.
type Computation struct {
	DType    string // in which the operator computes, named as in package dtype
	From, To string // what it converts, if it is a cast
	Elements int64  // of its first tensor
	Row      int64  // the last dimension of that, -1 if it has none
}

// Leaves returns the kernel of a call that runs on the AI CPU, with the dtype or what else is the
// reason, or "".
func (a *AICore) Leaves(operator string, c Computation) string {
	kernels := a.Of(operator)
	if operator == "InplaceCopy" {
		kernels = append(kernels[:len(kernels):len(kernels)], a.Of("Cast")...)
	}
	for _, k := range kernels {
		name := c.DType
		if k.Casts() {
			if c.From == c.To {
				continue
			}
			name = c.From + ">" + c.To
		}
		switch {
		case c.Elements == 0:
			return ""
		case !k.Takes(name):
			return k.Name + " of " + name
		case k.Name == "Sort" && c.Row == 1:
			return k.Name + " of rows with one element"
		}
	}
	return ""
}

//go:embed table/aicore/aicore.txt
var aicoreText string

// LoadAICore parses the embedded list. It fails only when the list is invalid.
func LoadAICore() (*AICore, error) { return parseAICore(aicoreText) }

// parseAICore reads lines of fields that tabs separate:
//
//	repository  OWNER/NAME  COMMIT
//	kernel      NAME  DTYPE,DTYPE…  OWNER/NAME  PATH
//	operator    NAME  KERNEL,KERNEL…
func parseAICore(text string) (*AICore, error) {
	commits, kernels := map[string]string{}, map[string]*Kernel{}
	a := &AICore{operators: map[string][]*Kernel{}}
	for i, line := range strings.Split(text, "\n") {
		f := strings.Split(line, "\t")
		switch {
		case line == "" || line[0] == '#':
		case f[0] == "repository" && len(f) == 3:
			commits[f[1]] = f[2]
		case f[0] == "kernel" && len(f) == 5 && commits[f[3]] != "":
			k := &Kernel{Name: f[1], Source: Page{Repository: f[3], Commit: commits[f[3]], Path: f[4]}}
			if f[2] != "" {
				k.DTypes = strings.Split(f[2], ",")
			}
			kernels[f[1]] = k
		case f[0] == "operator" && len(f) == 3:
			for _, name := range strings.Split(f[2], ",") {
				if kernels[name] == nil {
					return nil, fmt.Errorf("aicore.txt:%d: there is no kernel %s", i+1, name)
				}
				a.operators[f[1]] = append(a.operators[f[1]], kernels[name])
			}
		default:
			return nil, fmt.Errorf("aicore.txt:%d: cannot parse %q", i+1, line)
		}
	}
	return a, nil
}
