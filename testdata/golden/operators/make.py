"""Calls of aclnn's operators with random arguments, and what PyTorch computes for them.

    python make.py OUT [REPEATS]

writes OUT/calls.jsonl.gz: a call on each line, as the emulator's tests record theirs (Operator, Args by C parameter name), with what
PyTorch computes for each result in Wants, base64 of float64. Floating-point operators run in float64 on numbers that are exact in the
call's type, the others in the call's type.
"""
import base64, gzip, json, math, random, struct, sys
import torch
import torch.nn.functional as F

DTYPES = {torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6, torch.int64: 9, torch.float64: 11, torch.bool: 12, torch.bfloat16: 27}
f32, f16, bf16, f64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
i8, u8, i16, i32, i64, boolean = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool
FLOATS, HALVES, WHOLE = (f32, f16, bf16), (f16, bf16), (i32, i64)
NUMBERS = FLOATS + (i32, i64, i8, u8, i16)
r = random.Random(20261129)
torch.manual_seed(20261129)
lines, skipped = [], {}


class Int(int):
    """An integer of the C call, which is no scalar."""


class Kind:
    """An aclDataType of the C call."""

    def __init__(self, d):
        self.d = d


def floating(d):
    return d in (f32, f16, bf16, f64)


def wide(x):
    return x.double() if torch.is_tensor(x) and floating(x.dtype) else x


def shape(low=1, high=4, most=7):
    return [r.randint(1, most) for _ in range(r.randint(low, high))]


def tensor(d, s, low=-4.0, high=4.0):
    """Random numbers that are exact in the type."""
    if d == boolean:
        return torch.rand(s) < 0.5
    if not floating(d):
        least = max(math.ceil(low), 0) if d == u8 else math.ceil(low)
        return torch.randint(least, max(math.floor(high), least) + 1, s, dtype=d)
    return (torch.rand(s, dtype=f64) * (high - low) + low).to(d)


def described(x, values, image=False):
    d = {"DType": DTYPES[x.dtype], "Format": 0 if image else 2, "Shape": list(x.shape)}
    if values and x.dim() >= 2 and not image and r.random() < 0.3:
        order = list(range(x.dim()))
        r.shuffle(order)
        strides, n = [0] * x.dim(), 1
        for i in reversed(order):
            strides[i], n = n, n * max(x.shape[i], 1)
        if x.numel():
            d["Strides"] = strides
    if values:
        d["Values"] = [v.item() for v in x.double().flatten()]
    return d


def scalar(v):
    if isinstance(v, bool):
        d, b = 12, struct.pack("<?", v)
    elif isinstance(v, int):
        d, b = 9, struct.pack("<q", v)
    else:
        d, b = 11, struct.pack("<d", v)
    return {"DType": d, "Bits": list(b.ljust(16, b"\0"))}


def encoded(v, image=False):
    if torch.is_tensor(v):
        return described(v, True, image)
    if isinstance(v, Kind):
        return DTYPES[v.d]
    if isinstance(v, Int):
        return int(v)
    if isinstance(v, list) and v and torch.is_tensor(v[0]):
        return [described(x, True) for x in v]
    if isinstance(v, (list, str)):
        return v
    if isinstance(v, tuple):  # ("bool", x) or ("double", x): by value
        return v[1]
    return scalar(v)


def call(op, args, wants):
    """args by C name; wants: by C name (type of the result, what PyTorch computes)."""
    line, image = {"Operator": op, "Args": {}, "Wants": {}}, "AvgPool2d" in op  # which takes NCHW only
    for name, v in args.items():
        if v is not None:
            line["Args"][name] = encoded(v, image)
    for name, (d, w) in wants.items():
        line["Args"][name] = described(torch.empty(w.shape, dtype=d), False, image)
        line["Wants"][name] = base64.b64encode(struct.pack(f"<{w.numel()}d", *w.double().flatten().tolist())).decode()
    if op == "HardswishBackward" and (args["self"].abs() == 3).any():
        return  # there CANN has the slope of the middle, and PyTorch that of the sides
    lines.append(json.dumps(line, separators=(",", ":")))


def attempt(op, make):
    try:
        make()
    except Exception as e:  # PyTorch does not compute this type
        skipped.setdefault(f"{op}: {type(e).__name__}: {str(e)[:90]}", 0)
        skipped[f"{op}: {type(e).__name__}: {str(e)[:90]}"] += 1


def native(f, *x):
    """The type of PyTorch's result."""
    return f(*x).dtype


