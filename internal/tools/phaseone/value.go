package main

import (
	"maps"
	"strings"
)

// value is the result of an expression of C++: a scalar, a list, a struct, an iterator, or the
// result of a function as the list of its outcomes.
type value struct {
	e      *expr
	list   []*value // of an initializer or a vector; isList is false for a scalar
	isList bool
	fields map[string]*value
	found  *expr // of an iterator: whether it differs from end()
	second *value
	end    bool
	chain  []outcome
	idle   bool   // a success that is returned before a kernel is started
	source *value // the chain from which a comparison made this one
	callee *node  // the name of a function
	cond   *expr  // a choice between two lists
	a, b   *value
}

// outcome is a value that a function returns under a condition, when no earlier outcome applies.
type outcome struct {
	cond *expr
	v    *value
}

func scalar(e *expr) *value { return &value{e: e} }

var nothing = scalar(unknown)

// expr returns the value as an expression. Outcomes are folded to conditionals.
func (v *value) expr() *expr {
	switch {
	case v == nil:
		return unknown
	case v.e != nil:
		return v.e
	case v.chain != nil:
		e := unknown
		for i := len(v.chain) - 1; i >= 0; i-- {
			e = choose(v.chain[i].cond, v.chain[i].v.expr(), e)
		}
		return e
	case v.isList:
		args := make([]*expr, len(v.list))
		for i, x := range v.list {
			args[i] = x.expr()
		}
		return makeExpr("shape", args...)
	case v.cond != nil:
		return choose(v.cond, v.a.expr(), v.b.expr())
	}
	return unknown
}

// mapped applies f to every leaf of the value.
func (v *value) mapped(f func(*expr) *expr) *value {
	if v.chain == nil {
		return scalar(f(v.expr()))
	}
	out := &value{source: v}
	if v.source != nil {
		out.source = v.source
	}
	for _, o := range v.chain {
		out.chain = append(out.chain, outcome{o.cond, scalar(f(o.v.expr()))})
	}
	return out
}

// settled reports whether all outcomes are constants.
func (v *value) settled() bool {
	for _, o := range v.chain {
		if !o.v.expr().constant() && o.cond.op != "?" {
			return false
		}
	}
	return len(v.chain) > 0
}

// member reports whether e is in a list.
func (v *value) member(e *expr) *expr {
	switch {
	case v == nil:
		return unknown
	case v.cond != nil:
		return choose(v.cond, v.a.member(e), v.b.member(e))
	case v.chain != nil:
		r := unknown
		for i := len(v.chain) - 1; i >= 0; i-- {
			r = choose(v.chain[i].cond, v.chain[i].v.member(e), r)
		}
		return r
	case !v.isList || e.op == "?":
		return unknown
	case e.op == "if":
		return choose(e.args[0], v.member(e.args[1]), v.member(e.args[2]))
	case e.op == "shape":
		return v.memberTuple(e)
	}
	args := []*expr{e}
	for _, x := range v.list {
		k := x
		if x.isList && len(x.list) == 2 { // a map
			k = x.list[0]
		}
		c := k.expr()
		if e.constant() && c.constant() {
			if e.n == c.n {
				return yes
			}
			continue
		}
		if c.op == "?" {
			return unknown
		}
		args = append(args, c)
	}
	if len(args) == 1 {
		return no
	}
	return makeExpr("in", args...)
}

// memberTuple reports whether a tuple is in a list of tuples: whether its members are those of one.
func (v *value) memberTuple(e *expr) *expr {
	r := no
	for _, x := range v.list {
		if !x.isList || len(x.list) != len(e.args) {
			return unknown
		}
		all := yes
		for i, y := range x.list {
			all = and(all, compare("eq", e.args[i], y.expr()))
		}
		r = or(r, all)
	}
	return r
}

// mappedBy returns the entry of a map for a key.
func (v *value) mappedBy(e *expr) *value {
	if !v.isList {
		return nothing
	}
	r := unknown
	for i := len(v.list) - 1; i >= 0; i-- {
		x := v.list[i]
		if !x.isList || len(x.list) != 2 {
			return nothing
		}
		k := compare("eq", e, x.list[0].expr())
		if k.constant() && k.n == 1 {
			return x.list[1]
		}
		r = choose(k, x.list[1].expr(), r)
	}
	return scalar(r)
}

// merge returns the value that is a under the condition and b otherwise.
func merge(c *expr, a, b *value) *value {
	switch {
	case a == b:
		return a
	case a == nil || b == nil:
		return nothing
	case a.isList || b.isList || a.cond != nil || b.cond != nil:
		return &value{cond: c, a: a, b: b}
	case a.fields != nil && b.fields != nil:
		f := maps.Clone(a.fields)
		for k := range f {
			f[k] = merge(c, a.fields[k], b.fields[k])
		}
		return &value{fields: f}
	}
	return scalar(choose(c, a.expr(), b.expr()))
}

// unchanged reports whether v is still the same value.
func (v *value) unchanged(x *value) bool {
	if v == x || v == nil || x == nil {
		return v == x
	}
	if v.fields != nil && x.fields != nil {
		for k := range v.fields {
			if !v.fields[k].unchanged(x.fields[k]) {
				return false
			}
		}
		return true
	}
	return v.e != nil && x.e != nil && same(v.e, x.e)
}

func (v *value) clone() *value {
	if v == nil || v.fields == nil {
		return v
	}
	f := make(map[string]*value, len(v.fields))
	for k, x := range v.fields {
		f[k] = x.clone()
	}
	return &value{fields: f}
}

