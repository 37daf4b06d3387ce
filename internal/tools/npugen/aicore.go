package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// aicoreFile lists the kernels that CANN runs on the AI CPU for some dtypes.
const aicoreFile = "internal/abi/table/aicore/aicore.txt"

// runAICore reads, from checkouts of the operators' sources given as owner/repository=folder, for
// which dtypes a kernel runs on the AI Core of an Atlas A2, and which operators use the kernel.
func runAICore(args []string) error {
	if len(args) == 0 {
		return errors.New("aicore: name the checkouts, as owner/repository=folder")
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	t, err := abi.Load()
	if err != nil {
		return err
	}
	var from []checkout
	for _, arg := range args {
		name, dir, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("aicore: %q is not owner/repository=folder", arg)
		}
		c, err := readCheckout(name, dir, ":(glob)**/op_api/*.cpp")
		if err != nil {
			return err
		}
		from = append(from, c)
	}
	return os.WriteFile(filepath.Join(root, aicoreFile), aicoreText(t, from), 0o644)
}

// kernelSource is a source file of kernels that have an AI CPU form.
type kernelSource struct {
	repository, path string
	dtypes           []string // of the AI Core, or pairs a>b
}

var (
	comment    = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	dtypeList  = regexp.MustCompile(`(?s)initializer_list<\s*(?:op::|ge::)?DataType\s*>\s*(\w+)\s*=?\s*\{(.*?)\}\s*;`)
	pairList   = regexp.MustCompile(`(?s)initializer_list<\s*std::pair<[^>]*>\s*>\s*(\w+)\s*=?\s*\{(.*?)\}\s*;`)
	pair       = regexp.MustCompile(`DT_(\w+)\s*,\s*(?:op::|ge::)?(?:DataType::)?DT_(\w+)`)
	dtypeName  = regexp.MustCompile(`DT_(\w+)`)
	definition = regexp.MustCompile(`(?m)^[A-Za-z][^;=#\n]*?\b(\w+)\s*\(`)
	phaseOneOf = regexp.MustCompile(`aclnn(\w+)GetWorkspaceSize\s*\(`)
	kernelCall = regexp.MustCompile(`l0op::(\w+)\s*\(`)
	question   = regexp.MustCompile(`^(Is|Use|Support)[A-Z]|Support$|OutputShape$|Inplace$`)
	otherChip  = regexp.MustCompile(`950|910D|REGBASE|3510|310|610|AICPU|OUT|BYTE|INDICES|INDEX|PROB|FUTURE|ANCIENT`)
)

// dtypeNames maps the names in the sources to those of package dtype. Others do not exist on an
// Atlas A2.
var dtypeNames = map[string]string{
	"FLOAT": "float32", "FLOAT16": "float16", "BF16": "bfloat16", "DOUBLE": "float64", "BOOL": "bool",
	"INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
	"UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
	"COMPLEX32": "complex32", "COMPLEX64": "complex64", "COMPLEX128": "complex128",
}

// principal lists kernels that also count for operators of other folders. What else an operator
// calls there prepares its tensors, or serves one of several cases.
var principal = []string{"GatherV2", "Log"}

// views lists functions that only describe or prepare tensors.
var views = []string{"Contiguous", "Eye", "ReFormat", "Reshape", "SqueezeNd", "TransData", "Tril", "Triu", "UnsqueezeNd"}

// integers lists kernels that take only floats on the AI Core and get integers nevertheless. The
// operators of the others cast integers to float32 first.
var integers = []string{"GatherElements", "Sort", "Topk"}

// booleans lists operators that cast their arguments to bool.
var booleans = []string{"LogicalAnd", "LogicalOr", "LogicalNot", "LogicalXor", "All", "Any"}

// kernelFiles returns the kernels with an AI CPU form, by the name that operators call.
func kernelFiles(from []checkout) map[string]kernelSource {
	found := map[string]kernelSource{}
	for _, c := range from {
		for _, path := range slices.Sorted(maps.Keys(c.files)) {
			text := comment.ReplaceAllString(c.files[path], "")
			if !operatorSource(path) || !strings.Contains(text, "ADD_TO_LAUNCHER_LIST_AICPU") {
				continue
			}
			lists := chosenLists(text)
			if lists == nil && strings.Contains(text, "ADD_TO_LAUNCHER_LIST_AICORE") {
				continue // the choice does not depend on dtypes alone
			}
			for _, m := range definition.FindAllStringSubmatch(text, -1) {
				if _, twice := found[m[1]]; !twice && !question.MatchString(m[1]) {
					found[m[1]] = kernelSource{c.name, path, lists}
				}
			}
		}
	}
	return found
}

// operatorSource reports whether a path is a source of a released operator, not of a test or an experiment.
func operatorSource(path string) bool {
	return !strings.HasPrefix(path, "experimental/") && !strings.Contains(path, "/tests/") && !strings.Contains(path, "/3rd/")
}

