package main

// method returns the value of a call of a method.
func (f *frame) method(n, callee *node) *value {
	name := callee.s
	if name == "GetSocVersion" || name == "GetCurNpuArch" {
		return f.base(name, n)
	}
	object := callee.args[0]
	v := f.eval(object)
	arg := func(i int) *value {
		if i+1 < len(n.args) {
			return f.eval(n.args[i+1])
		}
		return nothing
	}
	switch name {
	case "end", "cend":
		return &value{end: true}
	case "begin", "get", "c_str", "GetString":
		return v
	case "find":
		k := arg(0).expr()
		r := &value{found: v.member(k)}
		if v.isList {
			r.second = v.mappedBy(k)
		}
		return r
	case "count", "contains":
		return scalar(v.member(arg(0).expr()))
	case "at":
		return f.index(v, arg(0).expr())
	case "size", "empty":
		if v.isList {
			if name == "empty" {
				return scalar(boolean(len(v.list) == 0))
			}
			return scalar(integerExpr(int64(len(v.list))))
		}
		return nothing
	case "AppendDim", "push_back", "emplace_back", "SetDim", "SetDimNum":
		f.change(object, v, name, arg)
		return nothing
	case "SetDataType":
		if x := v.expr(); f.pointer(x) && object.op == "id" {
			f.retype(object.s, scalar(makeExpr("retype", x, arg(0).expr())))
		}
		return nothing
	}
	if v.isList {
		return f.listMethod(v, name, arg(0).expr())
	}
	if v.cond != nil {
		return nothing
	}
	return scalar(each(v.expr(), func(e *expr) *expr { return property(e, name, arg(0).expr(), len(n.args)-1) }))
}

// each applies f to both sides of conditionals.
func each(e *expr, f func(*expr) *expr) *expr {
	if e.op == "if" {
		return choose(e.args[0], each(e.args[1], f), each(e.args[2], f))
	}
	if e.op == "?" {
		return unknown
	}
	return f(e)
}

// change applies a method that changes a shape or a vector.
func (f *frame) change(object *node, v *value, name string, arg func(int) *value) {
	switch {
	case v.isList && (name == "AppendDim" || name == "push_back" || name == "emplace_back"):
		f.assign(object, &value{isList: true, list: append(append([]*value(nil), v.list...), arg(0))})
	case v.isList && name == "SetDim":
		if i := arg(0).expr(); i.constant() && i.n >= 0 && int(i.n) < len(v.list) {
			list := append([]*value(nil), v.list...)
			list[i.n] = arg(1)
			f.assign(object, &value{isList: true, list: list})
			return
		}
		f.assign(object, nothing)
	case shaped(v.expr()) && name == "AppendDim":
		f.assign(object, scalar(makeExpr("append", v.expr(), arg(0).expr())))
	case shaped(v.expr()) && name == "SetDim":
		f.assign(object, scalar(makeExpr("set", v.expr(), arg(0).expr(), arg(1).expr())))
	default:
		f.assign(object, nothing)
	}
}

func (f *frame) listMethod(v *value, name string, i *expr) *value {
	switch name {
	case "GetDimNum":
		return scalar(integerExpr(int64(len(v.list))))
	case "GetDim":
		return f.index(v, i)
	}
	return nothing
}

// property returns the result of a method of a tensor, a list, a scalar or a shape.
func property(e *expr, name string, i *expr, n int) *expr {
	if e.op == "typed" {
		if name == "GetDataType" {
			return e.args[0]
		}
		return unknown
	}
	if name == "GetDataType" {
		if e.op == "retype" {
			return e.args[1]
		}
		return makeExpr("dt", e)
	}
	if e.op == "retype" {
		return property(e.args[0], name, i, n)
	}
	if shaped(e) {
		return shapeProperty(e, name, i)
	}
	if e.op != "sym" && e.op != "at" {
		return unknown
	}
	switch name {
	case "GetViewShape", "GetShape", "GetOriginalShape":
		return makeExpr("view", e)
	case "GetStorageShape":
		return makeExpr("storage", e)
	case "GetStorageFormat", "GetViewFormat", "GetOriginalFormat":
		return makeExpr("fmt", e)
	case "IsEmpty":
		return makeExpr("empty", e)
	case "Numel", "GetShapeSize":
		return makeExpr("len", e)
	case "Size":
		return makeExpr("count", e)
	case "ToFloat", "ToDouble", "ToInt64", "ToInt32", "ToBool":
		return makeExpr("number", e)
	case "GetViewOffset":
		return makeExpr("offset", e)
	case "operator[]":
		return makeExpr("at", e, i)
	}
	return unknown
}

func shapeProperty(e *expr, name string, i *expr) *expr {
	switch name {
	case "GetDimNum":
		return makeExpr("rank", e)
	case "GetDim":
		return dimension(e, i)
	case "GetShapeSize":
		return makeExpr("len", e)
	case "IsScalar":
		return compare("eq", makeExpr("rank", e), no)
	}
	return unknown
}
