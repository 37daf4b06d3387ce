package main

import (
	"fmt"
	"slices"
	"strings"
)

// call returns the value of a call: of a method, of a function of CANN's base library, or of a
// function of the sources, which is run.
func (f *frame) call(n *node) *value {
	callee := n.args[0]
	if callee.op == "member" {
		return f.method(n, callee)
	}
	if callee.op != "id" {
		return nothing
	}
	name := callee.s
	short := name
	if k := strings.LastIndex(name, "::"); k >= 0 {
		short = name[k+2:]
	}
	if strings.HasPrefix(name, "construct::") || short == "Shape" || short == "string" && strings.Contains(name, "string") {
		return f.construct(short, n.args[1:])
	}
	if strings.HasPrefix(name, "l0op::") {
		v := f.kernel(short, n.args[1:])
		f.forget(n.args[1:])
		return v
	}
	if v := f.vars[name]; v != nil && v.callee != nil { // a parameter that is a function
		callee = v.callee
		short = callee.s[strings.LastIndex(callee.s, ":")+1:]
	}
	if v := f.base(short, n); v != nil {
		return v
	}
	fn := f.m.repo.lookup(f.fn.file, short, len(n.args)-1)
	if fn == nil {
		if !strings.HasPrefix(short, "OP_LOG") { // a message refuses nothing
			f.m.lost = n
		}
		f.forget(n.args[1:])
		return nothing
	}
	return f.invoke(fn, callee, n.args[1:])
}

// forget drops what is known of variables that a function may write: those of which it gets the
// address, and those that hold nothing yet.
func (f *frame) forget(args []*node) {
	for _, a := range args {
		switch {
		case a.op == "un" && a.s == "&":
			f.assign(a.args[0], nothing)
		case a.op == "id":
			if v := f.vars[a.s]; v != nil && (v.isList || v.e != nil && (v.e.s == "@null" || v.e.constant())) {
				f.vars[a.s] = nothing
			}
		}
	}
}

// invoke runs a function of the sources.
func (f *frame) invoke(fn *function, callee *node, args []*node) *value {
	if f.depth > 25 {
		return scalar(f.unclear(fmt.Sprintf("the call of %s, which is more than 25 calls deep", fn.name)))
	}
	g := &frame{m: f.m, fn: fn, vars: map[string]*value{}, depth: f.depth + 1}
	for i, t := range fn.targs {
		if i < len(callee.targ) {
			g.vars[t] = f.eval(expression(expand(callee.targ[i], f.fn.file.macro, 0)))
		}
	}
	for i, p := range fn.params {
		switch {
		case i < len(args):
			v := f.eval(args[i])
			if fields := f.fieldsOf(strings.TrimRight(p.typ, "&*")); fields != nil && v.isList && args[i].op == "init" {
				v = f.aggregate(strings.TrimRight(p.typ, "&*"), args[i])
			}
			g.vars[p.name] = v
		case p.value != nil:
			g.vars[p.name] = g.eval(expression(expand(p.value, fn.file.macro, 0)))
		}
		if v := g.vars[p.name]; v != nil && !strings.ContainsAny(p.typ, "&*") {
			g.vars[p.name] = v.clone()
		}
	}
	g.exec(fn.body(), yes)
	for i, p := range fn.params {
		if i < len(args) && g.typed[p.name] && args[i].op == "id" {
			f.retype(args[i].s, g.vars[p.name])
		}
		if i < len(args) && p.out && !strings.HasSuffix(p.typ, "Tensor*") && !strings.HasSuffix(p.typ, "List*") {
			if v := g.vars[p.name]; v != nil && (args[i].op == "id" || args[i].op == "un" && args[i].s == "&") {
				f.assign(args[i], v)
			}
		}
	}
	return g.result()
}

// construct returns a variable made with arguments.
func (f *frame) construct(typ string, args []*node) *value {
	switch {
	case len(args) == 1 && typ != "vector" && typ != "FVector":
		return f.eval(args[0])
	case len(args) == 0:
		return f.empty(typ)
	}
	return nothing
}

// kernel returns the result of a call of a kernel: a tensor of which only the dtype may be known.
func (f *frame) kernel(name string, args []*node) *value {
	if len(args) == 0 {
		return nothing
	}
	switch name {
	case "BroadcastTo", "Reshape", "UnsqueezeNd", "SqueezeNd", "Transpose":
		if x := f.eval(args[0]).expr(); x.op != "?" {
			return scalar(makeExpr("typed", property(x, "GetDataType", no, 0)))
		}
	case "Contiguous", "ReFormat", "ViewCopy":
		if x := f.eval(args[0]).expr(); x.op != "?" {
			return scalar(makeExpr("retype", x, property(x, "GetDataType", no, 0)))
		}
	case "Cast":
		x := f.eval(args[0]).expr()
		if len(args) > 1 && x.op != "?" {
			return scalar(makeExpr("retype", x, f.eval(args[1]).expr()))
		}
	}
	return nothing
}