// chosenLists returns the dtypes in the lists that apply to an Atlas A2, which the sources call
// 910B: lists of that name, or else those without the name of a chip.
func chosenLists(text string) (dtypes []string) {
	best := 0
	take := func(name string, values []string) {
		rank := listRank(name)
		if rank == 0 || rank < best {
			return
		}
		if rank > best {
			best, dtypes = rank, []string{}
		}
		dtypes = append(dtypes, values...)
	}
	for _, m := range pairList.FindAllStringSubmatch(text, -1) {
		var values []string
		for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
			if a, b := dtypeNames[p[1]], dtypeNames[p[2]]; a != "" && b != "" {
				values = append(values, a+">"+b)
			}
		}
		take(m[1], values)
	}
	if best > 0 {
		return sorted(dtypes)
	}
	for _, m := range dtypeList.FindAllStringSubmatch(text, -1) {
		var values []string
		for _, d := range dtypeName.FindAllStringSubmatch(m[2], -1) {
			if name := dtypeNames[d[1]]; name != "" {
				values = append(values, name)
			}
		}
		take(m[1], values)
	}
	if best == 0 {
		return nil
	}
	return sorted(dtypes)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// listRank returns how well the name of a list fits an Atlas A2, or 0 if it is another chip's.
func listRank(name string) int {
	name = strings.ToUpper(name)
	switch {
	case otherChip.MatchString(name):
		return 0
	case strings.Contains(name, "910B"):
		return 4
	case strings.Contains(name, "910"):
		return 1 // an older chip, where no other list is given
	case strings.Contains(name, "BF16"):
		return 3
	}
	return 2
}

// aicoreText returns the table in the grammar of abi.LoadAICore.
func aicoreText(t *abi.Table, from []checkout) []byte {
	kernels := kernelFiles(from)
	uses := map[string][]string{}
	for _, c := range from {
		for _, path := range slices.Sorted(maps.Keys(c.files)) {
			text := comment.ReplaceAllString(c.files[path], "")
			if !operatorSource(path) {
				continue
			}
			called := calledKernels(kernels, c.name, path, text)
			for _, m := range phaseOneOf.FindAllStringSubmatch(text, -1) {
				if _, known := t.Operator(m[1]); known && len(called) > 0 && !slices.Contains(booleans, strings.TrimPrefix(m[1], "Inplace")) {
					uses[m[1]] = called
				}
			}
		}
	}
	var b bytes.Buffer
	b.WriteString("# Kernels that CANN runs on the AI CPU unless the dtype is listed, on an Atlas A2, and the operators that use them. Made by `npugen aicore` from checkouts of the repositories; see aicore.go for the grammar.\n\n")
	for _, c := range from {
		fmt.Fprintf(&b, "repository\t%s\t%s\n", c.name, c.commit)
	}
	b.WriteString("\n")
	used := slices.Concat(slices.Collect(maps.Values(uses))...)
	for _, name := range slices.Sorted(maps.Keys(kernels)) {
		if k := kernels[name]; slices.Contains(used, name) {
			fmt.Fprintf(&b, "kernel\t%s\t%s\t%s\t%s\n", name, strings.Join(withCasts(name, k.dtypes), ","), k.repository, k.path)
		}
	}
	b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		fmt.Fprintf(&b, "operator\t%s\t%s\n", name, strings.Join(uses[name], ","))
	}
	return b.Bytes()
}

// withCasts adds integers to the dtypes of a kernel whose operators cast them to float32.
func withCasts(name string, dtypes []string) []string {
	float := func(d string) bool { // not a pair
		return (strings.Contains(d, "float") || strings.Contains(d, "complex")) && !strings.Contains(d, ">")
	}
	if slices.Contains(integers, name) || len(dtypes) == 0 || !slices.ContainsFunc(dtypes, float) || slices.ContainsFunc(dtypes, func(d string) bool { return !float(d) }) {
		return dtypes
	}
	all := slices.Clone(dtypes)
	for _, d := range dtypeNames {
		if !float(d) {
			all = append(all, d)
		}
	}
	return sorted(all)
}

// calledKernels returns the kernels that the operators of a file depend on: those of their own
// folder, or else a principal one. A kernel that is never on the AI Core counts only without
// alternatives, because otherwise it serves some cases.
func calledKernels(kernels map[string]kernelSource, repository, path, text string) []string {
	var own, others []string
	alternatives := false
	for _, m := range kernelCall.FindAllStringSubmatch(text, -1) {
		k, ok := kernels[m[1]]
		switch {
		case !ok:
			alternatives = alternatives || !slices.Contains(views, m[1])
		case k.repository == repository && folder(k.path) == folder(path):
			own = append(own, m[1])
		case slices.Contains(principal, m[1]):
			others = append(others, m[1])
		}
	}
	if len(own) == 0 {
		own = others
	}
	return slices.DeleteFunc(sorted(own), func(name string) bool { return len(kernels[name].dtypes) == 0 && alternatives })
}

// folder returns an operator's folder, of which op_api and op_host are parts.
func folder(path string) string {
	path, _, _ = strings.Cut(path, "/op_api/")
	return strings.TrimSuffix(path, "/op_host")
}
