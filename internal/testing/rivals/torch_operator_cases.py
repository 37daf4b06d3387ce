"""The cases of torch_operators.py, by family, with the names that BenchmarkOperators has."""

import torch
import torch.nn.functional as F

SIDE = 1024
MILLION = SIDE * SIDE
aten = torch.ops.aten
f32, f16, bf16, f64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
i64, i32, u8, yes = torch.int64, torch.int32, torch.uint8, torch.bool
SINGLE = [f32]
FLOATS = [f32, bf16, f16]
NUMBERS = [f32, bf16, f16, i64, i32]
INTEGERS = [i64, i32, u8]
WAYS = [("all", [0, 1]), ("dim0", [0]), ("dim1", [1])]


def named(name, dtype):
    return f"{name}.{str(dtype).removeprefix('torch.')}"


def shaped(shape):
    return shape or (SIDE, SIDE)


def normal(dtype, *shape):
    return torch.randn(shaped(shape)).to(dtype)


def uniform(dtype, low, high, *shape):
    return torch.empty(shaped(shape)).uniform_(low, high).to(dtype)


def ints(dtype, end, *shape):
    return torch.randint(0, int(end), shaped(shape)).to(dtype)


def full(dtype, v, *shape):
    return torch.full(shaped(shape), v, dtype=dtype)


def out(dtype, *shape):
    return torch.zeros(shaped(shape), dtype=dtype)


def image(dtype=f32):
    return torch.randn(16, 64, 32, 32).to(dtype)


def filled(f, *args, result):
    """The call of a function that has the keyword out."""
    return lambda: f(*args, out=result)


