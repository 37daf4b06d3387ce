package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// rulesIn returns the rules that a source of Abs gives, as "chips code condition".
func rulesIn(t *testing.T, source string) (out []string) {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, "math", "abs", "op_api")
	require.NoError(t, os.MkdirAll(at, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(at, "aclnn_abs.cpp"), []byte(source), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(at, "check.h"), []byte(`
#define CHECK_TYPE(tensor, list, ret) \
    do { if (!CheckType(tensor->GetDataType(), list)) { OP_LOGE(1, "text, with (brackets"); ret; } } while (0)
namespace op { static bool IsNew(NpuArch arch) { static const std::set<NpuArch> all = {NpuArch::DAV_3510}; return all.find(arch) != all.end(); } }
struct Pair { const aclTensor* a; const aclTensor* b; };
static bool Alike(const aclTensor* a, const aclTensor* b) { OP_CHECK_SHAPE_NOT_EQUAL(a, b, return false); return true; }
`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(at, "op_error_check.h"), []byte(`
#define OP_CHECK_SHAPE_NOT_EQUAL(a, b, ret) if (a->GetViewShape() != b->GetViewShape()) { ret; }
`), 0o600))
	r, err := Open("test", dir, "0")
	require.NoError(t, err)
	table, err := abi.Load()
	require.NoError(t, err)
	for _, o := range r.Extract(table) {
		assert.Equal(t, "Abs", o.Name)
		for _, rule := range o.Rules {
			code := map[int64]string{0: "ok", 161001: "null", 161002: "invalid", 561103: "inner"}[rule.Code]
			out = append(out, rule.Chips+" "+code+" "+rule.Cond)
		}
	}
	return out
}

const phase = `
aclnnStatus aclnnAbsGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
{
    L2_DFX_PHASE_1(aclnnAbs, DFX_IN(self), DFX_OUT(out));
    auto ret = CheckParams(self, out);
    CHECK_RET(ret == ACLNN_SUCCESS, ret);
    return ACLNN_SUCCESS;
}`