def tanh_gelu(x):
    """aclnnGelu computes the approximation by tanh."""
    return F.gelu(x, approximate="tanh")


# One tensor in, one out: name, function, types, range, names of the parameters.
UNARY = [
    ("Abs", torch.abs, NUMBERS, -4, 4, "self out"), ("Exp", torch.exp, FLOATS, -4, 4, "self out"), ("Exp2", torch.exp2, FLOATS, -4, 4, "self out"),
    ("Expm1", torch.expm1, FLOATS, -4, 4, "self out"), ("Log", torch.log, FLOATS, 0.01, 9, "self out"), ("Log1p", torch.log1p, FLOATS, -0.9, 9, "self out"),
    ("Log2", torch.log2, FLOATS, 0.01, 9, "self out"), ("Log10", torch.log10, FLOATS, 0.01, 9, "self out"), ("Sqrt", torch.sqrt, FLOATS, 0, 9, "self out"),
    ("Rsqrt", torch.rsqrt, FLOATS, 0.01, 9, "self out"), ("Sin", torch.sin, FLOATS, -9, 9, "self out"), ("Cos", torch.cos, FLOATS, -9, 9, "input out"),
    ("Tan", torch.tan, FLOATS, -1.4, 1.4, "self out"), ("Asin", torch.asin, FLOATS, -0.98, 0.98, "self out"), ("Acos", torch.acos, FLOATS, -0.98, 0.98, "input out"),
    ("Atan", torch.atan, FLOATS, -9, 9, "input out"), ("Sinh", torch.sinh, FLOATS, -4, 4, "self out"), ("Cosh", torch.cosh, FLOATS, -4, 4, "self out"),
    ("Tanh", torch.tanh, FLOATS, -4, 4, "self out"), ("Asinh", torch.asinh, FLOATS, -9, 9, "input out"), ("Acosh", torch.acosh, FLOATS, 1.1, 9, "self out"),
    ("Atanh", torch.atanh, FLOATS, -0.95, 0.95, "input out"), ("Sigmoid", torch.sigmoid, FLOATS, -9, 9, "self out"), ("Erf", torch.erf, FLOATS, -3, 3, "self out"),
    ("Erfc", torch.erfc, FLOATS, -2, 2, "self out"), ("Erfinv", torch.erfinv, FLOATS, -0.9, 0.9, "self out"), ("Floor", torch.floor, FLOATS, -9, 9, "self out"),
    ("Ceil", torch.ceil, FLOATS, -9, 9, "self out"), ("Round", torch.round, FLOATS, -9, 9, "self out"), ("Trunc", torch.trunc, FLOATS, -9, 9, "self out"),
    ("Frac", torch.frac, FLOATS, -9, 9, "input out"), ("Neg", torch.neg, (f32, f16, bf16, i32, i64, i8), -9, 9, "self out"), ("Reciprocal", torch.reciprocal, FLOATS, 0.2, 9, "self out"),
    ("Sign", torch.sign, FLOATS + WHOLE, -3, 3, "self result"), ("Square", torch.square, FLOATS + (i32, i64), -9, 9, "self out"), ("Digamma", torch.digamma, (f32, f16), 0.2, 9, "self out"),
    ("Lgamma", torch.lgamma, (f32, f16), 0.2, 9, "self out"), ("Relu", torch.relu, FLOATS + WHOLE, -4, 4, "self out"), ("Selu", torch.selu, FLOATS, -4, 4, "self out"),
    ("Gelu", tanh_gelu, FLOATS, -4, 4, "self out"), ("Silu", F.silu, FLOATS, -9, 9, "self out"), ("Mish", F.mish, FLOATS, -9, 9, "self out"),
    ("Hardswish", F.hardswish, FLOATS, -5, 5, "self out"), ("Hardsigmoid", F.hardsigmoid, FLOATS, -5, 5, "self out"), ("Sinc", torch.sinc, FLOATS, -3, 3, "self out"),
    ("IsFinite", torch.isfinite, FLOATS + WHOLE, -3, 3, "self out"), ("Signbit", torch.signbit, FLOATS + WHOLE, -3, 3, "self out"),
    ("LogicalNot", torch.logical_not, FLOATS + WHOLE + (boolean,), -1, 1, "self out"), ("BitwiseNot", torch.bitwise_not, (i32, i64, i16, i8, u8, boolean), -9, 9, "self out"),
]
BINARY = [
    ("Mul", torch.mul, NUMBERS, -4, 4), ("Div", torch.div, FLOATS, 0.3, 4), ("Maximum", torch.maximum, FLOATS + WHOLE, -4, 4), ("Minimum", torch.minimum, FLOATS + WHOLE, -4, 4),
    ("Atan2", torch.atan2, FLOATS, -4, 4), ("LogAddExp", torch.logaddexp, FLOATS, -4, 4), ("LogAddExp2", torch.logaddexp2, FLOATS, -4, 4), ("FloorDivide", torch.floor_divide, FLOATS + WHOLE, 0.6, 9),
    ("FmodTensor", torch.fmod, FLOATS + WHOLE, 0.6, 9), ("RemainderTensorTensor", torch.remainder, FLOATS + WHOLE, 0.6, 9), ("XLogYTensor", torch.xlogy, FLOATS, 0.2, 4),
    ("EqTensor", torch.eq, NUMBERS, -2, 2), ("NeTensor", torch.ne, NUMBERS, -2, 2), ("LtTensor", torch.lt, NUMBERS, -2, 2), ("GtTensor", torch.gt, NUMBERS, -2, 2),
    ("LeTensor", torch.le, NUMBERS, -2, 2), ("GeTensor", torch.ge, NUMBERS, -2, 2), ("LogicalAnd", torch.logical_and, FLOATS + WHOLE + (boolean,), -1, 1),
    ("LogicalOr", torch.logical_or, FLOATS + WHOLE + (boolean,), -1, 1), ("LogicalXor", torch.logical_xor, FLOATS + WHOLE + (boolean,), -1, 1),
    ("BitwiseAndTensor", torch.bitwise_and, (i32, i64, i16, i8, u8, boolean), -9, 9), ("BitwiseOrTensor", torch.bitwise_or, (i32, i64, i16, i8, u8, boolean), -9, 9),
    ("BitwiseXorTensor", torch.bitwise_xor, (i32, i64, i16, i8, u8, boolean), -9, 9), ("Gcd", torch.gcd, (i32, i64, i16), -30, 30), ("PowTensorTensor", torch.pow, FLOATS, 0.3, 2),
]
# A gradient of one input by its activation: name, function, parameters in order of gradient, value and result, whether the value is the result.
GRADIENTS = [
    ("GeluBackward", tanh_gelu, "gradOutput self gradInput", False), ("SiluBackward", F.silu, "gradOutput self gradInput", False), ("TanhBackward", torch.tanh, "gradOutput output gradInput", True),
    ("SigmoidBackward", torch.sigmoid, "gradOutput output gradInput", True), ("MishBackward", F.mish, "gradOutput self gradInput", False), ("HardswishBackward", F.hardswish, "gradOutput self out", False),
]


