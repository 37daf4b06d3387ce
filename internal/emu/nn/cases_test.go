package nn

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// recordedCase is a call of phase one that a unit test of CANN makes, and the code that it expects.
type recordedCase struct {
	Op, Soc, Args, Case string
	Code                int32
}

// casesFolder returns the folder of recorded cases: CANN_CASES_DIR, or one beside the repository.
func casesFolder(t *testing.T) string {
	dir := os.Getenv("CANN_CASES_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "cases")
		if _, err := os.Stat(dir); err != nil {
			t.Skip("there are no recorded cases of CANN's unit tests: CANN_CASES_DIR names no folder, and none lies beside the repository")
		}
	}
	return dir
}

// TestRecordedCases compares phase one with CANN's unit tests. testdata/cases.txt lists the cases that differ,
// with the reason; a case that passes must not be on it. What is not implemented counts as different.
func TestRecordedCases(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(casesFolder(t), "phase-one-*.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	listed := differingCases(t)
	least := map[string]float64{"ops-cv": 0.98, "ops-nn": 0.99, "ops-math": 0.998}
	for _, file := range files {
		repository := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "phase-one-"), ".jsonl")
		t.Run(repository, func(t *testing.T) {
			passed, all := 0, readCases(t, file)
			for _, c := range all {
				problem := c.try()
				reason, known := listed[c.Case]
				switch {
				case problem == "":
					passed++
					assert.False(t, known, "%s passes now; take it off testdata/cases.txt", c.Case)
				case !known:
					assert.Fail(t, problem, "%s: %s %s(%s)", c.Case, c.Soc, c.Op, c.Args)
				default:
					t.Logf("%s differs: %s", c.Case, reason)
				}
			}
			page, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "conformance.md"))
			require.NoError(t, err)
			assert.Contains(t, string(page), fmt.Sprintf("| %s | %d | %d |", repository, len(all), passed))
			t.Logf("%d of %d cases pass (%.1f %%)", passed, len(all), 100*float64(passed)/float64(len(all)))
			assert.GreaterOrEqual(t, float64(passed), least[repository]*float64(len(all)))
		})
	}
}

// differingCases reads the list of cases that differ: a reason on a line that ends with a colon, then the cases.
func differingCases(t *testing.T) map[string]string {
	text, err := os.ReadFile("testdata/cases.txt")
	require.NoError(t, err)
	all, reason := make(map[string]string), ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if r, ok := strings.CutSuffix(line, ":"); ok {
			reason = r
		} else if line != "" && line[0] != '#' {
			require.NotEmpty(t, reason)
			require.NotContains(t, all, line)
			all[line] = reason
		}
	}
	return all
}

func readCases(t *testing.T, file string) (all []recordedCase) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	seen := make(map[string]int)
	for lines.Scan() {
		var c recordedCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		if seen[c.Case]++; seen[c.Case] > 1 {
			c.Case = fmt.Sprintf("%s #%d", c.Case, seen[c.Case])
		}
		all = append(all, c)
	}
	require.NoError(t, lines.Err())
	return all
}

// chips returns the chips of the case. Where the 910B lacks the operator, its name stands for the chip that has it,
// unless the test is that the 910B refuses the call.
func (c recordedCase) chips(o *op.Operator) ([]acceptance.Chip, error) {
	chip := acceptance.ChipOf(c.Soc)
	if chip != acceptance.Ascend910B {
		return []acceptance.Chip{chip}, nil
	}
	home, err := acceptance.Home(o.Name)
	if c.Code != 0 && home != chip {
		return []acceptance.Chip{chip, home}, err
	}
	return []acceptance.Chip{home}, err
}

// rank returns this rank's place in a group, whose size an argument may tell: epWorldSize and epRankId for groupEp.
func rank(o *op.Operator, args []any, group string, ranks int) op.Communicator {
	comm := op.Communicator{Handle: 1, Size: ranks}
	for i, p := range o.Params {
		if name, ok := args[i].(string); !ok || name != group {
			continue
		}
		prefix := cmp.Or(strings.ToLower(strings.TrimPrefix(p.Name, "group")), "ep")
		for k, q := range o.Params {
			n, _ := args[k].(int64)
			switch strings.ToLower(q.Name) {
			case prefix + "worldsize", "worldsize":
				comm.Size = max(int(n), 1)
			case prefix + "rankid":
				comm.Rank = int(n)
			}
		}
	}
	return comm
}

