package compare_test

import (
	"slices"

	"github.com/goascend/cann/aclnn"
)

// matrices are batches of small matrices.
var matrices = []operator{
	{"inverse.float32", func(d *data) arguments {
		return fill(&aclnn.InverseParams{}, wellConditioned(d, 32), d.out(f32, 64, 32, 32))
	}},
	{"inverse_128.float32", func(d *data) arguments {
		return fill(&aclnn.InverseParams{}, wellConditioned(d, 128), d.out(f32, 64, 128, 128))
	}},
	{"cholesky.float32", func(d *data) arguments {
		return fill(&aclnn.LinalgCholeskyParams{}, wellConditioned(d, 32), false, d.out(f32, 64, 32, 32))
	}},
	{"qr.float32", func(d *data) arguments {
		return fill(&aclnn.LinalgQrParams{}, d.normal(f32, 64, 32, 32), aclnn.QrReduced, d.out(f32, 64, 32, 32), d.out(f32, 64, 32, 32))
	}},
	{"slogdet.float32", func(d *data) arguments {
		return fill(&aclnn.SlogdetParams{}, wellConditioned(d, 32), d.out(f32, 64), d.out(f32, 64))
	}},
	{"svd.float32", func(d *data) arguments {
		return fill(&aclnn.SvdParams{}, d.normal(f32, 64, 16, 16), false, true, d.out(f32, 64, 16), d.out(f32, 64, 16, 16), d.out(f32, 64, 16, 16))
	}},
	{"triangular_solve.float32", func(d *data) arguments {
		return fill(&aclnn.TriangularSolveParams{}, d.normal(f32, 64, 32, 32), wellConditioned(d, 32), true, false, false, d.out(f32, 64, 32, 32), d.out(f32, 64, 32, 32))
	}},
	{"cdist.float32", func(d *data) arguments {
		return fill(&aclnn.CdistParams{}, d.normal(f32, side, 16), d.normal(f32, side, 16), 2., 2, d.out(f32))
	}},
	{"cdist1.float32", func(d *data) arguments {
		return fill(&aclnn.CdistParams{}, d.normal(f32, side, 16), d.normal(f32, side, 16), 1., 2, d.out(f32))
	}},
	{"pdist.float32", func(d *data) arguments {
		return fill(&aclnn.PdistParams{}, d.normal(f32, side, 16), 2., d.out(f32, side*(side-1)/2))
	}},
	{"cross.float32", func(d *data) arguments {
		return fill(&aclnn.LinalgCrossParams{}, d.normal(f32, million/4, 3), d.normal(f32, million/4, 3), 1, d.out(f32, million/4, 3))
	}},
	{"rfft.float32", func(d *data) arguments {
		return fill(&aclnn.Rfft1DParams{}, d.normal(f32), side, -1, 1, d.out(f32, side, side/2+1, 2))
	}},
}

// wellConditioned is 64 symmetric matrices with large diagonals.
func wellConditioned(d *data, n int64) *aclnn.Tensor {
	i := int64(-1)
	return d.tensor(f32, ints(64, n, n), func() float64 {
		i++
		row, column := i/n%n, i%n
		if row == column {
			return float64(2 * n)
		}
		return float64((row*column+row+column)%7) / 7
	})
}

