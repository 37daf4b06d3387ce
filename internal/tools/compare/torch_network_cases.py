"""More cases of torch_operators.py: of networks, matrices, random numbers and lists."""

import torch
import torch.nn.functional as F

from torch_operator_cases import FLOATS, MILLION, SIDE, WAYS, aten, bf16, f32, i64, image, ints, full, named, normal, out, uniform


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


FAMILIES = (activations, losses, norms, windows, matrices, chances, lists)