// try returns how the emulator's answer differs from the expected one, or "".
func (c recordedCase) try() string {
	o := op.Find(strings.TrimPrefix(strings.TrimPrefix(c.Op, "acl"), "nn"))
	if o == nil {
		return "no operator of the table"
	}
	if implementations[o.Name] == nil {
		return "not implemented"
	}
	chips, err := c.chips(o)
	if err != nil {
		return err.Error()
	}
	problem := ""
	for _, chip := range chips {
		if problem = c.on(o, chip); problem == "" {
			break
		}
	}
	return problem
}

// on returns how the emulator's answer as one chip differs from the expected one, or "". If no argument tells the
// number of ranks of a group, a call must be accepted with one number, or refused with each.
func (c recordedCase) on(o *op.Operator, chip acceptance.Chip) string {
	groups := []int{1}
	if slices.ContainsFunc(o.Params, func(p op.Param) bool {
		return p.Class == op.StringClass && strings.Contains(strings.ToLower(p.Name), "group")
	}) {
		groups = []int{2, 4, 8, 16, 1, 32}
	}
	var answers []string
	for _, ranks := range groups {
		args, err := c.arguments(o)
		if err != nil {
			return err.Error()
		}
		call := op.NewCall(o, args, op.Env{Chip: chip, Tiled: true, Links: new(op.Links), Join: func(group string) (op.Communicator, error) {
			if group == "" {
				return op.Communicator{}, errors.New("no name")
			}
			return rank(o, args, group, ranks), nil
		}})
		checkFormats(call)
		_, err = op.NewExecutor(implementations[o.Name], call)
		var refused *op.Error
		switch {
		case err == nil && c.Code == 0:
			return ""
		case err == nil:
			answers = append(answers, fmt.Sprintf("accepted, with %d ranks", ranks))
		case errors.As(err, &refused) && refused.Code == c.Code:
		default:
			answers = append(answers, err.Error())
		}
	}
	if len(answers) == 0 {
		return ""
	}
	return fmt.Sprintf("%d expected: %s", c.Code, answers[0])
}

var caseTypes = map[string]dtype.Type{
	"f16": dtype.Float16, "f32": dtype.Float32, "f64": dtype.Float64, "bf16": dtype.BFloat16, "i4": dtype.Int4, "i8": dtype.Int8, "i16": dtype.Int16,
	"i32": dtype.Int32, "i64": dtype.Int64, "u8": dtype.Uint8, "u16": dtype.Uint16, "u32": dtype.Uint32, "u64": dtype.Uint64, "bool": dtype.Bool,
	"c64": dtype.Complex64, "c128": dtype.Complex128, "COMPLEX32": dtype.Complex32, "STRING": dtype.String, "UINT1": dtype.Uint1, "DT_UNDEFINED": dtype.Undefined,
	"HIFLOAT8": dtype.HiFloat8, "FLOAT8_E5M2": dtype.Float8E5M2, "FLOAT8_E4M3FN": dtype.Float8E4M3, "FLOAT8_E8M0": dtype.Float8E8M0,
	"FLOAT6_E3M2": dtype.Float6E3M2, "FLOAT6_E2M3": dtype.Float6E2M3, "FLOAT4_E2M1": dtype.Float4E2M1, "FLOAT4_E1M2": dtype.Float4E1M2,
}

// arguments parses the recorded arguments. Tensors get addresses far apart, which phase one does not read.
func (c recordedCase) arguments(o *op.Operator) ([]any, error) {
	texts := strings.Split(c.Args, "; ")
	if len(texts) != len(o.Params) {
		return nil, fmt.Errorf("%d arguments are recorded, the operator has %d", len(texts), len(o.Params))
	}
	p := caseParser{}
	args := make([]any, len(texts))
	for i, text := range texts {
		args[i] = p.argument(o.Params[i].Class, text)
		if p.err != nil {
			return nil, fmt.Errorf("%s: %w", o.Params[i].Name, p.err)
		}
	}
	return args, nil
}

type caseParser struct {
	tensors uint64
	err     error
}

