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


FAMILIES = (elementwise, reductions, indices, layouts)