// randoms are random numbers; the two libraries have different generators.
var randoms = []operator{
	{"uniform_.float32", func(d *data) arguments {
		return fill(&aclnn.InplaceUniformParams{}, d.out(f32), 0., 1., 1, 0)
	}},
	{"normal_.float32", func(d *data) arguments {
		return fill(&aclnn.InplaceNormalParams{}, d.out(f32), 0., 1., 1, 0)
	}},
	{"normal_.bfloat16", func(d *data) arguments {
		return fill(&aclnn.InplaceNormalParams{}, d.out(bf16), 0., 1., 1, 0)
	}},
	{"random_.int64", func(d *data) arguments {
		return fill(&aclnn.InplaceRandomParams{}, d.out(i64), 0, 1000, 1, 0)
	}},
	{"bernoulli_.float32", func(d *data) arguments {
		return fill(&aclnn.InplaceBernoulliParams{}, d.out(f32), .3, 1, 0)
	}},
	{"bernoulli_tensor.float32", func(d *data) arguments {
		return fill(&aclnn.InplaceBernoulliTensorParams{}, d.out(f32), d.uniform(f32, 0, 1), 1, 0)
	}},
	{"randperm.int64", func(d *data) arguments {
		return fill(&aclnn.RandpermParams{}, million, 1, 0, d.out(i64, million))
	}},
	{"dropout.float32", func(d *data) arguments {
		return fill(&aclnn.DropoutParams{}, d.normal(f32), .3, true, 1, 0, d.out(f32), d.out(u8, million/8))
	}},
	{"multinomial.float32", func(d *data) arguments {
		return fill(&aclnn.MultinomialParams{}, d.uniform(f32, .1, 1), 10, true, 1, 0, d.out(i64, side, 10))
	}},
	{"multinomial_no_replacement.float32", func(d *data) arguments {
		return fill(&aclnn.MultinomialParams{}, d.uniform(f32, .1, 1), 10, false, 1, 0, d.out(i64, side, 10))
	}},
}

// lists are operators on 16 tensors of 65536 elements, and optimizers.
var lists = slices.Concat(foreach(), []operator{
	{"adamw.float32", func(d *data) arguments {
		one := func(f func(aclnn.DType, ...int64) *aclnn.Tensor) []*aclnn.Tensor { return []*aclnn.Tensor{f(f32)} }
		squares := []*aclnn.Tensor{d.uniform(f32, 1, 2)}
		return fill(&aclnn.FusedAdamwParams{}, one(d.normal), one(d.normal), one(d.normal), squares, one(d.out), []*aclnn.Tensor{d.full(f32, 3, 1)}, nil, nil, 1e-3, .9, .99, .01, 1e-8, false, false)
	}},
	{"sgd.float32", func(d *data) arguments {
		one := func() []*aclnn.Tensor { return []*aclnn.Tensor{d.normal(f32)} }
		return fill(&aclnn.FusedSgdParams{}, one(), one(), one(), nil, .01, .9, 1e-3, 0., false, false, false)
	}},
})

func foreach() []operator {
	many := func(make func(aclnn.DType, ...int64) *aclnn.Tensor) (list []*aclnn.Tensor) {
		for range 16 {
			list = append(list, make(f32, 1<<16))
		}
		return list
	}
	return []operator{
		{"foreach_add.float32", func(d *data) arguments {
			return fill(&aclnn.ForeachAddListV2Params{}, many(d.normal), many(d.normal), 1., many(d.out))
		}},
		{"foreach_mul_scalar.float32", func(d *data) arguments {
			return fill(&aclnn.ForeachMulScalarV2Params{}, many(d.normal), 2., many(d.out))
		}},
		{"foreach_sqrt.float32", func(d *data) arguments {
			return fill(&aclnn.ForeachSqrtParams{}, many(func(dt aclnn.DType, n ...int64) *aclnn.Tensor { return d.uniform(dt, 1, 2, n...) }), many(d.out))
		}},
		{"foreach_norm.float32", func(d *data) arguments {
			return fill(&aclnn.ForeachNormParams{}, many(d.normal), 2., many(func(dt aclnn.DType, _ ...int64) *aclnn.Tensor { return d.out(dt, 1).Squeeze(0) }))
		}},
		{"foreach_addcdiv.float32", func(d *data) arguments {
			divisors := many(func(dt aclnn.DType, n ...int64) *aclnn.Tensor { return d.uniform(dt, 1, 2, n...) })
			return fill(&aclnn.ForeachAddcdivScalarV2Params{}, many(d.normal), many(d.normal), divisors, .5, many(d.out))
		}},
		{"foreach_lerp.float32", func(d *data) arguments {
			return fill(&aclnn.ForeachLerpScalarParams{}, many(d.normal), many(d.normal), .3, many(d.out))
		}},
	}
}