func (p *caseParser) argument(class op.Class, text string) any {
	if text == "null" {
		return nil
	}
	inner := func(open, end string) []string {
		_, rest, _ := strings.Cut(text, open)
		rest = strings.TrimSuffix(rest, end)
		if rest == "" {
			return nil
		}
		return strings.Split(rest, ",")
	}
	switch class {
	case op.TensorClass:
		return p.tensor(text)
	case op.TensorListClass:
		list := []*op.Tensor{}
		for _, x := range tensorText.FindAllString(text, -1) {
			list = append(list, p.tensor(x))
		}
		return list
	case op.ScalarClass:
		name, _, _ := strings.Cut(text, "(")
		return p.scalar(name, inner("(", ")")[0])
	case op.ScalarListClass:
		list := []*op.Scalar{}
		for _, x := range inner("[", "]") {
			name, value := "Double", x
			if before, after, typed := strings.Cut(x, "("); typed {
				name, value = before, strings.TrimSuffix(after, ")")
			}
			list = append(list, p.scalar(name, value))
		}
		return list
	case op.IntArrayClass:
		list := []int64{}
		if text == "ptr" { // an array whose elements are not recorded
			return append(list, 0, 0, 0)
		}
		for _, x := range inner("[", "]") {
			list = append(list, int64(p.number(x)))
		}
		return list
	case op.FloatArrayClass:
		list := []float32{}
		for _, x := range inner("[", "]") {
			list = append(list, float32(p.number(x)))
		}
		return list
	case op.BoolArrayClass:
		list := []bool{}
		for _, x := range inner("[", "]") {
			list = append(list, p.number(x) != 0)
		}
		return list
	case op.StringClass:
		return strings.Trim(text, `"`)
	case op.BoolClass:
		return p.number(text) != 0
	case op.DoubleClass, op.FloatClass:
		return p.number(text)
	case op.PointerClass:
		if strings.HasPrefix(text, "ptr") {
			return int64(1 << 20)
		}
	}
	return int64(p.number(text))
}

var caseScalars = map[string]dtype.Type{
	"Complex64": dtype.Complex64, "Float": dtype.Float32, "Double": dtype.Float64, "Int": dtype.Int64, "Bool": dtype.Bool, "Float16": dtype.Float16, "Int8": dtype.Int8, "Uint8": dtype.Uint8,
	"Int16": dtype.Int16, "Uint16": dtype.Uint16, "Int32": dtype.Int32, "Uint32": dtype.Uint32, "Int64": dtype.Int64, "Uint64": dtype.Uint64,
}

func (p *caseParser) scalar(name, text string) *op.Scalar {
	d, ok := caseScalars[name]
	if !ok {
		p.err = fmt.Errorf("there is no scalar of type %q", name)
		return nil
	}
	s := &op.Scalar{DType: d}
	if parts := strings.Split(text, "|"); d == dtype.Complex64 && len(parts) == 2 {
		for i, part := range parts {
			binary.LittleEndian.PutUint32(s.Bits[4*i:], math.Float32bits(float32(p.number(part))))
		}
		return s
	}
	kerneltest.Set(d, unsafe.Pointer(&s.Bits), p.number(text))
	return s
}

func (p *caseParser) number(text string) float64 {
	switch text = strings.TrimSpace(text); text {
	case "true":
		return 1
	case "false":
		return 0
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil && p.err == nil {
		p.err = err
	}
	return x
}

func (p *caseParser) numbers(text string) []int64 {
	all := []int64{}
	for x := range strings.SplitSeq(text, ",") {
		if x != "" {
			all = append(all, int64(p.number(x)))
		}
	}
	return all
}

var tensorText = regexp.MustCompile(`(\w+)\[([\d,-]*)\](\w+)(?: stride\[([\d,-]*)\])?(?: off(-?\d+))?(?: storage\[([\d,-]*)\])?`)

func (p *caseParser) tensor(text string) *op.Tensor {
	m := tensorText.FindStringSubmatch(text)
	if m == nil || m[0] != text {
		p.err = fmt.Errorf("%q is no tensor", text)
		return nil
	}
	d, ok := caseTypes[m[1]]
	if !ok {
		p.err = fmt.Errorf("%q has no type", text)
		return nil
	}
	name := m[3]
	if name == "NZ" {
		name = "FRACTAL_NZ"
	}
	f, err := dtype.ParseFormat(name)
	if err != nil {
		p.err = err
	}
	p.tensors++
	t := &op.Tensor{DType: d, Format: f, Shape: p.numbers(m[2]), Addr: p.tensors << 44}
	t.Strides, t.Storage = op.ContiguousStrides(t.Shape), t.Shape
	if m[4] != "" {
		t.Strides = p.numbers(m[4])
	}
	if m[5] != "" {
		t.Offset = int64(p.number(m[5]))
	}
	if m[6] != "" {
		t.Storage = p.numbers(m[6])
	}
	return t
}