def elementwise(add):
    a = aten
    unaries = {
        "abs": (torch.abs, 0, 0, NUMBERS), "acos": (torch.acos, -1, 1, SINGLE), "acosh": (torch.acosh, 1.1, 3, SINGLE),
        "asin": (torch.asin, -1, 1, FLOATS), "asinh": (torch.asinh, 0, 0, SINGLE), "atan": (torch.atan, 0, 0, SINGLE),
        "atanh": (torch.atanh, -.9, .9, SINGLE), "bitwise_not": (torch.bitwise_not, 0, 100, INTEGERS),
        "ceil": (torch.ceil, 0, 0, SINGLE), "cos": (torch.cos, 0, 0, FLOATS), "cosh": (torch.cosh, 0, 0, SINGLE),
        "digamma": (torch.digamma, .1, 3, SINGLE), "erf": (torch.erf, 0, 0, FLOATS), "erfc": (torch.erfc, 0, 0, SINGLE),
        "erfinv": (torch.erfinv, -.9, .9, SINGLE), "exp": (torch.exp, 0, 0, FLOATS + [f64]), "exp2": (torch.exp2, 0, 0, SINGLE),
        "expm1": (torch.expm1, 0, 0, SINGLE), "floor": (torch.floor, 0, 0, FLOATS), "frac": (torch.frac, 0, 0, SINGLE),
        "gelu": (a.gelu.out, 0, 0, FLOATS), "hardsigmoid": (a.hardsigmoid.out, 0, 0, SINGLE),
        "hardswish": (a.hardswish.out, 0, 0, SINGLE), "lgamma": (torch.lgamma, .1, 3, SINGLE),
        "log": (torch.log, .1, 3, FLOATS + [f64]), "log10": (torch.log10, .1, 3, SINGLE), "log1p": (torch.log1p, .1, 3, SINGLE),
        "log2": (torch.log2, .1, 3, SINGLE), "log_sigmoid": (a.log_sigmoid.out, 0, 0, SINGLE),
        "logical_not": (torch.logical_not, 0, 0, SINGLE), "mish": (a.mish.out, 0, 0, SINGLE), "neg": (torch.neg, 0, 0, NUMBERS),
        "reciprocal": (torch.reciprocal, .1, 3, FLOATS), "round": (torch.round, 0, 0, FLOATS),
        "rsqrt": (torch.rsqrt, .1, 3, FLOATS), "sigmoid": (torch.sigmoid, 0, 0, FLOATS), "sign": (torch.sign, 0, 0, NUMBERS),
        "signbit": (torch.signbit, 0, 0, SINGLE), "silu": (a.silu.out, 0, 0, FLOATS), "sin": (torch.sin, 0, 0, FLOATS),
        "sinc": (torch.sinc, 0, 0, SINGLE), "sinh": (torch.sinh, 0, 0, SINGLE), "sqrt": (torch.sqrt, .1, 3, FLOATS + [f64]),
        "tan": (torch.tan, 0, 0, FLOATS), "tanh": (torch.tanh, 0, 0, FLOATS), "trunc": (torch.trunc, 0, 0, SINGLE),
        "relu": (lambda x, out: torch.clamp_min(x, 0, out=out), 0, 0, NUMBERS),
        "selu": (lambda x, out: a.elu.out(x, 1.6732632423543772, 1.0507009873554805, 1, out=out), 0, 0, SINGLE),
    }
    truths = {"logical_not", "signbit", "eq", "le", "logical_and", "logical_xor", "eq_scalar", "gt_scalar"}
    for name, (f, low, high, dtypes) in unaries.items():
        for dt in dtypes:
            def setup(name=name, f=f, low=low, high=high, dt=dt):
                if dt in (i64, i32):
                    x = ints(dt, 100)
                else:
                    x = uniform(dt, low, high) if low != high else normal(dt)
                return filled(f, x, result=out(yes if name in truths else dt))
            add(named(name, dt), setup)
    for name, f in {"isfinite": torch.isfinite, "isinf": torch.isinf}.items():
        add(name + ".float32", lambda f=f: lambda x=normal(f32): f(x))

    binaries = {
        "atan2": (torch.atan2, SINGLE), "bitwise_and": (torch.bitwise_and, INTEGERS), "bitwise_xor": (torch.bitwise_xor, [i64]),
        "div": (torch.div, FLOATS), "eq": (torch.eq, NUMBERS), "floor_divide": (torch.floor_divide, NUMBERS),
        "fmod": (torch.fmod, NUMBERS), "gcd": (torch.gcd, [i64, i32]), "heaviside": (torch.heaviside, SINGLE),
        "le": (torch.le, NUMBERS), "logaddexp": (torch.logaddexp, SINGLE), "logaddexp2": (torch.logaddexp2, SINGLE),
        "logical_and": (torch.logical_and, SINGLE), "logical_xor": (torch.logical_xor, SINGLE),
        "maximum": (torch.maximum, NUMBERS), "minimum": (torch.minimum, SINGLE), "mul": (torch.mul, NUMBERS + [f64]),
        "pow": (torch.pow, NUMBERS), "remainder": (torch.remainder, NUMBERS), "xlogy": (torch.xlogy, SINGLE),
    }
    for name, (f, dtypes) in binaries.items():
        for dt in dtypes:
            def setup(name=name, f=f, dt=dt):
                if dt.is_floating_point:
                    x, y = uniform(dt, .1, 3), uniform(dt, .5, 2)
                else:
                    x, y = ints(dt, 100), ints(dt, 9) + 1
                return filled(f, x, y, result=out(yes if name in truths else dt))
            add(named(name, dt), setup)
    for dt in NUMBERS + [f64]:
        add(named("add", dt), lambda dt=dt: filled(torch.add, ints(dt, 100), ints(dt, 100), result=out(dt)))
        add(named("sub_alpha", dt), lambda dt=dt: lambda x=ints(dt, 100), y=ints(dt, 100), r=out(dt): torch.sub(x, y, alpha=2, out=r))

    numbers = {
        "mul_scalar": (torch.mul, 3, NUMBERS), "div_scalar": (torch.div, 3, FLOATS), "pow2": (torch.pow, 2, NUMBERS),
        "pow3": (torch.pow, 3, SINGLE), "pow_half": (torch.pow, .5, SINGLE), "pow_other": (torch.pow, 2.3, SINGLE),
        "fmod_scalar": (torch.fmod, 3, NUMBERS), "remainder_scalar": (torch.remainder, 3, NUMBERS),
        "clamp_min": (torch.clamp_min, 1, NUMBERS), "clamp_max": (torch.clamp_max, 1, SINGLE), "eq_scalar": (torch.eq, 1, NUMBERS),
        "gt_scalar": (torch.gt, 1, SINGLE), "bitwise_or_scalar": (torch.bitwise_or, 3, INTEGERS),
        "leaky_relu": (a.leaky_relu.out, .1, FLOATS), "hardshrink": (a.hardshrink.out, .5, SINGLE),
        "softshrink": (a.softshrink.out, .5, SINGLE), "celu": (lambda x, n, out: a.elu.out(x, n, 1, 1 / n, out=out), 1.5, SINGLE),
    }
    for name, (f, number, dtypes) in numbers.items():
        for dt in dtypes:
            def setup(name=name, f=f, number=number, dt=dt):
                x = uniform(dt, .1, 3) if dt.is_floating_point else ints(dt, 100)
                return filled(f, x, number, result=out(yes if name in truths else dt))
            add(named(name, dt), setup)
    for dt in NUMBERS:
        def setup(dt=dt):
            x = uniform(dt, .1, 3) if dt.is_floating_point else ints(dt, 100)
            return lambda: torch.floor_divide(x, 3)
        add(named("floor_divide_scalar", dt), setup)
        add(named("add_scalar", dt), lambda dt=dt: filled(torch.add, ints(dt, 100), 3, result=out(dt)))

    def rest(name, f, *tensors, result=f32):
        add(name, lambda: filled(f, *[t() if callable(t) else t for t in tensors], result=out(result)))

    def n():
        return normal(f32)

    rest("pow_scalar_tensor.float32", torch.pow, 2.5, n)
    add("remainder_scalar_tensor.float32", lambda: lambda x=uniform(f32, .1, 1): torch.remainder(2.5, x))
    rest("lerp.float32", torch.lerp, n, n, lambda: uniform(f32, 0, 1))
    rest("lerp_scalar.float32", torch.lerp, n, n, .3)
    rest("addcmul.float32", lambda x, y, z, out: torch.addcmul(x, y, z, value=.5, out=out), n, n, n)
    rest("addcdiv.float32", lambda x, y, z, out: torch.addcdiv(x, y, z, value=.5, out=out), n, n, lambda: uniform(f32, 1, 2))
    rest("clamp_tensor.float32", torch.clamp, n, lambda: uniform(f32, -1, 0), lambda: uniform(f32, 0, 1))
    rest("clamp.float32", torch.clamp, n, -.5, .5)
    rest("clamp.bfloat16", torch.clamp, lambda: normal(bf16), -.5, .5, result=bf16)
    rest("clamp.int64", torch.clamp, lambda: ints(i64, 1000), 100, 900, result=i64)
    rest("where.float32", torch.where, lambda: ints(yes, 2), n, n)
    rest("where_column.float32", torch.where, lambda: ints(yes, 2, SIDE, 1), n, lambda: normal(f32, SIDE))
    rest("nan_to_num.float32", torch.nan_to_num, n, 0., 1., -1.)
    rest("logit.float32", torch.logit, lambda: uniform(f32, 0, 1), 1e-3)
    rest("round_decimals.float32", lambda x, out: torch.round(x, decimals=2, out=out), n)
    rest("polar.float32", torch.polar, lambda: uniform(f32, 0, 1), n, result=torch.complex64)
    rest("complex.float32", torch.complex, n, n, result=torch.complex64)
    rest("add_row.float32", torch.add, n, lambda: normal(f32, SIDE))
    rest("add_column.float32", torch.add, n, lambda: normal(f32, SIDE, 1))
    rest("add_transposed.float32", torch.add, n, lambda: n().t())
    rest("add_mixed.float32", torch.add, n, lambda: normal(bf16))
    rest("mul_strided.float32", torch.mul, lambda: normal(f32, SIDE, 2 * SIDE)[:, ::2], lambda: normal(f32, SIDE, 2 * SIDE)[:, ::2])
    add("isclose.float32", lambda: lambda x=n(), y=n(): torch.isclose(x, y))