def broadcast():
    a = shape()
    b = [n if r.random() < 0.7 else 1 for n in a]
    if r.random() < 0.3:
        b = b[r.randint(0, len(b) - 1):]
    return (a, b) if r.random() < 0.5 else (b, a)


def pointwise():
    for op, f, types, low, high, names in UNARY:
        for d in types:
            def make():
                x = tensor(d, shape(), low, high)
                a, b = names.split()
                call(op, {a: x}, {b: (native(f, x), f(wide(x)))})
            attempt(op, make)
    for op, f, types, low, high in BINARY:
        for d in types:
            def make():
                s, t = broadcast()
                x, y = tensor(d, s, low, high), tensor(d, t, low, high)
                if op in ("FloorDivide", "FmodTensor", "RemainderTensorTensor") and floating(d):
                    x, y = (x * 4).round() / 4, (y * 4).round() / 4  # quotients that rounding does not move across a whole number
                call(op, {"self": x, "other" if op != "PowTensorTensor" else "exponent": y}, {"out": (native(f, x, y), f(wide(x), wide(y)))})
            attempt(op, make)
    for op, f in (("Add", torch.add), ("Sub", torch.sub)):
        for d in NUMBERS:
            def make():
                s, t = broadcast()
                x, y = tensor(d, s, 0 if d == u8 else -4), tensor(d, t, 0 if d == u8 else -4)
                alpha = r.choice([1, 2, 0.5, -1.5]) if floating(d) else 1 if d == u8 else r.choice([1, 2, -3])
                if op == "Sub" and d == u8:
                    x = x + 5
                call(op, {"self": x, "other": y, "alpha": alpha}, {"out": (d, f(wide(x), wide(y), alpha=alpha))})
            attempt(op, make)
    for op, f in (("Adds", torch.add), ("Muls", torch.mul)):
        for d in FLOATS + WHOLE:
            def make():
                x = tensor(d, shape())
                v = r.choice([1.5, -2.0, 3.0]) if floating(d) else r.choice([2, -3])
                args = {"self": x, "other": v}
                if op == "Adds":
                    args["alpha"] = 1
                call(op, args, {"out": (d, f(wide(x), v))})
            attempt(op, make)
    for op, f, names, result in GRADIENTS:
        for d in FLOATS:
            def make():
                s = shape()
                g, x = tensor(d, s), tensor(d, s)
                if result:
                    x = f(x.double()).to(d)
                v = x.double().requires_grad_()
                if result:
                    y = x.double()
                    w = g.double() * (1 - y * y) if op == "TanhBackward" else g.double() * y * (1 - y)
                else:
                    f(v).backward(g.double())
                    w = v.grad
                a, b, c = names.split()
                call(op, {a: g, b: x}, {c: (d, w)})
            attempt(op, make)
    for d in FLOATS:
        def activations():
            x = tensor(d, shape())
            w = wide(x)
            slope = r.choice([0.01, 0.25])
            call("LeakyRelu", {"self": x, "negativeSlope": slope}, {"out": (d, F.leaky_relu(w, slope))})
            call("Celu", {"self": x, "alpha": 1.5}, {"out": (d, F.celu(w, 1.5))})
            call("Elu", {"self": x, "alpha": 1.0, "scale": 1.0, "inputScale": 1.0}, {"out": (d, F.elu(w))})
            call("Softplus", {"self": x, "beta": 1.0, "threshold": 20.0}, {"out": (d, F.softplus(w))})
            call("Softshrink", {"self": x, "lambd": 0.5}, {"out": (d, F.softshrink(w, 0.5))})
            call("Hardshrink", {"self": x, "lambd": 0.5}, {"out": (d, F.hardshrink(w, 0.5))})
            call("Hardtanh", {"self": x, "clipValueMin": -1.0, "clipValueMax": 1.5}, {"out": (d, F.hardtanh(w, -1.0, 1.5))})
            call("Threshold", {"self": x, "threshold": 0.5, "value": -2.0}, {"out": (d, F.threshold(w, 0.5, -2.0))})
            call("Clamp", {"self": x, "clipValueMin": -1.0, "clipValueMax": 1.0}, {"out": (d, w.clamp(-1, 1))})
            call("ClampMin", {"self": x, "clipValueMin": -1.0}, {"out": (d, w.clamp(min=-1))})
            e = r.choice([2, 3])
            call("PowTensorScalar", {"self": x, "exponent": e}, {"out": (d, w**e)})
            y = tensor(d, shape(), 0.05, 0.95)
            call("Logit", {"input": y, "eps": ("double", 0.0)}, {"out": (d, torch.logit(wide(y)))})
            call("NanToNum", {"self": x, "nan": ("double", 1.0), "posinf": ("double", 2.0), "neginf": ("double", -2.0)}, {"out": (d, w)})
            a, b, c = (tensor(d, x.shape, 0.5, 2) for _ in range(3))
            call("Lerp", {"self": a, "end": b, "weight": c}, {"out": (d, torch.lerp(wide(a), wide(b), wide(c)))})
            call("Addcmul", {"self": a, "tensor1": b, "tensor2": c, "value": 0.5}, {"out": (d, torch.addcmul(wide(a), wide(b), wide(c), value=0.5))})
            call("Addcdiv", {"self": a, "tensor1": b, "tensor2": c, "value": 0.5}, {"out": (d, torch.addcdiv(wide(a), wide(b), wide(c), value=0.5))})
            m = tensor(boolean, x.shape)
            call("SWhere", {"condition": m, "self": a, "other": b}, {"out": (d, torch.where(m, wide(a), wide(b)))})
        attempt("activations", activations)
        def gated():
            x = tensor(d, [r.randint(1, 5), 2 * r.randint(1, 9)])
            call("Glu", {"self": x, "dim": Int(1)}, {"out": (d, F.glu(wide(x), 1))})
            s = shape(2, 4)
            y, k = tensor(d, s), tensor(d, [s[1]], 0, 1)
            call("Prelu", {"self": y, "weight": k}, {"out": (d, F.prelu(wide(y), wide(k)))})
        attempt("gated", gated)
    for a in FLOATS + WHOLE + (i8, boolean):
        for b in FLOATS + WHOLE + (i8, boolean):
            def cast():
                x = tensor(a, shape(), -9, 9)
                call("Cast", {"self": x, "dtype": Kind(b)}, {"out": (b, x.to(b))})
            attempt("Cast", cast)