var floating = []string{"FLOAT", "FLOAT16", "BF16", "DOUBLE", "HIFLOAT8", "FLOAT8_E5M2", "FLOAT8_E4M3FN", "FLOAT8_E8M0", "FLOAT6_E3M2", "FLOAT6_E2M3", "FLOAT4_E2M1", "FLOAT4_E1M2"}

var integral = []string{"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}

func among(e *expr, names ...string) *expr {
	if e.op == "?" {
		return unknown
	}
	list := &value{isList: true}
	for _, n := range names {
		list.list = append(list.list, scalar(enumerator("DT_"+n)))
	}
	return list.member(e)
}

// base returns the value of a function of CANN's base library, or nil for other functions.
func (f *frame) base(name string, n *node) *value {
	arg := func(i int) *value {
		if i+1 < len(n.args) {
			return f.eval(n.args[i+1])
		}
		return nothing
	}
	known := func(op string, args ...*expr) *value {
		if slices.ContainsFunc(args, unsure) {
			return nothing
		}
		return scalar(makeExpr(op, args...))
	}
	switch name {
	case "GetSocVersion":
		return scalar(integerExpr(f.m.soc.version))
	case "GetCurNpuArch":
		return scalar(integerExpr(f.m.soc.arch))
	case "CheckType":
		return scalar(arg(1).member(arg(0).expr()))
	case "IsComplexType":
		return scalar(among(arg(0).expr(), "COMPLEX32", "COMPLEX64", "COMPLEX128"))
	case "IsFloatingType":
		return scalar(among(arg(0).expr(), floating...))
	case "IsIntegralType":
		c := among(arg(0).expr(), integral...)
		if len(n.args) > 2 {
			b := f.eval(n.args[2]).expr()
			c = choose(truthOf(b), among(arg(0).expr(), append([]string{"BOOL"}, integral...)...), c)
		}
		return scalar(c)
	case "IsPrivateFormat":
		return known("private", arg(0).expr())
	case "PromoteType":
		return known("promote", arg(0).expr(), arg(1).expr())
	case "CanCast":
		return known("cast", arg(0).expr(), arg(1).expr())
	case "CheckBroadcastShape":
		return known("bcok", arg(0).expr(), arg(1).expr())
	case "BroadcastInferShape":
		a, b := arg(0).expr(), arg(1).expr()
		f.assign(n.args[3], known("broadcast", a, b))
		return known("bcok", a, b)
	case "TypeSize":
		return known("bytes", arg(0).expr())
	case "ToOpDataType", "ToAclDataType", "GetPrimaryFormat", "DataType", "ToOpFormat", "move", "Format", "unique":
		return arg(0)
	case "aclGetIntArraySize", "aclGetTensorListSize", "aclGetFloatArraySize", "aclGetBoolArraySize", "aclGetScalarListSize":
		f.assign(n.args[2], known("count", arg(0).expr()))
		return scalar(no)
	case "aclGetDataType":
		f.assign(n.args[2], known("dt", arg(0).expr()))
		return scalar(no)
	case "find":
		if len(n.args) == 4 && n.args[1].op == "call" && n.args[1].args[0].op == "member" {
			return &value{found: f.eval(n.args[1].args[0].args[0]).member(arg(2).expr())}
		}
	case "max", "min":
		if a, b := arg(0).expr(), arg(1).expr(); len(n.args) == 3 {
			return scalar(choose(compare(map[string]string{"max": "gt", "min": "lt"}[name], a, b), a, b))
		}
	case "strcmp":
		return f.compare("ne", arg(0), arg(1))
	case "tie", "make_tuple", "make_pair", "tuple", "pair":
		v := &value{isList: true}
		for _, a := range n.args[1:] {
			v.list = append(v.list, f.eval(a))
		}
		return v
	case "get":
		if callee := n.args[0]; len(callee.targ) == 1 && len(n.args) == 2 {
			return f.index(arg(0), f.eval(expression(expand(callee.targ[0], f.fn.file.macro, 0))).expr())
		}
	case "IsNullptr":
		return scalar(f.nullness("eq", arg(0).expr()))
	default:
		return f.fraction(name, n)
	}
	return nothing
}

// fraction returns the value of a function of numbers with a fraction, or nil for other functions.
func (f *frame) fraction(name string, n *node) *value {
	if !slices.Contains([]string{"isnan", "isinf", "fabs", "abs", "IsDoubleEqual", "IsFloatEqual"}, name) || len(n.args) < 2 {
		return nil
	}
	const most = "1.7976931348623157e+308"
	x := f.eval(n.args[1]).expr()
	switch {
	case unsure(x):
		return nothing
	case name == "isnan":
		return scalar(makeExpr("ne", x, x))
	case name == "isinf":
		return scalar(or(compare("gt", x, symbol("#"+most)), compare("lt", x, symbol("#-"+most))))
	case len(n.args) == 3:
		return scalar(compare("eq", x, f.eval(n.args[2]).expr()))
	}
	return scalar(choose(compare("lt", x, no), arithmetic("-", no, x), x))
}