def reductions(add):
    for way, axes in WAYS:
        left = [SIDE] * (2 - len(axes))

        def result(dt, left=left):
            return torch.zeros(left, dtype=dt)

        def each(name, dt, x, f, axes=axes, way=way, result=result):
            add(named(f"{name}_{way}", dt), lambda: filled(f, x(), axes, result=result(dt)))

        for dt in (f32, bf16, i64):
            def x(dt=dt):
                return ints(dt, 200)
            each("sum", dt, x, torch.sum)
            each("amax", dt, x, torch.amax)
            if dt == i64:
                continue
            each("mean", dt, x, torch.mean)
            if dt == bf16:
                continue

            def x(dt=dt):
                return normal(dt)
            if len(axes) == 1:
                add(named(f"aminmax_{way}", dt), lambda axes=axes: lambda x=normal(f32): torch.aminmax(x, dim=axes[0]))
            else:
                add(named(f"aminmax_{way}", dt), lambda: lambda x=normal(f32): torch.aminmax(x))
            each("amin", dt, x, torch.amin)
            each("var", dt, x, torch.var)
            each("std", dt, x, torch.std)
            add(named(f"var_mean_{way}", dt), lambda axes=axes: lambda x=normal(f32): torch.var_mean(x, axes))
            each("logsumexp", dt, x, torch.logsumexp)
            each("nansum", dt, x, torch.nansum)
            for p in (1, 2, 3):
                each(f"norm{p}", dt, x, lambda x, axes, out, p=p: torch.linalg.vector_norm(x, p, axes, out=out))
            each("all", yes, lambda: full(yes, True), torch.all)
            each("any", yes, lambda: full(yes, False), torch.any)

    def pair(name, dt, x, f, *args, **kw):
        """A function with two results, of which the first call decides the shapes."""
        def setup():
            t = x()
            results = f(t, *args, **kw)
            return lambda: f(t, *args, out=tuple(results), **kw)
        add(named(name, dt), setup)

    for axis, (way, _) in enumerate(WAYS[1:]):
        for dt in (f32, i64):
            def x(dt=dt):
                return ints(dt, 1e6)
            add(named(f"argmax_{way}", dt), lambda x=x, axis=axis: filled(torch.argmax, x(), axis, result=torch.zeros(SIDE, dtype=i64)))
            pair(f"max_{way}", dt, x, torch.max, axis)
            pair(f"median_{way}", dt, x, torch.median, axis)
            pair(f"kthvalue_{way}", dt, x, torch.kthvalue, 100, axis)
            add(named(f"cumsum_{way}", dt), lambda x=x, axis=axis, dt=dt: filled(torch.cumsum, x(), axis, result=out(dt)))
            pair(f"cummax_{way}", dt, x, torch.cummax, axis)
            pair(f"sort_{way}", dt, x, torch.sort, dim=axis, stable=True)
            pair(f"topk50_{way}", dt, x, torch.topk, 50, axis)

        def x():
            return normal(f32)

        def near():
            return uniform(f32, .9, 1.1)
        add(named(f"argmin_{way}", f32), lambda axis=axis, x=x: filled(torch.argmin, x(), axis, result=torch.zeros(SIDE, dtype=i64)))
        pair(f"cummin_{way}", f32, x, torch.cummin, axis)
        add(named(f"cumprod_{way}", f32), lambda axis=axis, x=near: filled(torch.cumprod, x(), axis, result=out(f32)))
        add(named(f"prod_{way}", f32), lambda axis=axis, x=near: filled(torch.prod, x(), axis, result=torch.zeros(SIDE)))
        add(named(f"cumsum_{way}", bf16), lambda axis=axis: filled(torch.cumsum, normal(bf16), axis, result=out(bf16)))
        add(named(f"renorm_{way}", f32), lambda axis=axis, x=x: filled(torch.renorm, x(), 2, axis, 1, result=out(f32)))

    for dt in (f32, bf16, i64, i32):
        def x(dt=dt):
            return ints(dt, 1e6, MILLION)
        pair("sort_million", dt, x, torch.sort)
        pair("topk100", dt, x, torch.topk, 100)
        pair("topk10000", dt, x, torch.topk, 10000, largest=False)
        pair("kthvalue_million", dt, x, torch.kthvalue, MILLION // 2)
        add(named("unique", dt), lambda x=x: lambda x=x(): torch.unique(x, return_inverse=True, return_counts=True))
        add(named("unique_few", dt), lambda dt=dt: lambda x=ints(dt, 100, MILLION): torch.unique(x))
        add(named("unique_consecutive", dt), lambda dt=dt: lambda x=ints(dt, 2, MILLION): torch.unique_consecutive(x, return_inverse=True, return_counts=True))
        add(named("argmax_million", dt), lambda x=x: lambda x=x(): torch.argmax(x, 0))
        add(named("cumsum_million", dt), lambda x=x, dt=dt: filled(torch.cumsum, x(), 0, result=out(dt, MILLION)))
    for name, f, x in (
        ("argsort_million.float32", lambda x: torch.argsort(x, descending=True), lambda: normal(f32, MILLION)),
        ("max.float32", torch.max, lambda: normal(f32)),
        ("max.int64", torch.max, lambda: ints(i64, 1e6)),
        ("prod_all.float32", torch.prod, lambda: uniform(f32, .9, 1.1)),
        ("median.float32", torch.median, lambda: normal(f32)),
        ("median.int64", torch.median, lambda: ints(i64, 1e6)),
        ("nanmedian.float32", torch.nanmedian, lambda: normal(f32)),
        ("trace.float32", torch.trace, lambda: normal(f32)),
        ("bincount.int64", torch.bincount, lambda: ints(i64, 1000, MILLION)),
        ("histc.float32", lambda x: torch.histc(x, 100, -3, 3), lambda: normal(f32, MILLION)),
        ("unique_dim.int64", lambda x: torch.unique(x, return_inverse=True, dim=0), lambda: ints(i64, 4, 1 << 18, 4)),
        ("isin.int64", lambda x: torch.isin(x, 7), lambda: ints(i64, 1000)),
    ):
        add(name, lambda f=f, x=x: lambda x=x(): f(x))
    add("equal.float32", lambda: lambda x=full(f32, 1), y=full(f32, 1): torch.equal(x, y))
    add("bincount_weights.int64", lambda: lambda x=ints(i64, 1000, MILLION), w=normal(f32, MILLION): torch.bincount(x, w))
    add("searchsorted.float32", lambda: filled(torch.searchsorted, torch.arange(1000.), uniform(f32, 0, 1000, MILLION), result=out(i64, MILLION)))


def indices(add):
    for axis, (way, _) in enumerate(WAYS[1:]):
        for dt in (f32, bf16, i64):
            def each(name, make, way=way, dt=dt):
                add(named(f"{name}_{way}", dt), make)

            def x(dt=dt):
                return ints(dt, 100)

            def at():
                return ints(i64, SIDE)

            def row():
                return torch.randperm(SIDE)

            def over(f, *tensors, axis=axis, dt=dt, **kw):
                """The call of f(x, axis, tensors…) to a result of x's shape."""
                def setup():
                    t, r = [make() for make in tensors], out(dt)
                    return lambda: f(t[0], axis, *t[1:], out=r, **kw)
                return setup

            each("gather", over(torch.gather, x, at))
            each("index_select", over(torch.index_select, x, row))
            each("scatter", over(torch.scatter, x, at, x))
            each("scatter_add", over(torch.scatter_add, x, at, x))
            each("index_add", over(torch.index_add, x, row, x))
            if dt != f32:
                continue
            each("scatter_value", over(torch.scatter, x, at, lambda: 3.))
            for name, reduce in (("max", "amax"), ("mean", "mean"), ("prod", "prod")):
                each(f"scatter_reduce_{name}", over(torch.scatter_reduce, x, at, x, reduce=reduce))
            each("index_copy", lambda axis=axis, x=x, row=row: lambda s=x(), i=row(), y=x(): s.index_copy_(axis, i, y))
            each("index_fill", lambda axis=axis, x=x, row=row: lambda s=x(), i=row(): s.index_fill_(axis, i, 1.))

    def n():
        return normal(f32)

    def spots():
        return ints(i64, SIDE, MILLION)

    for name, make in {
        "gather_million": lambda: filled(torch.gather, normal(f32, MILLION), 0, ints(i64, MILLION, MILLION), result=out(f32, MILLION)),
        "take": lambda: filled(torch.take, n(), ints(i64, MILLION, MILLION), result=out(f32, MILLION)),
        "put": lambda: lambda s=n(), i=torch.randperm(MILLION), y=normal(f32, MILLION): s.put_(i, y),
        "put_accumulate": lambda: lambda s=n(), i=ints(i64, MILLION, MILLION), y=normal(f32, MILLION): s.put_(i, y, accumulate=True),
        "index_pairs": lambda: lambda s=n(), i=spots(), j=spots(): s[i, j],
        "index_put": lambda: lambda s=n(), i=torch.randperm(SIDE), y=n(): s.index_put_((i,), y),
        "index_put_accumulate": lambda: lambda s=n(), i=spots(), j=spots(), y=normal(f32, MILLION): s.index_put_((i, j), y, accumulate=True),
        "masked_fill": lambda: lambda s=n(), m=ints(yes, 2): s.masked_fill_(m, 1.),
        "masked_fill_rows": lambda: lambda s=n(), m=ints(yes, 2, SIDE, 1): s.masked_fill_(m, 1.),
        "masked_select": lambda: lambda s=n(), m=ints(yes, 2): torch.masked_select(s, m),
        "masked_scatter": lambda: lambda s=n(), m=ints(yes, 2), y=n(): s.masked_scatter_(m, y),
        "nonzero": lambda: lambda x=ints(f32, 2): torch.nonzero(x),
        "repeat_interleave": lambda: lambda x=normal(f32, MILLION // 4): torch.repeat_interleave(x, 4),
        "repeat_interleave_rows": lambda: lambda x=normal(f32, SIDE, SIDE // 4): torch.repeat_interleave(x, 4, 0),
        "repeat_interleave_tensor": lambda: lambda x=normal(f32, SIDE, SIDE // 4), r=full(i64, 4, SIDE): torch.repeat_interleave(x, r, 0, output_size=4 * SIDE),
        "embedding": lambda: lambda w=normal(f32, 32000, 64), i=ints(i64, 32000, 16 * SIDE): F.embedding(i, w),
        "embedding_backward": lambda: lambda g=normal(f32, 16 * SIDE, 64), i=ints(i64, 32000, 16 * SIDE): aten.embedding_dense_backward(g, i, 32000, -1, False),
        "embedding_bag": lambda: lambda w=normal(f32, 32000, 64), i=ints(i64, 32000, 16 * SIDE), o=torch.arange(0, 16 * SIDE, 16): F.embedding_bag(i, w, o, mode="sum"),
        "gather_nd": lambda: lambda s=n(), i=ints(i64, SIDE, MILLION, 2): s[i[:, 0], i[:, 1]],
        "scatter_nd": lambda: lambda s=n(), i=ints(i64, SIDE, SIDE), y=n(): s.index_put_((i,), y),
    }.items():
        add(name + ".float32", make)
    add("nonzero.bool", lambda: lambda x=ints(yes, 2): torch.nonzero(x))
    add("one_hot.int64", lambda: lambda x=ints(i64, 100, 10000): F.one_hot(x, 100))
    add("embedding.bfloat16", lambda: lambda w=normal(bf16, 32000, 64), i=ints(i64, 32000, 16 * SIDE): F.embedding(i, w))


def layouts(add):
    for dt in (f32, bf16, i64, yes):
        def each(name, make, dt=dt):
            add(named(name, dt), make)

        def x(*shape, dt=dt):
            return ints(dt, 2, *shape)

        def r(*shape, dt=dt):
            return out(dt, *shape)

        def copied(source, r=r):
            def setup():
                s, t = source(), r()
                return lambda: t.copy_(s)
            return setup

        each("copy", copied(x))
        each("transpose", copied(lambda x=x: x().t()))
        each("copy_strided", copied(lambda x=x: x(SIDE, 2 * SIDE)[:, ::2]))
        each("expand", copied(lambda x=x: x(SIDE, 1).expand(SIDE, SIDE)))
        for axis, (way, _) in enumerate(WAYS[1:]):
            shape = [SIDE, SIDE]
            shape[axis] //= 4

            def parts(x=x, shape=shape):
                return [x(*shape) for _ in range(4)]
            each(f"cat_{way}", lambda parts=parts, axis=axis, r=r: filled(torch.cat, parts(), axis, result=r()))
            each(f"roll_{way}", lambda x=x, axis=axis: lambda t=x(): torch.roll(t, 100, axis))
            each(f"flip_{way}", lambda x=x, axis=axis: lambda t=x(): torch.flip(t, [axis]))
        each("stack", lambda x=x, r=r: filled(torch.stack, [x(MILLION // 4) for _ in range(4)], 1, result=r(MILLION // 4, 4)))
        each("repeat", lambda x=x: lambda t=x(SIDE // 4, SIDE // 4): t.repeat(4, 4))
        each("triu", lambda x=x, r=r: filled(torch.triu, x(), 1, result=r()))
        each("tril", lambda x=x, r=r: filled(torch.tril, x(), -1, result=r()))
        each("constant_pad", lambda x=x: lambda t=x(): F.pad(t, (2, 2, 2, 2), value=1))
    for source, to in ((f32, bf16), (bf16, f32), (f32, f16), (f16, f32), (f32, i64), (i64, f32), (f32, i32), (i32, i64), (f32, yes), (yes, f32), (f32, f64)):
        def setup(source=source, to=to):
            s, t = ints(source, 2), out(to)
            return lambda: t.copy_(s)
        add(named("cast_" + str(source).removeprefix("torch."), to), setup)

    def permuted(shape, axes):
        def setup():
            s = normal(f32, *shape).permute(axes)
            t = out(f32, *s.shape)
            return lambda: t.copy_(s)
        return setup

    pad = aten.reflection_pad2d, aten.replication_pad2d
    for name, make in {
        "permute3": permuted((64, 128, 128), (2, 0, 1)),
        "permute4": permuted((16, 64, 32, 32), (0, 2, 3, 1)),
        "diag": lambda: filled(torch.diag, normal(f32, SIDE), 0, result=out(f32)),
        "eye": lambda: filled(torch.eye, SIDE, SIDE, result=out(f32)),
        "arange": lambda: filled(torch.arange, 0, MILLION, 1, result=out(f32, MILLION)),
        "linspace": lambda: filled(torch.linspace, 0, 1, MILLION, result=out(f32, MILLION)),
        "fill": lambda: lambda t=out(f32): t.fill_(3),
        "zero": lambda: lambda t=out(f32): t.zero_(),
        "fill_diagonal": lambda: lambda t=out(f32): t.fill_diagonal_(3),
        "channel_shuffle": lambda: lambda x=image(): torch.channel_shuffle(x, 8),
        "unfold_backward": lambda: lambda g=normal(f32, SIDE // 2 - 1, SIDE // 2, 4): aten.unfold_backward(g, [SIDE, SIDE // 2], 0, 4, 2),
        "reflection_pad1d": lambda: filled(aten.reflection_pad1d.out, normal(f32, 4, 256, SIDE), [2, 2], result=out(f32, 4, 256, SIDE + 4)),
        "split": lambda: lambda x=normal(f32), r=[out(f32, SIDE, SIDE // 4) for _ in range(4)]: [t.copy_(s) for t, s in zip(r, x.split(SIDE // 4, 1))],
        "reflection_pad2d": lambda: filled(pad[0].out, image(), [1, 1, 1, 1], result=out(f32, 16, 64, 34, 34)),
        "replication_pad2d": lambda: filled(pad[1].out, image(), [1, 1, 1, 1], result=out(f32, 16, 64, 34, 34)),
        "reflection_pad2d_backward": lambda: lambda g=normal(f32, 16, 64, 34, 34), x=image(): aten.reflection_pad2d_backward(g, x, [1, 1, 1, 1]),
        "replication_pad2d_backward": lambda: lambda g=normal(f32, 16, 64, 34, 34), x=image(): aten.replication_pad2d_backward(g, x, [1, 1, 1, 1]),
    }.items():
        add(name + ".float32", make)
    add("arange.int64", lambda: filled(torch.arange, 0, MILLION, 1, result=out(i64, MILLION)))


def activations(add):
    a = aten

    def rest(name, f, *tensors, dtype=f32, shape=()):
        """A function of tensors, which are normal unless a case makes them, and numbers."""
        def setup():
            t = [normal(dtype) if v is None else v() if callable(v) else v for v in tensors]
            r = out(dtype, *shape)
            return lambda: f(*t, out=r)
        add(named(name, dtype), setup)

    def to(f, **names):
        """f with its result under another keyword than out."""
        return lambda *args, out: f(*args, **{k: out for k in names})

    for dt in FLOATS:
        rest("sigmoid_backward", to(a.sigmoid_backward.grad_input, grad_input=0), None, None, dtype=dt)
        rest("tanh_backward", to(a.tanh_backward.grad_input, grad_input=0), None, None, dtype=dt)
        rest("gelu_backward", to(a.gelu_backward.grad_input, grad_input=0), None, None, dtype=dt)
        rest("silu_backward", to(a.silu_backward.grad_input, grad_input=0), None, None, dtype=dt)
    for name, f in {"mish_backward": a.mish_backward, "hardswish_backward": a.hardswish_backward}.items():
        add(name + ".float32", lambda f=f: lambda g=normal(f32), x=normal(f32): f(g, x))
    rest("hardsigmoid_backward", to(a.hardsigmoid_backward.grad_input, grad_input=0), None, None)
    rest("elu", a.elu.out, None, 1., 1., 1.)
    rest("elu_backward", to(a.elu_backward.grad_input, grad_input=0), None, 1., 1., 1., False, None)
    rest("hardtanh", a.hardtanh.out, None, -1., 1.)
    rest("hardtanh_backward", to(a.hardtanh_backward.grad_input, grad_input=0), None, None, -1., 1.)
    rest("threshold", a.threshold.out, None, .5, 2.)
    rest("threshold_backward", to(a.threshold_backward.grad_input, grad_input=0), None, None, 0.)
    rest("softplus", a.softplus.out, None, 1., 20.)
    rest("softplus_backward", to(a.softplus_backward.grad_input, grad_input=0), None, None, 1., 20.)
    rest("leaky_relu_backward", to(a.leaky_relu_backward.grad_input, grad_input=0), None, None, .1, False)
    rest("hardshrink_backward", to(a.hardshrink_backward.grad_input, grad_input=0), None, None, .5)
    rest("softshrink_backward", to(a.softshrink_backward.grad_input, grad_input=0), None, None, .5)
    rest("logit_backward", to(a.logit_backward.grad_input, grad_input=0), None, lambda: uniform(f32, .1, .9), 1e-3)
    rest("gelu_tanh", lambda x, out: a.gelu.out(x, approximate="tanh", out=out), None)
    rest("gelu_tanh_backward", lambda g, x, out: a.gelu_backward.grad_input(g, x, approximate="tanh", grad_input=out), None, None)
    rest("glu", a.glu.out, lambda: normal(f32, SIDE, 2 * SIDE), -1)
    rest("glu_backward", to(a.glu_backward.grad_input, grad_input=0), None, lambda: normal(f32, SIDE, 2 * SIDE), -1, shape=(SIDE, 2 * SIDE))
    add("prelu.float32", lambda: lambda x=normal(f32), w=normal(f32, SIDE): F.prelu(x, w))

    def prelu_backward():
        x, w, g = normal(f32), normal(f32, 1, SIDE), normal(f32)

        def call():
            gx, gw = a._prelu_kernel_backward(g, x, w)
            return gx, gw.sum(0)
        return call
    add("prelu_backward.float32", prelu_backward)
    add("log_sigmoid_backward.float32", lambda: lambda g=normal(f32), x=normal(f32), b=out(f32): a.log_sigmoid_backward(g, x, b))
    for axis, (way, _) in enumerate(WAYS[1:]):
        for dt in FLOATS[:2]:
            def each(name, f, low, high, dt=dt, axis=axis, way=way):
                def setup():
                    g, y, r = normal(dt), uniform(dt, low, high), out(dt)
                    return lambda: f(g, y, axis, dt, r)
                add(named(f"{name}_{way}", dt), setup)
            each("softmax", lambda g, y, axis, dt, r: a._softmax.out(g, axis, False, out=r), 0, 1)
            each("log_softmax", lambda g, y, axis, dt, r: a._log_softmax.out(g, axis, False, out=r), 0, 1)
            each("softmax_backward", lambda g, y, axis, dt, r: a._softmax_backward_data.out(g, y, axis, dt, grad_input=r), 0, 1)
            each("log_softmax_backward", lambda g, y, axis, dt, r: a._log_softmax_backward_data.out(g, y, axis, dt, out=r), -1, 0)


def losses(add):
    def n():
        return normal(f32)

    def u():
        return uniform(f32, 0, 1)

    def classes():
        return ints(i64, SIDE, SIDE)

    for name, f in {"mse_loss": F.mse_loss, "l1_loss": F.l1_loss, "soft_margin_loss": F.soft_margin_loss}.items():
        for reduction in ("mean", "none"):
            add(f"{name}_{reduction}.float32", lambda f=f, reduction=reduction: lambda x=n(), y=n(): f(x, y, reduction=reduction))
    for name, make in {
        "nll_loss": lambda: lambda x=n(), t=classes(), w=full(f32, 1, SIDE): F.nll_loss(x, t, w),
        "nll_loss_backward": lambda: lambda g=torch.ones(()), x=n(), t=classes(), w=full(f32, 1, SIDE), s=torch.ones(()): aten.nll_loss_backward(g, x, t, w, 1, -100, s),
        "nll_loss2d": lambda: lambda x=normal(f32, 4, 16, 128, 128), t=ints(i64, 16, 4, 128, 128), w=full(f32, 1, 16): F.nll_loss(x, t, w),
        "cross_entropy": lambda: lambda x=n(), t=classes(): F.cross_entropy(x, t),
        "ctc_loss": lambda: lambda p=uniform(f32, -3, -1, 128, 64, 128), t=ints(i64, 127, 64, 30) + 1, i=[128] * 64, o=[30] * 64: aten._ctc_loss(p, t, i, o, 0, False),
        "bce_with_logits": lambda: lambda x=n(), y=u(): F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        "bce": lambda: lambda x=uniform(f32, .1, .9), y=u(): F.binary_cross_entropy(x, y),
        "bce_backward": lambda: lambda g=n(), x=uniform(f32, .1, .9), y=u(): aten.binary_cross_entropy_backward(g, x, y, None, 0),
        "kl_div": lambda: lambda x=n(), y=uniform(f32, .1, 1): F.kl_div(x, y, reduction="none"),
        "smooth_l1_loss": lambda: lambda x=n(), y=n(): F.smooth_l1_loss(x, y),
        "smooth_l1_loss_backward": lambda: lambda g=n(), x=n(), y=n(): aten.smooth_l1_loss_backward(g, x, y, 0, 1.),
        "mse_loss_backward": lambda: lambda g=n(), x=n(), y=n(): aten.mse_loss_backward(g, x, y, 0),
        "soft_margin_loss_backward": lambda: lambda g=n(), x=n(), y=n(): aten.soft_margin_loss_backward(g, x, y, 0),
    }.items():
        add(name + ".float32", make)


def norms(add):
    every = [True, True, True]

    def channels():
        return normal(f32, 64)

    for dt in (f32, bf16):
        add(named("layer_norm", dt), lambda dt=dt: lambda x=normal(dt), w=normal(dt, SIDE), b=normal(dt, SIDE): aten.native_layer_norm(x, [SIDE], w, b, 1e-5))
        add(named("layer_norm_backward", dt), lambda dt=dt: lambda g=normal(dt), x=normal(dt), m=normal(dt, SIDE, 1), s=uniform(dt, 1, 2, SIDE, 1), w=normal(dt, SIDE), b=normal(dt, SIDE):
            aten.native_layer_norm_backward(g, x, [SIDE], m, s, w, b, every))
        add(named("rms_norm", dt), lambda dt=dt: lambda x=normal(dt), w=normal(dt, SIDE): F.rms_norm(x, [SIDE], w, 1e-6))
    for name, make in {
        "group_norm": lambda: lambda x=image(), w=channels(), b=channels(): aten.native_group_norm(x, w, b, 16, 64, SIDE, 8, 1e-5),
        "group_norm_backward": lambda: lambda g=image(), x=image(), m=normal(f32, 16, 8), s=uniform(f32, 1, 2, 16, 8), w=channels():
            aten.native_group_norm_backward(g, x, m, s, w, 16, 64, SIDE, 8, every),
        "batch_norm": lambda: lambda x=image(), w=channels(), b=channels(), m=torch.zeros(64), v=torch.ones(64): aten.native_batch_norm(x, w, b, m, v, True, .1, 1e-5),
        "batch_norm_inference": lambda: lambda x=image(), w=channels(), b=channels(), m=torch.zeros(64), v=torch.ones(64): aten.native_batch_norm(x, w, b, m, v, False, .1, 1e-5),
        "batch_norm_backward": lambda: lambda g=image(), x=image(), w=channels(), m=torch.zeros(64), v=torch.ones(64), sm=channels(), sv=uniform(f32, 1, 2, 64):
            aten.native_batch_norm_backward(g, x, w, m, v, sm, sv, True, 1e-5, every),
    }.items():
        add(name + ".float32", make)


def windows(add):
    a = aten

    def small():
        return normal(f32, 16, 64, 16, 16)

    def cube():
        return normal(f32, 4, 8, 32, 32, 32)

    def grid():
        return uniform(f32, -1, 1, 16, 32, 32, 2)

    inner = [16, 64, 16, 16]
    for name, make in {
        "max_pool2d": lambda: lambda x=image(): F.max_pool2d(x, 2, return_indices=True),
        "max_pool2d_3x3": lambda: lambda x=image(): F.max_pool2d(x, 3, 1, 1, return_indices=True),
        "max_pool2d_backward": lambda: lambda g=small(), x=image(), i=ints(i64, SIDE, *inner): a.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, i),
        "avg_pool2d": lambda: lambda x=image(): F.avg_pool2d(x, 2),
        "avg_pool2d_3x3": lambda: lambda x=image(): F.avg_pool2d(x, 3, 1, 1),
        "avg_pool2d_backward": lambda: lambda g=small(), x=image(): a.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, None),
        "avg_pool3d": lambda: lambda x=cube(): F.avg_pool3d(x, 2),
        "max_pool3d": lambda: lambda x=cube(): F.max_pool3d(x, 2, return_indices=True),
        "adaptive_avg_pool2d": lambda: lambda x=image(): F.adaptive_avg_pool2d(x, 7),
        "adaptive_avg_pool2d_backward": lambda: lambda g=normal(f32, 16, 64, 7, 7), x=image(): a._adaptive_avg_pool2d_backward(g, x),
        "adaptive_max_pool2d": lambda: lambda x=image(): F.adaptive_max_pool2d(x, 7, return_indices=True),
        "max_unpool2d": lambda: lambda x=small(), i=(torch.arange(16 * 64 * 256) % 256 * 4).view(inner): a.max_unpool2d(x, i, [32, 32]),
        "conv2d_3x3": lambda: lambda x=image(), w=normal(f32, 64, 64, 3, 3), b=normal(f32, 64): F.conv2d(x, w, b, padding=1),
        "conv2d_1x1": lambda: lambda x=image(), w=normal(f32, 64, 64, 1, 1), b=normal(f32, 64): F.conv2d(x, w, b),
        "conv2d_depthwise": lambda: lambda x=image(), w=normal(f32, 64, 1, 3, 3), b=normal(f32, 64): F.conv2d(x, w, b, padding=1, groups=64),
        "conv2d_transposed": lambda: lambda x=small(), w=normal(f32, 64, 16, 2, 2), b=normal(f32, 16): F.conv_transpose2d(x, w, b, stride=2),
        "conv2d_backward": lambda: lambda g=image(), x=image(), w=normal(f32, 64, 64, 3, 3):
            a.convolution_backward(g, x, w, [64], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]),
        "conv1d": lambda: lambda x=normal(f32, 16, 64, SIDE), w=normal(f32, 64, 64, 3), b=normal(f32, 64): F.conv1d(x, w, b, padding=1),
        "im2col": lambda: lambda x=normal(f32, 16, 8, 32, 32): F.unfold(x, 3, padding=1),
        "grid_sample_bilinear": lambda: lambda x=image(), g=grid(): a.grid_sampler_2d(x, g, 0, 0, False),
        "grid_sample_nearest": lambda: lambda x=image(), g=grid(): a.grid_sampler_2d(x, g, 1, 0, False),
        "grid_sample_bicubic": lambda: lambda x=image(), g=grid(): a.grid_sampler_2d(x, g, 2, 0, False),
        "grid_sample_backward": lambda: lambda d=image(), x=image(), g=grid(): a.grid_sampler_2d_backward(d, x, g, 0, 0, False, [True, True]),
        "affine_grid": lambda: lambda t=normal(f32, 16, 2, 3): F.affine_grid(t, [16, 3, 180, 180], align_corners=False),
        "upsample_nearest2d": lambda: lambda x=small(): a.upsample_nearest2d(x, [32, 32]),
        "upsample_nearest2d_backward": lambda: lambda g=image(): a.upsample_nearest2d_backward(g, [32, 32], inner, 2., 2.),
        "upsample_bilinear2d": lambda: lambda x=small(): a.upsample_bilinear2d(x, [32, 32], False, 2., 2.),
        "upsample_bilinear2d_backward": lambda: lambda g=image(): a.upsample_bilinear2d_backward(g, [32, 32], inner, False, 2., 2.),
        "upsample_bicubic2d": lambda: lambda x=small(): a.upsample_bicubic2d(x, [32, 32], False, 2., 2.),
        "upsample_bicubic2d_backward": lambda: lambda g=image(): a.upsample_bicubic2d_backward(g, [32, 32], inner, False, 2., 2.),
        "upsample_bilinear2d_aa": lambda: lambda x=image(): a._upsample_bilinear2d_aa(x, [16, 16], False, .5, .5),
        "upsample_linear1d": lambda: lambda x=normal(f32, 16, 64, SIDE // 2): a.upsample_linear1d(x, [SIDE], False, 2.),
        "upsample_trilinear3d": lambda: lambda x=normal(f32, 4, 8, 16, 16, 16): a.upsample_trilinear3d(x, [32, 32, 32], False, 2., 2., 2.),
    }.items():
        add(name + ".float32", make)


def well_conditioned(n):
    row, column = torch.arange(n).view(n, 1), torch.arange(n).view(1, n)
    m = ((row * column + row + column) % 7).float() / 7
    m.fill_diagonal_(2 * n)
    return m.expand(64, n, n).contiguous()


def matrices(add):
    linalg = torch.linalg

    def points():
        return normal(f32, SIDE, 16)

    for name, make in {
        "inverse": lambda: lambda x=well_conditioned(32): linalg.inv(x),
        "inverse_128": lambda: lambda x=well_conditioned(128): linalg.inv(x),
        "cholesky": lambda: lambda x=well_conditioned(32): linalg.cholesky(x),
        "qr": lambda: lambda x=normal(f32, 64, 32, 32): linalg.qr(x),
        "slogdet": lambda: lambda x=well_conditioned(32): linalg.slogdet(x),
        "svd": lambda: lambda x=normal(f32, 64, 16, 16): linalg.svd(x, full_matrices=False),
        "triangular_solve": lambda: lambda b=normal(f32, 64, 32, 32), x=well_conditioned(32): linalg.solve_triangular(x, b, upper=True),
        "cdist": lambda: lambda x=points(), y=points(): torch.cdist(x, y, 2., "donot_use_mm_for_euclid_dist"),
        "cdist1": lambda: lambda x=points(), y=points(): torch.cdist(x, y, 1.),
        "pdist": lambda: lambda x=points(): F.pdist(x),
        "cross": lambda: lambda x=normal(f32, MILLION // 4, 3), y=normal(f32, MILLION // 4, 3): linalg.cross(x, y, dim=1),
        "rfft": lambda: lambda x=normal(f32): torch.fft.rfft(x),
    }.items():
        add(name + ".float32", make)


def chances(add):
    for name, make in {
        "uniform_.float32": lambda: lambda t=out(f32): t.uniform_(),
        "normal_.float32": lambda: lambda t=out(f32): t.normal_(),
        "normal_.bfloat16": lambda: lambda t=out(bf16): t.normal_(),
        "random_.int64": lambda: lambda t=out(i64): t.random_(0, 1000),
        "bernoulli_.float32": lambda: lambda t=out(f32): t.bernoulli_(.3),
        "bernoulli_tensor.float32": lambda: lambda t=out(f32), p=uniform(f32, 0, 1): t.bernoulli_(p),
        "randperm.int64": lambda: lambda: torch.randperm(MILLION),
        "dropout.float32": lambda: lambda x=normal(f32): F.dropout(x, .3, True),
        "multinomial.float32": lambda: lambda x=uniform(f32, .1, 1): torch.multinomial(x, 10, True),
        "multinomial_no_replacement.float32": lambda: lambda x=uniform(f32, .1, 1): torch.multinomial(x, 10),
    }.items():
        add(name, make)


def lists(add):
    def many(make=normal):
        return [make(f32, 1 << 16) for _ in range(16)]

    def near(dt, *shape):
        return uniform(dt, 1, 2, *shape)

    for name, make in {
        "foreach_add": lambda: lambda x=many(), y=many(): torch._foreach_add(x, y, alpha=1.),
        "foreach_mul_scalar": lambda: lambda x=many(): torch._foreach_mul(x, 2.),
        "foreach_sqrt": lambda: lambda x=many(near): torch._foreach_sqrt(x),
        "foreach_norm": lambda: lambda x=many(): torch._foreach_norm(x, 2),
        "foreach_addcdiv": lambda: lambda x=many(), y=many(), z=many(near): torch._foreach_addcdiv(x, y, z, .5),
        "foreach_lerp": lambda: lambda x=many(), y=many(): torch._foreach_lerp(x, y, .3),
        "adamw": lambda: lambda p=[normal(f32)], g=[normal(f32)], m=[normal(f32)], v=[near(f32)], s=[torch.tensor(3.)]:
            torch._fused_adamw_(p, g, m, v, [], s, lr=1e-3, beta1=.9, beta2=.99, weight_decay=.01, eps=1e-8, amsgrad=False, maximize=False),
        "sgd": lambda: lambda p=[normal(f32)], g=[normal(f32)], m=[normal(f32)]:
            torch._fused_sgd_(p, g, m, weight_decay=.01, momentum=.9, lr=1e-3, dampening=0., nesterov=False, maximize=False, is_first_step=False),
    }.items():
        add(name + ".float32", make)


def declare(add):
    for family in (elementwise, reductions, indices, layouts, activations, losses, norms, windows, matrices, chances, lists):
        family(add)