def chosen(s, some=True):
    dims = sorted(r.sample(range(len(s)), r.randint(1, len(s)))) if some else [r.randrange(len(s))]
    return [d if r.random() < 0.6 else d - len(s) for d in dims]


def reductions():
    for d in FLOATS:
        def make():
            x = tensor(d, shape())
            w, dims, keep = wide(x), chosen(x.shape), r.random() < 0.5
            k = ("bool", keep)
            call("ReduceSum", {"self": x, "dims": dims, "keepDims": k, "dtype": Kind(d)}, {"out": (d, w.sum(dims, keep))})
            call("Mean", {"self": x, "dim": dims, "keepDim": k, "dtype": Kind(d)}, {"out": (d, w.mean(dims, keep))})
            call("Amax", {"self": x, "dim": dims, "keepDim": k}, {"out": (d, w.amax(dims, keep))})
            call("Amin", {"self": x, "dim": dims, "keepDim": k}, {"out": (d, w.amin(dims, keep))})
            call("LogSumExp", {"self": x, "dim": dims, "keepDim": k}, {"out": (d, w.logsumexp(dims, keep))})
            call("Max", {"self": x}, {"out": (d, w.max())})
            call("Min", {"self": x}, {"out": (d, w.min())})
            n = math.prod(x.shape[i] for i in dims)
            if n > 1:
                call("Var", {"self": x, "dim": dims, "unbiased": ("bool", True), "keepdim": k}, {"out": (d, w.var(dims, unbiased=True, keepdim=keep))})
                call("Std", {"self": x, "dim": dims, "correction": Int(1), "keepdim": k}, {"out": (d, w.std(dims, correction=1, keepdim=keep))})
                if d != bf16:
                    call("VarMean", {"self": x, "dim": dims, "correction": Int(1), "keepdim": k}, {"varOut": (d, w.var(dims, correction=1, keepdim=keep)), "meanOut": (d, w.mean(dims, keep))})
            p = r.choice([1.0, 2.0])
            call("Norm", {"self": x, "pScalar": p, "dim": dims, "keepdim": k}, {"out": (d, torch.linalg.vector_norm(w, p, dims, keep))})
            one = chosen(x.shape, False)[0]
            call("Softmax", {"self": x, "dim": Int(one)}, {"out": (d, w.softmax(one))})
            call("LogSoftmax", {"self": x, "dim": Int(one)}, {"out": (d, w.log_softmax(one))})
            g, y = tensor(d, x.shape), w.softmax(one).to(d)
            call("SoftmaxBackward", {"gradOutput": g, "output": y, "dim": Int(one)}, {"out": (d, torch._softmax_backward_data(wide(g), wide(y), one % x.dim(), f64))})
            call("Cumsum", {"self": x, "dim": Int(one), "dtype": Kind(d)}, {"out": (d, w.cumsum(one))})
            z = tensor(d, x.shape, 0.5, 1.5)
            call("Cumprod", {"input": z, "dim": one, "dtype": Kind(d)}, {"out": (d, wide(z).cumprod(one))})
            call("ProdDim", {"self": z, "dim": Int(one), "keepDim": k, "dtype": Kind(d)}, {"out": (d, wide(z).prod(one, keep))})
        attempt("reductions", make)
    for d in FLOATS + WHOLE:
        def ordered():
            s = shape(1, 3, 9)
            x = torch.randperm(math.prod(s)).reshape(s).to(d)  # no two are equal: where the result comes from is one place
            one = chosen(s, False)[0]
            keep, down = r.random() < 0.5, r.random() < 0.5
            k = ("bool", keep)
            call("ArgMax", {"self": x, "dim": Int(one), "keepdim": k}, {"out": (i64, x.argmax(one, keep))})
            call("ArgMin", {"self": x, "dim": Int(one), "keepdim": k}, {"out": (i64, x.argmin(one, keep))})
            v, i = x.sort(dim=one, descending=down, stable=True)
            call("Sort", {"self": x, "stable": ("bool", True), "dim": Int(one), "descending": ("bool", down)}, {"valuesOut": (d, v), "indicesOut": (i64, i)})
            n = r.randint(1, s[one])
            v, i = x.topk(n, one, down, True)
            call("Topk", {"self": x, "k": Int(n), "dim": Int(one), "largest": ("bool", down), "sorted": ("bool", True)}, {"valuesOut": (d, v), "indicesOut": (i64, i)})
            v, i = x.kthvalue(n, one, keep)
            call("Kthvalue", {"self": x, "k": Int(n), "dim": Int(one), "keepdim": k}, {"valuesOut": (d, v), "indicesOut": (i64, i)})
            for name, f in (("Cummax", torch.cummax), ("Cummin", torch.cummin)):
                v, i = f(x, one)
                call(name, {"self": x, "dim": Int(one)}, {"valuesOut": (d, v), "indicesOut": (i64, i)})
        attempt("ordered", ordered)
    for d in FLOATS + WHOLE + (boolean,):
        def truth():
            x = tensor(d, shape(), -1, 1)
            dims, keep = chosen(x.shape), r.random() < 0.5
            y, z = x.bool(), x.bool()
            for i in sorted([n % x.dim() for n in dims], reverse=True):
                y, z = y.all(i, True), z.any(i, True)
            if not keep:
                drop = sorted([n % x.dim() for n in dims], reverse=True)
                for i in drop:
                    y, z = y.squeeze(i), z.squeeze(i)
            call("All", {"self": x, "dim": dims, "keepdim": ("bool", keep)}, {"out": (boolean, y)})
            call("Any", {"self": x, "dim": dims, "keepdim": ("bool", keep)}, {"out": (boolean, z)})
        attempt("truth", truth)