// dtypes are the names of element types in the rules, by the name in the sources.
var dtypes = map[string]struct {
	n    int64
	name string
}{
	"FLOAT": {0, "f32"}, "FLOAT16": {1, "f16"}, "INT8": {2, "i8"}, "INT32": {3, "i32"}, "UINT8": {4, "u8"}, "INT16": {6, "i16"},
	"UINT16": {7, "u16"}, "UINT32": {8, "u32"}, "INT64": {9, "i64"}, "UINT64": {10, "u64"}, "DOUBLE": {11, "f64"}, "BOOL": {12, "bool"},
	"STRING": {13, "string"}, "COMPLEX64": {16, "c64"}, "COMPLEX128": {17, "c128"}, "BF16": {27, "bf16"}, "UNDEFINED": {-1, "undefined"},
	"INT4": {29, "i4"}, "UINT1": {30, "u1"}, "COMPLEX32": {33, "c32"}, "HIFLOAT8": {34, "hif8"}, "FLOAT8_E5M2": {35, "e5m2"},
	"FLOAT8_E4M3FN": {36, "e4m3"}, "FLOAT8_E8M0": {37, "e8m0"}, "FLOAT6_E3M2": {38, "e3m2"}, "FLOAT6_E2M3": {39, "e2m3"},
	"FLOAT4_E2M1": {40, "e2m1"}, "FLOAT4_E1M2": {41, "e1m2"}, "INT2": {31, "i2"}, "UINT2": {32, "u2"},
}

// formats are the numbers of the storage formats; their names in the rules are those of the sources.
var formats = map[string]int64{
	"NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "NC1HWC0_C04": 12, "HWCN": 16, "NDHWC": 27, "FRACTAL_NZ": 29, "NCDHW": 30,
	"NDC1HWC0": 32, "FRACTAL_Z_3D": 33, "NC": 35, "NCL": 47, "UNDEFINED": -1, "RESERVED": -1, "FRACTAL_NZ_C0_2": 52, "FRACTAL_NZ_C0_4": 53,
	"FRACTAL_NZ_C0_8": 54, "FRACTAL_NZ_C0_16": 50, "FRACTAL_NZ_C0_32": 51, "DHWCN": 31, "CHWN": 28, "FRACTAL_Z_C04": 99, "C1HWNCoC0": 6,
}

// enumerator returns the value of a name of CANN's base library.
func enumerator(name string) *expr {
	if rest, ok := strings.CutPrefix(name, "DT_"); ok {
		if d, ok := dtypes[rest]; ok {
			return &expr{op: "int", n: d.n, s: d.name, size: 1}
		}
	}
	for _, prefix := range []string{"FORMAT_", "ACL_FORMAT_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if n, ok := formats[rest]; ok {
				return &expr{op: "int", n: n, s: rest, size: 1}
			}
		}
	}
	if rest, ok := strings.CutPrefix(name, "DAV_"); ok {
		if n, ok := integer(rest); ok {
			return integerExpr(n)
		}
	}
	if rest, ok := strings.CutPrefix(name, "ACL_"); ok {
		if d, ok := dtypes[rest]; ok && rest != "UNDEFINED" {
			return &expr{op: "int", n: d.n, s: d.name, size: 1}
		}
	}
	if n, ok := socVersions[name]; ok {
		return integerExpr(n)
	}
	if n, ok := statuses[name]; ok {
		return integerExpr(n)
	}
	if n, ok := limits[name]; ok {
		return integerExpr(n)
	}
	return nil
}

var socVersions = map[string]int64{
	"ASCEND910": 0, "ASCEND910B": 1, "ASCEND910_93": 2, "ASCEND910_95": 3, "ASCEND950": 3, "ASCEND910E": 4, "ASCEND310": 5, "ASCEND310P": 6,
	"ASCEND310B": 7, "ASCEND310C": 8, "ASCEND610LITE": 9, "KIRINX90": 10, "KIRIN9030": 11, "ASCEND350": 12, "RESERVED_VERSION": 99999,
}

var statuses = map[string]int64{
	"ACLNN_SUCCESS": 0, "ACL_SUCCESS": 0, "OK": 0, "ACLNN_ERR_PARAM_NULLPTR": 161001, "ACLNN_ERR_PARAM_INVALID": 161002, "ACLNN_ERR_RUNTIME_ERROR": 361001,
	"ACLNN_ERR_INNER": 561000, "ACLNN_ERR_INNER_INFERSHAPE_ERROR": 561001, "ACLNN_ERR_INNER_TILING_ERROR": 561002,
	"ACLNN_ERR_INNER_FIND_KERNEL_ERROR": 561003, "ACLNN_ERR_INNER_CREATE_EXECUTOR": 561101, "ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR": 561102,
	"ACLNN_ERR_INNER_NULLPTR": 561103, "ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE": 561104,
}

var limits = map[string]int64{
	"INT32_MAX": 1<<31 - 1, "INT_MAX": 1<<31 - 1, "INT32_MIN": -1 << 31, "UINT32_MAX": 1<<32 - 1, "INT64_MAX": 1<<63 - 1, "INT8_MAX": 127, "UINT8_MAX": 255,
	"INT64_MIN": -1 << 63, "INT_MIN": -1 << 31, "MAX_SUPPORT_DIMS_NUMS": 8, "DIM_0": 0, "DIM_1": 1, "DIM_2": 2, "DIM_3": 3,
}