func TestExtract(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"order of checks": {`#include "check.h"
static const std::initializer_list<op::DataType> LIST = {op::DataType::DT_FLOAT, op::DataType::DT_BF16};
static bool CheckNotNull(const aclTensor* self, const aclTensor* out) { OP_CHECK_NULL(self, return false); OP_CHECK_NULL(out, return false); return true; }
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    CHECK_RET(CheckNotNull(x, y), ACLNN_ERR_PARAM_NULLPTR);
    CHECK_TYPE(x, LIST, return ACLNN_ERR_PARAM_INVALID);
    if (x->GetViewShape().GetDimNum() > 8) { return ACLNN_ERR_PARAM_INVALID; }
    return ACLNN_SUCCESS;
}`, []string{"abcpn null (null self)", "abcpn null (null out)", "abcpn invalid (not (in (dt self) f32 bf16))", "abcpn invalid (gt (rank (view self)) 8)"}},
		"chips": {`#include "check.h"
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    if (op::IsNew(GetCurrentPlatformInfo().GetCurNpuArch())) { CHECK_RET(x->IsEmpty(), ACLNN_ERR_PARAM_INVALID); }
    switch (GetCurrentPlatformInfo().GetSocVersion()) {
        case SocVersion::ASCEND910: case SocVersion::ASCEND310P: { CHECK_COND(x->GetDataType() != DT_BF16, ACLNN_ERR_PARAM_INVALID, "t"); break; }
        default: break;
    }
    return ACLNN_SUCCESS;
}`, []string{"ap invalid (eq (dt self) bf16)", "n invalid (not (empty self))"}},
		"what is unknown refuses nothing": {`
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    if (Unknown(x) && x->IsEmpty()) { return ACLNN_ERR_PARAM_INVALID; }
    if (Unknown(x) || y->IsEmpty()) { return ACLNN_ERR_PARAM_INVALID; }
    if (Unknown(y)) { return ACLNN_SUCCESS; }
    if (y->GetDataType() == DT_INT8) { return ACLNN_ERR_PARAM_INVALID; }
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (empty out)"}},
		"early success": {`
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    if (x->IsEmpty()) { return ACLNN_SUCCESS; }
    if (y->IsEmpty()) { return ACLNN_ERR_PARAM_INVALID; }
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (and (not (empty self)) (empty out))"}},
		"loops": {`
static bool Same(const aclTensor* x, const aclTensor* y, int from) {
    for (size_t i = from; i < x->GetViewShape().GetDimNum(); i++) {
        if (x->GetViewShape().GetDim(i) == 1) { continue; }
        if (x->GetViewShape()[i] != y->GetViewShape()[i]) { return false; }
    }
    return true;
}
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    for (int i = 0; i < 2; i++) { CHECK_RET(x->GetViewShape().GetDim(i) != 0, ACLNN_ERR_PARAM_INVALID); }
    CHECK_RET(Same(x, y, 2), ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (eq (dim (view self) 0) 0)", "abcpn invalid (eq (dim (view self) 1) 0)",
			"abcpn invalid (any $1 2 (rank (view self)) (and (ne (dim (view self) $1) 1) (ne (dim (view self) $1) (dim (view out) $1))))"}},
		"structs, references, tuples and templates": {`#include "check.h"
template <size_t LIMIT> static bool Low(const Pair& p) { return p.a->GetViewShape().GetDimNum() < LIMIT; }
static void Infer(const aclTensor* t, op::Shape& shape) { shape.AppendDim(t->GetViewShape().GetDim(0)); shape.AppendDim(3); }
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    Pair p = {x, y};
    CHECK_RET(Low<4>(p), ACLNN_ERR_PARAM_INVALID);
    op::Shape want;
    Infer(x, want);
    CHECK_RET(want == p.b->GetViewShape(), ACLNN_ERR_PARAM_INVALID);
    auto t = std::tie(x, y);
    CHECK_RET(std::get<1>(t)->GetStorageFormat() == Format::FORMAT_ND, ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (ge (rank (view self)) 4)", "abcpn invalid (not (sheq (shape (dim (view self) 0) 3) (view out)))", "abcpn invalid (ne (fmt out) ND)"}},
		"divisions of casts": {`
static double Scale(int64_t in, int64_t out) { return out != 0 ? (static_cast<double>(in) / out) : 0.0; }
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    auto a = x->GetViewShape().GetDim(0);
    auto b = y->GetViewShape().GetDim(0);
    CHECK_RET(Scale(a, b) >= 0.02, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(a / b < 4, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET((float)(a - 1) / b < 5, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(static_cast<int64_t>(a) / b < 6, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(static_cast<int64_t>(a * 2.5) < 7, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(static_cast<int64_t>(Scale(a, b)) < 8 || b == 1, ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (lt (if (ne (dim (view out) 0) 0) (quot (dim (view self) 0) (dim (view out) 0)) 0) #0.02)",
			"abcpn invalid (ge (/ (dim (view self) 0) (dim (view out) 0)) 4)", "abcpn invalid (ge (quot (- (dim (view self) 0) 1) (dim (view out) 0)) 5)",
			"abcpn invalid (ge (/ (dim (view self) 0) (dim (view out) 0)) 6)", "abcpn invalid (ge (trunc (* (dim (view self) 0) #2.5)) 7)",
			"abcpn invalid (not (or (lt (trunc (if (ne (dim (view out) 0) 0) (quot (dim (view self) 0) (dim (view out) 0)) 0)) 8) (eq (dim (view out) 0) 1)))"}},
		"spellings of casts": {`
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    auto a = x->GetViewShape().GetDim(0);
    auto b = y->GetViewShape().GetDim(0);
    (void)b;
    CHECK_RET((unsigned int)(a * 2.5) < 1, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(static_cast<long long>(a * 2.5) < 2, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(static_cast<const std::size_t>(a * 2.5) < 3, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(std::size_t(a * 2.5) < 4, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET((uint8_t) -a < 5, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET((long double)a / b < 6, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(static_cast<bool>(a) == true, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(a / 2.0f < 7, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(a / -2.0 < 8, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(a / 1e3 < 9, ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(a / 0x1E < 0x1F, ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (ge (trunc (* (dim (view self) 0) #2.5)) 1)", "abcpn invalid (ge (trunc (* (dim (view self) 0) #2.5)) 2)",
			"abcpn invalid (ge (trunc (* (dim (view self) 0) #2.5)) 3)", "abcpn invalid (ge (trunc (* (dim (view self) 0) #2.5)) 4)", "abcpn invalid (ge (- 0 (dim (view self) 0)) 5)",
			"abcpn invalid (ge (quot (dim (view self) 0) (dim (view out) 0)) 6)", "abcpn invalid (eq (dim (view self) 0) 0)",
			"abcpn invalid (ge (quot (dim (view self) 0) 2) 7)", "abcpn invalid (ge (quot (dim (view self) 0) -2) 8)", "abcpn invalid (ge (quot (dim (view self) 0) 1000) 9)",
			"abcpn invalid (ge (/ (dim (view self) 0) 30) 31)"}},
		"lists of pairs": {`
static const std::initializer_list<std::pair<op::DataType, op::DataType>> PAIRS = {{op::DataType::DT_INT8, op::DataType::DT_FLOAT}, {op::DataType::DT_FLOAT, op::DataType::DT_INT8}};
static bool Listed(op::DataType a, op::DataType b) {
    for (const auto& pair : PAIRS) { if (pair.first == a && pair.second == b) { return true; } }
    return false;
}
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    auto pair = std::pair<op::DataType, op::DataType>(x->GetDataType(), y->GetDataType());
    CHECK_RET(std::find(PAIRS.begin(), PAIRS.end(), pair) != PAIRS.end(), ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(Listed(y->GetDataType(), DT_FLOAT), ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (not (or (and (eq (dt self) i8) (eq (dt out) f32)) (and (eq (dt self) f32) (eq (dt out) i8))))", "abcpn invalid (ne i8 (dt out))"}},
		"references to members of tuples": {`
static aclnnStatus Convert(const aclTensor*& x, aclOpExecutor* executor) { x = l0op::Unpack(x, executor); return ACLNN_SUCCESS; }
static aclnnStatus Both(std::tuple<const aclTensor*, const aclTensor*>& t, aclOpExecutor* executor) {
    auto& x = std::get<0>(t);
    return Convert(x, executor);
}
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    auto t = std::tie(x, y);
    auto& a = std::get<0>(t);
    auto& b = std::get<1>(t);
    CHECK_RET(Both(t, nullptr) == ACLNN_SUCCESS, ACLNN_ERR_INNER_NULLPTR);
    CHECK_RET(a->GetDataType() == DT_INT8 && b->GetDataType() == DT_INT8, ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (ne (dt out) i8)"}},
		"totals of loops": {`
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    int64_t size = 1, odd = 1;
    for (size_t i = 0; i < x->GetViewShape().GetDimNum(); i++) { size *= x->GetViewShape().GetDim(i); }
    for (size_t i = 0; i < x->GetViewShape().GetDimNum(); i++) { if (i == 1) { continue; } odd *= x->GetViewShape().GetDim(i); }
    CHECK_RET(size == y->GetViewShape().GetDim(0), ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(odd == 1, ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (ne (prod (view self) 0 (rank (view self))) (dim (view out) 0))"}},
		"maps, nulls and functions as arguments": {`
static const std::unordered_map<DataType, DataType> PARTS = {{DataType::DT_COMPLEX64, DataType::DT_FLOAT}};
template <size_t MOST> static bool Low(const aclTensor* x) { return x->GetViewShape().GetDimNum() <= MOST; }
static bool Apply(const aclTensor* x, bool (*check)(const aclTensor*)) { return check(x); }
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    if (x == nullptr || y == nullptr) { return ACLNN_ERR_INNER_NULLPTR; }
    auto part = PARTS.find(x->GetDataType());
    if (part != PARTS.end()) { CHECK_RET(y->GetDataType() == part->second, ACLNN_ERR_PARAM_INVALID); }
    CHECK_RET(Apply(x, Low<5>), ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn inner (or (null self) (null out))", "abcpn invalid (and (in (dt self) c64) (eq (dt self) c64) (ne (dt out) f32))", "abcpn invalid (gt (rank (view self)) 5)"}},
		"types that a check changes": {`
static bool Unsigned(const aclTensor* t) {
    if (t != nullptr && t->GetDataType() == DT_INT64) { (void)const_cast<aclTensor*>(t)->SetDataType(op::DataType::DT_UINT64); }
    return t->GetDataType() == DT_UINT64;
}
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    CHECK_RET(Unsigned(x), ACLNN_ERR_PARAM_INVALID);
    CHECK_RET(x->GetDataType() == y->GetDataType(), ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (not (or (and (not (null self)) (eq (dt self) i64)) (eq (dt self) u64)))",
			"abcpn invalid (ne (if (and (not (null self)) (eq (dt self) i64)) u64 (dt self)) (dt out))"}},
		"loops that return from an iteration unless they go on": {`
static const std::vector<std::vector<DataType>> LIST = {{DataType::DT_FLOAT, DataType::DT_INT8, DT_BOOL}, {DataType::DT_BF16, DataType::DT_INT32, DT_BOOL}};
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    for (size_t i = 0; i < LIST.size(); i++) {
        if (x->GetDataType() != LIST[i][0]) { continue; }
        if (y->GetDataType() != LIST[i][1]) { continue; }
        return ACLNN_SUCCESS;
    }
    return ACLNN_ERR_PARAM_INVALID;
}`, []string{"abcpn invalid (not (or (and (eq (dt self) f32) (eq (dt out) i8)) (and (eq (dt self) bf16) (eq (dt out) i32))))"}},
		"macros of any number of arguments": {`
#define NOT_NULL_1(a) OP_CHECK_NULL(a, return ACLNN_ERR_PARAM_NULLPTR)
#define NOT_NULL_2(a, b) OP_CHECK_NULL(a, return ACLNN_ERR_PARAM_NULLPTR); NOT_NULL_1(b)
#define NOT_NULL_IMPL(count, ...) OP_CONCAT(NOT_NULL_, count)(__VA_ARGS__)
#define NOT_NULL(...) NOT_NULL_IMPL(GET_ARGS_COUNT(__VA_ARGS__), __VA_ARGS__)
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    NOT_NULL(x, y);
    return ACLNN_SUCCESS;
}`, []string{"abcpn null (null self)", "abcpn null (null out)"}},
		"macros of the base library in a header that does not include it": {`#include "check.h"
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    CHECK_RET(Alike(x, y), ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (not (sheq (view self) (view out)))"}},
		"arrays of structs": {`
typedef struct ParamS { const aclTensor* t; const char* name; } ParamT;
static bool CheckFormats(ParamT* list, size_t n, const bool* mask) {
    for (size_t i = 0; i < n; i++) {
        if (!mask[i]) { continue; }
        if (IsPrivateFormat((list[i].t)->GetStorageFormat())) { return false; }
    }
    return true;
}
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    ParamT list[2] = {{x, "x"}, {y, "y"}};
    bool mask[2] = {x->IsEmpty(), y->IsEmpty()};
    size_t n = sizeof(list) / sizeof(struct ParamS);
    CHECK_RET(CheckFormats(list, n, mask), ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (and (empty self) (private (fmt self)))", "abcpn invalid (and (empty out) (private (fmt out)))"}},
		"a loop that writes what it ranges over": {`
static void Plain(std::vector<int64_t>& list) { for (auto& x : list) { x = Unknown(x); } }
static bool First(const std::vector<int64_t>& list) { return list[0] == 3; }
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    std::vector<int64_t> list = {x->GetViewShape().GetDim(0), 4};
    CHECK_RET(First(list), ACLNN_ERR_PARAM_INVALID);
    Plain(list);
    CHECK_RET(First(list), ACLNN_ERR_PARAM_INVALID);
    std::vector<int64_t> more = {x->GetViewShape().GetDim(1), 4};
    for (auto& x : more) { x += Unknown(x); }
    CHECK_RET(First(more), ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (ne (dim (view self) 0) 3)"}},
		"promotion": {`
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    auto p = op::PromoteType(x->GetDataType(), y->GetDataType());
    CHECK_RET(p != DataType::DT_UNDEFINED && CanCast(p, y->GetDataType()), ACLNN_ERR_PARAM_INVALID);
    return ACLNN_SUCCESS;
}`, []string{"abcpn invalid (not (and (ne (promote (dt self) (dt out)) undefined) (cast (promote (dt self) (dt out)) (dt out))))"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, rulesIn(t, c.source+phase)) })
	}
}

// Sources that are cut anywhere must not make the reader fail.
func FuzzStatements(f *testing.F) {
	f.Add(phase)
	f.Add("if (a < b) { x = y[1] ? f<3>(z) : 2; } else switch (q) { case 1: return; default: break; } for (auto i : l) do { } while (0); auto [a, b] = t;")
	f.Add("A A(")
	f.Add("if")
	f.Fuzz(func(t *testing.T, s string) {
		r := &Repository{}
		fn := &function{file: &file{macros: map[string]*macro{}, functions: map[string][]*function{}, globals: map[string]*statement{}, enums: map[string]int64{}, records: map[string][]*statement{}}, tokens: lex(s, nil)}
		frame := &frame{m: &machine{repo: r}, fn: fn, vars: map[string]*value{}}
		frame.exec(fn.body(), yes)
		fn.file.scope(fn.tokens)
	})
}

func TestText(t *testing.T) {
	rules := []Rule{{"ab", 161001, "(null self)"}, {"ab", 161001, "(null out)"}, {"b", 161001, "(empty out)"}, {"b", 161002, "(empty self)"}}
	assert.Equal(t, []string{"Abs 2", " ab 161001 (null self", "  (null out", " b 161001 (empty out", " b 161002 (empty self", ""},
		strings.Split(Text(&Repository{Name: "test", Commit: "0"}, []Operator{{Name: "Abs", Lost: 2, Rules: rules}}), "\n")[3:])
}

// TestGaps: everything that is not followed is listed, with operator, place and effect.
func TestGaps(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	write := func(name, source string) {
		at := filepath.Join(dir, "math", name)
		require.NoError(t, os.MkdirAll(at, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(at, "aclnn_"+name+".cpp"), []byte(source), 0o600))
	}
	write("abs", `#define CHECK_LOW(t, ret) \
    if (t->GetViewShape().GetDimNum() > Most(t)) { \
        ret; }
static aclnnStatus CheckParams(const aclTensor* x, const aclTensor* y) {
    CHECK_LOW(x, return ACLNN_ERR_PARAM_INVALID);
    UNKNOWN_CHECK(y, return ACLNN_ERR_PARAM_INVALID);
    CheckElsewhere(x);
    OP_LOGE_WITH_REASON(x);
    if (Settled(x) || y->IsEmpty()) { return ACLNN_ERR_PARAM_INVALID; }
    if (Early(y)) { return ACLNN_SUCCESS; }
    if (x->GetDataType() == DT_INT8) { return ACLNN_ERR_PARAM_INVALID; }
    return ACLNN_SUCCESS;
}`+phase)
	write("neg", `aclnnStatus aclnnNegGetWorkspaceSize(const aclTensor* self, uint64_t* workspaceSize, aclOpExecutor** executor) { return ACLNN_SUCCESS; }`)
	write("sign", `aclnnStatus aclnnSignGetWorkspaceSize(const aclTensor* self, aclTensor* result, uint64_t* workspaceSize, aclOpExecutor** executor) { return Run(self); }`)
	write("novelty", `aclnnStatus aclnnNoveltyGetWorkspaceSize(const aclTensor* self, uint64_t* workspaceSize, aclOpExecutor** executor) { return ACLNN_SUCCESS; }`)
	write("lstm_backward", `aclnnStatus aclnnLstmBackwardGetWorkspaceSize(const aclTensor* self, uint64_t* workspaceSize, aclOpExecutor** executor) { return ACLNN_SUCCESS; }`)

	var listed strings.Builder
	require.NoError(t, run([]string{"-out", out, "test=" + dir + "@0"}, &listed))
	assert.Equal(t, []string{
		"Abs\tmath/abs/aclnn_abs.cpp:5: the call of Most\ta refusal with 161002 is followed in part",
		"Abs\tmath/abs/aclnn_abs.cpp:9: the call of Settled\ta refusal with 161002 is followed in part",
		"Abs\tmath/abs/aclnn_abs.cpp:10: the call of Early\ta refusal with 161002 is followed in part",
		"Abs\tmath/abs/aclnn_abs.cpp:6: the call of UNKNOWN_CHECK\twhat it refuses is left out",
		"Abs\tmath/abs/aclnn_abs.cpp:7: the call of CheckElsewhere\twhat it refuses is left out",
		"LstmBackward\tmath/lstm_backward/aclnn_lstm_backward.cpp\theld.txt lists it; it has no rules",
		"Neg\tmath/neg/aclnn_neg.cpp\tits phase one has 3 parameters here and 4 in the table; it has no rules",
		"Novelty\tmath/novelty/aclnn_novelty.cpp\tthe table of CANN's interface has no such operator; it has no rules",
		"Sign\tmath/sign/aclnn_sign.cpp:1: the call of Run\twhat phase one checks after it is left out",
		"Sign\tmath/sign/aclnn_sign.cpp\tnothing in its phase one refuses by a condition of the arguments that is followed; it has no rules",
	}, strings.Split(strings.TrimSuffix(listed.String(), "\n"), "\n"))
	text, err := os.ReadFile(filepath.Join(out, "test.txt"))
	require.NoError(t, err)
	assert.Equal(t, "Abs 3\n abcpn 161002 (empty out\n", strings.Join(strings.SplitAfter(string(text), "\n")[3:], ""))
}

func TestRunRefuses(t *testing.T) {
	assert.ErrorContains(t, run(nil, io.Discard), "name them as name=folder@commit")
	assert.ErrorContains(t, run([]string{"ops-math=x"}, io.Discard), `"ops-math=x" is not name=folder@commit`)
	assert.ErrorContains(t, run([]string{"-out", t.TempDir(), "ops=" + filepath.Join(t.TempDir(), "none") + "@0"}, io.Discard), "no such file")
}