def places():
    for d in NUMBERS + (boolean,):
        def make():
            x = tensor(d, shape(1, 4))
            w, one = wide(x), chosen(x.shape, False)[0]
            n = x.shape[one]
            index = torch.randint(0, n, (r.randint(1, 6),))
            call("IndexSelect", {"self": x, "dim": Int(one), "index": index}, {"out": (d, w.index_select(one, index))})
            s = [r.randint(1, k) for k in x.shape]
            index = torch.randint(0, n, s)
            call("Gather", {"self": x, "dim": Int(one), "index": index}, {"out": (d, w.gather(one, index))})
            dims = chosen(x.shape)
            call("Flip", {"self": x, "dims": dims}, {"out": (d, w.flip(dims))})
            shifts = [r.randint(-5, 5) for _ in dims]
            call("Roll", {"x": x, "shifts": shifts, "dims": dims}, {"out": (d, w.roll(shifts, dims))})
            order = list(range(x.dim()))
            r.shuffle(order)
            call("Permute", {"self": x, "dims": order}, {"out": (d, w.permute(order))})
            times = [r.randint(1, 3) for _ in x.shape]
            call("Repeat", {"self": x, "repeats": times}, {"out": (d, w.repeat(times))})
            others = [x] + [tensor(d, [k if i != one % x.dim() else r.randint(1, 4) for i, k in enumerate(x.shape)]) for _ in range(r.randint(1, 3))]
            call("Cat", {"tensors": others, "dim": Int(one)}, {"out": (d, torch.cat([wide(t) for t in others], one))})
            same = [x, tensor(d, x.shape), tensor(d, x.shape)]
            call("Stack", {"tensors": same, "dim": Int(one)}, {"out": (d, torch.stack([wide(t) for t in same], one))})
            m = tensor(d, shape(2, 4))
            k = r.randint(-2, 2)
            call("Tril", {"self": m, "diagonal": Int(k)}, {"out": (d, wide(m).tril(k))})
            call("Triu", {"self": m, "diagonal": Int(k)}, {"out": (d, wide(m).triu(k))})
        attempt("places", make)
    for d in FLOATS + WHOLE:
        def make():
            x = tensor(d, shape(1, 3))
            one = chosen(x.shape, False)[0]
            s = [r.randint(1, k) for k in x.shape]
            index = torch.stack([torch.randperm(x.shape[one])[: s[one]] for _ in range(max(math.prod(s) // s[one], 1))])
            moved = [k for i, k in enumerate(s) if i != one % x.dim()]
            index = index.reshape(moved + [s[one]]).movedim(-1, one)
            src = tensor(d, s)
            call("Scatter", {"self": x, "dim": Int(one), "index": index, "src": src, "reduce": Int(0)}, {"out": (d, wide(x).scatter(one, index, wide(src)))})
            call("ScatterAdd", {"self": x, "dim": Int(one), "index": index, "src": src}, {"out": (d, wide(x).scatter_add(one, index, wide(src)))})
            pads = [r.randint(0, 2) for _ in range(2 * r.randint(1, x.dim()))]
            call("ConstantPadNd", {"self": x, "pad": pads, "value": 2}, {"out": (d, F.pad(wide(x), pads, value=2))})
            t = tensor(d, [r.randint(1, 9), r.randint(1, 9)])
            index = torch.randint(0, t.shape[0], shape(1, 2))
            call("Embedding", {"weight": t, "indices": index}, {"out": (d, F.embedding(index, wide(t)))})
        attempt("writes", make)


def matrices():
    n = lambda: r.choice([1, 3, 8, 17, 32, 65])
    for d in FLOATS:
        def make():
            m, k, c, b = n(), n(), n(), r.randint(1, 3)
            x, y = tensor(d, [m, k]), tensor(d, [k, c])
            cube = {"cubeMathType": Int(0)}
            call("Mm", {"self": x, "mat2": y, **cube}, {"out": (d, wide(x) @ wide(y))})
            call("Matmul", {"self": x, "mat2": y, **cube}, {"out": (d, wide(x) @ wide(y))})
            v, z = tensor(d, [k]), tensor(d, [m, c])
            call("Mv", {"self": x, "vec": v, **cube}, {"out": (d, wide(x) @ wide(v))})
            call("Addmm", {"self": z, "mat1": x, "mat2": y, "beta": 0.5, "alpha": 2.0, **cube}, {"out": (d, torch.addmm(wide(z), wide(x), wide(y), beta=0.5, alpha=2.0))})
            p, q = tensor(d, [b, m, k]), tensor(d, [b, k, c])
            call("BatchMatMul", {"self": p, "mat2": q, **cube}, {"out": (d, wide(p) @ wide(q))})
            s = tensor(d, [b, m, c])
            call("Baddbmm", {"self": s, "batch1": p, "batch2": q, "beta": 0.5, "alpha": 2.0, **cube}, {"out": (d, torch.baddbmm(wide(s), wide(p), wide(q), beta=0.5, alpha=2.0))})
            if d != bf16:
                u, w = tensor(d, [m]), tensor(d, [c])
                call("Ger", {"self": u, "vec2": w}, {"out": (d, torch.outer(wide(u), wide(w)))})
            e, g = tensor(d, [k]), tensor(d, [k])
            call("Dot", {"self": e, "tensor": g}, {"out": (d, wide(e) @ wide(g))})
        attempt("matrices", make)


def layers():
    for d in FLOATS:
        def make():
            s = [r.randint(1, 3), r.randint(1, 5), r.choice([4, 8, 30])]
            x, g, b = tensor(d, s), tensor(d, s[-1:], 0.5, 1.5), tensor(d, s[-1:])
            w = wide(x)
            mean, var = w.mean(-1, True), w.var(-1, unbiased=False, keepdim=True)
            rstd = (var + 1e-5).rsqrt()
            call("LayerNorm", {"input": x, "normalizedShape": s[-1:], "weightOptional": g, "biasOptional": b, "eps": ("double", 1e-5)},
                 {"out": (d, F.layer_norm(w, s[-1:], wide(g), wide(b), 1e-5)), "meanOutOptional": (f32, mean), "rstdOutOptional": (f32, rstd)})
            square = (w * w).mean(-1, True)
            call("RmsNorm", {"x": x, "gamma": g, "epsilon": ("double", 1e-6)}, {"yOut": (d, w * (square + 1e-6).rsqrt() * wide(g)), "rstdOut": (f32, (square + 1e-6).rsqrt())})
        attempt("norms", make)
        def images():
            b, c, h, w = r.randint(1, 2), r.choice([2, 4]), r.randint(5, 9), r.randint(5, 9)
            x = tensor(d, [b, c, h, w])
            v = wide(x)
            o, size, stride, pad, groups = r.choice([2, 4]), r.randint(1, 3), r.randint(1, 2), r.randint(0, 1), r.choice([1, 2])
            k, bias = tensor(d, [o, c // groups, size, size]), tensor(d, [o])
            y = F.conv2d(v, wide(k), wide(bias), stride, pad, 1, groups)
            geometry = {"stride": [stride] * 2, "padding": [pad] * 2, "dilation": [1, 1], "transposed": ("bool", False), "outputPadding": [0, 0], "groups": Int(groups), "cubeMathType": Int(0)}
            call("Convolution", {"input": x, "weight": k, "bias": bias, **geometry}, {"output": (d, y)})
            g, xs, ks = tensor(d, list(y.shape)), v.clone().requires_grad_(), wide(k).clone().requires_grad_()
            F.conv2d(xs, ks, None, stride, pad, 1, groups).backward(wide(g))
            call("ConvolutionBackward", {"gradOutput": g, "input": x, "weight": k, "biasSizes": [o], **geometry, "outputMask": [True, True, True]},
                 {"gradInput": (d, xs.grad), "gradWeight": (d, ks.grad), "gradBias": (d, wide(g).sum((0, 2, 3)))})
            window = {"kernelSize": [size + 1] * 2, "ceilMode": ("bool", False), "countIncludePad": ("bool", r.random() < 0.5), "cubeMathType": Int(0)}
            include = window["countIncludePad"][1]
            y = F.avg_pool2d(v, size + 1, stride, pad, False, include)
            call("AvgPool2d", {"self": x, **window, "strides": [stride] * 2, "paddings": [pad] * 2}, {"out": (d, y)})
            g, xs = tensor(d, list(y.shape)), v.clone().requires_grad_()
            F.avg_pool2d(xs, size + 1, stride, pad, False, include).backward(wide(g))
            call("AvgPool2dBackward", {"gradOutput": g, "self": x, **window, "stride": [stride] * 2, "padding": [pad] * 2}, {"gradInput": (d, xs.grad)})
            out = [r.randint(1, 5), r.randint(1, 5)]
            call("AdaptiveAvgPool2d", {"self": x, "outputSize": out}, {"out": (d, F.adaptive_avg_pool2d(v, out))})
            out = [r.randint(4, 15), r.randint(4, 15)]
            call("UpsampleNearest2d", {"self": x, "outputSize": out}, {"out": (d, F.interpolate(v, out, mode="nearest"))})
            call("UpsampleBilinear2d", {"self": x, "outputSize": out, "alignCorners": ("bool", True)}, {"out": (d, F.interpolate(v, out, mode="bilinear", align_corners=True))})
            grid = tensor(d, [b, 4, 5, 2], -1.2, 1.2)
            for mode, kind in enumerate(("bilinear",)):
                for padding, how in enumerate(("zeros", "border", "reflection")):
                    call("GridSampler2D", {"input": x, "grid": grid, "interpolationMode": Int(mode), "paddingMode": Int(padding), "alignCorners": ("bool", True)},
                         {"out": (d, F.grid_sample(v, wide(grid), kind, how, True))})
            call("Im2col", {"self": x, "kernelSize": [2, 2], "dilation": [1, 1], "padding": [pad] * 2, "stride": [stride] * 2}, {"out": (d, F.unfold(v, 2, 1, pad, stride))})
            call("ReflectionPad2d", {"self": x, "padding": [1, 2, 3, 0]}, {"out": (d, F.pad(v, [1, 2, 3, 0], mode="reflect"))})
            call("ReplicationPad2d", {"self": x, "padding": [1, 2, 3, 0]}, {"out": (d, F.pad(v, [1, 2, 3, 0], mode="replicate"))})
        attempt("images", images)
        def losses():
            s = shape(2, 2)
            x, y = tensor(d, s), tensor(d, s)
            for reduction, how in enumerate(("none", "mean", "sum")):
                kind = {"reduction": Int(reduction)}
                call("MseLoss", {"self": x, "target": y, **kind}, {"out": (d, F.mse_loss(wide(x), wide(y), reduction=how))})
                call("L1Loss", {"self": x, "target": y, **kind}, {"out": (d, F.l1_loss(wide(x), wide(y), reduction=how))})
                call("SmoothL1Loss", {"self": x, "target": y, **kind, "beta": ("double", 1.0)}, {"result": (d, F.smooth_l1_loss(wide(x), wide(y), reduction=how))})
                p, q = tensor(d, s, 0.1, 0.9), tensor(d, s, 0, 1)
                call("BinaryCrossEntropy", {"self": p, "target": q, **kind}, {"out": (d, F.binary_cross_entropy(wide(p), wide(q), reduction=how))})
                call("BinaryCrossEntropyWithLogits", {"self": x, "target": q, **kind}, {"out": (d, F.binary_cross_entropy_with_logits(wide(x), wide(q), reduction=how))})
                call("KlDiv", {"self": x, "target": p, **kind, "logTarget": ("bool", False)}, {"out": (d, F.kl_div(wide(x), wide(p), reduction=how))})
        attempt("losses", losses)


out, repeats = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8
for _ in range(repeats):
    for family in (pointwise, reductions, places, matrices, layers):
        family()
with gzip.GzipFile(out + "/calls.jsonl.gz", "wb", mtime=0) as f:
    f.write(("\n".join(lines) + "\n").encode())
print(len(lines), "calls of", len({json.loads(x)["Operator"] for x in lines}), "operators")
for what, n in sorted(skipped.items()):
    print("skipped", n, what)
