package compare_test

import (
	"slices"

	"github.com/goascend/cann/aclnn"
)

const million = side * side

// along is a reduction of [1024,1024]: of all (no axis), of columns (0) or of rows (1).
type along struct {
	name string
	axes []int64
	left []int64
}

var ways = []along{{"all", []int64{0, 1}, []int64{}}, {"dim0", []int64{0}, []int64{side}}, {"dim1", []int64{1}, []int64{side}}}

// result is a tensor of a reduction's shape; one without axes has one element.
func (a along) result(d *data, dt aclnn.DType) *aclnn.Tensor {
	x := d.out(dt, max(1, int64(len(a.left))*side))
	if len(a.left) == 0 {
		return x.Squeeze(0)
	}
	return x
}

var reductions = slices.Concat(folds(), alongRows(), orders(), []operator{
	{"max.float32", func(d *data) arguments {
		return fill(&aclnn.MaxParams{}, d.normal(f32), ways[0].result(d, f32))
	}},
	{"max.int64", func(d *data) arguments {
		return fill(&aclnn.MaxParams{}, d.ints(i64, 1e6), ways[0].result(d, i64))
	}},
	{"prod_all.float32", func(d *data) arguments {
		return fill(&aclnn.ProdParams{}, d.uniform(f32, .9, 1.1), f32, ways[0].result(d, f32))
	}},
	{"median.float32", func(d *data) arguments {
		return fill(&aclnn.MedianParams{}, d.normal(f32), ways[0].result(d, f32))
	}},
	{"median.int64", func(d *data) arguments {
		return fill(&aclnn.MedianParams{}, d.ints(i64, 1e6), ways[0].result(d, i64))
	}},
	{"nanmedian.float32", func(d *data) arguments {
		return fill(&aclnn.NanMedianParams{}, d.normal(f32), ways[0].result(d, f32))
	}},
	{"trace.float32", func(d *data) arguments {
		return fill(&aclnn.TraceParams{}, d.normal(f32), ways[0].result(d, f32))
	}},
	{"equal.float32", func(d *data) arguments {
		return fill(&aclnn.EqualParams{}, d.full(f32, 1), d.full(f32, 1), d.out(yes, 1))
	}},
	{"bincount.int64", func(d *data) arguments {
		return fill(&aclnn.BincountParams{}, d.ints(i64, 1000, million), nil, 1000, d.out(i64, 1000))
	}},
	{"bincount_weights.int64", func(d *data) arguments {
		return fill(&aclnn.BincountParams{}, d.ints(i64, 1000, million), d.normal(f32, million), 1000, d.out(f32, 1000))
	}},
	{"histc.float32", func(d *data) arguments {
		return fill(&aclnn.HistcParams{}, d.normal(f32, million), 100, -3., 3., d.out(f32, 100))
	}},
	{"unique_dim.int64", func(d *data) arguments {
		return fill(&aclnn.UniqueDimParams{}, d.ints(i64, 4, 1<<18, 4), true, true, 0, d.out(i64, 1<<18, 4), d.out(i64, 1<<18), d.out(i64, 1<<18))
	}},
	{"searchsorted.float32", func(d *data) arguments {
		return fill(&aclnn.SearchSortedParams{}, d.ascending(f32, 1000), d.uniform(f32, 0, 1000, million), false, false, nil, d.out(i64, million))
	}},
	{"isin.int64", func(d *data) arguments {
		return fill(&aclnn.IsInTensorScalarParams{}, d.ints(i64, 1000), 7, false, false, d.out(yes))
	}},
})

func folds() (list []operator) {
	for _, way := range ways {
		for _, dt := range []aclnn.DType{f32, bf16, i64} {
			add := func(name string, dt aclnn.DType, args func(d *data) arguments) {
				list = append(list, operator{named(name+"_"+way.name, dt), args})
			}
			x := func(d *data) *aclnn.Tensor { return d.ints(dt, 200) }
			add("sum", dt, func(d *data) arguments {
				return fill(&aclnn.ReduceSumParams{}, x(d), way.axes, false, dt, way.result(d, dt))
			})
			add("amax", dt, func(d *data) arguments {
				return fill(&aclnn.AmaxParams{}, x(d), way.axes, false, way.result(d, dt))
			})
			if dt == i64 {
				continue
			}
			add("mean", dt, func(d *data) arguments {
				return fill(&aclnn.MeanParams{}, x(d), way.axes, false, dt, way.result(d, dt))
			})
			if dt == bf16 {
				continue
			}
			x = func(d *data) *aclnn.Tensor { return d.normal(dt) }
			add("aminmax", dt, func(d *data) arguments {
				return fill(&aclnn.AminmaxParams{}, x(d), way.axes, false, way.result(d, dt), way.result(d, dt))
			})
			add("amin", dt, func(d *data) arguments {
				return fill(&aclnn.AminParams{}, x(d), way.axes, false, way.result(d, dt))
			})
			add("var", dt, func(d *data) arguments {
				return fill(&aclnn.VarParams{}, x(d), way.axes, true, false, way.result(d, dt))
			})
			add("std", dt, func(d *data) arguments {
				return fill(&aclnn.StdParams{}, x(d), way.axes, 1, false, way.result(d, dt))
			})
			add("var_mean", dt, func(d *data) arguments {
				return fill(&aclnn.VarMeanParams{}, x(d), way.axes, 1, false, way.result(d, dt), way.result(d, dt))
			})
			add("logsumexp", dt, func(d *data) arguments {
				return fill(&aclnn.LogSumExpParams{}, x(d), way.axes, false, way.result(d, dt))
			})
			add("nansum", dt, func(d *data) arguments {
				return fill(&aclnn.ReduceNansumParams{}, x(d), way.axes, false, dt, way.result(d, dt))
			})
			for i, name := range []string{"norm1", "norm2", "norm3"} {
				add(name, dt, func(d *data) arguments {
					return fill(&aclnn.LinalgVectorNormParams{}, x(d), float64(i+1), way.axes, false, dt, way.result(d, dt))
				})
			}
			add("all", yes, func(d *data) arguments {
				return fill(&aclnn.AllParams{}, d.full(yes, 1), way.axes, false, way.result(d, yes))
			})
			add("any", yes, func(d *data) arguments {
				return fill(&aclnn.AnyParams{}, d.full(yes, 0), way.axes, false, way.result(d, yes))
			})
		}
	}
	return list
}

// alongRows are operators along one axis with results for each row, or at each place.
func alongRows() (list []operator) {
	for axis, way := range ways[1:] {
		add := func(name string, dt aclnn.DType, args func(d *data) arguments) {
			list = append(list, operator{named(name+"_"+way.name, dt), args})
		}
		for _, dt := range []aclnn.DType{f32, i64} {
			x := func(d *data) *aclnn.Tensor { return d.ints(dt, 1e6) }
			row := func(d *data, dt aclnn.DType) *aclnn.Tensor { return way.result(d, dt) }
			add("argmax", dt, func(d *data) arguments {
				return fill(&aclnn.ArgMaxParams{}, x(d), axis, false, row(d, i64))
			})
			add("max", dt, func(d *data) arguments {
				return fill(&aclnn.MaxDimParams{}, x(d), axis, false, row(d, dt), row(d, i64))
			})
			add("median", dt, func(d *data) arguments {
				return fill(&aclnn.MedianDimParams{}, x(d), axis, false, row(d, dt), row(d, i64))
			})
			add("kthvalue", dt, func(d *data) arguments {
				return fill(&aclnn.KthvalueParams{}, x(d), 100, axis, false, row(d, dt), row(d, i64))
			})
			add("cumsum", dt, func(d *data) arguments {
				return fill(&aclnn.CumsumParams{}, x(d), axis, dt, d.out(dt))
			})
			add("cummax", dt, func(d *data) arguments {
				return fill(&aclnn.CummaxParams{}, x(d), axis, d.out(dt), d.out(i64))
			})
			add("sort", dt, func(d *data) arguments {
				return fill(&aclnn.SortParams{}, x(d), true, axis, false, d.out(dt), d.out(i64))
			})
			add("topk50", dt, func(d *data) arguments {
				shape := ints(side, side)
				shape[axis] = 50
				return fill(&aclnn.TopkParams{}, x(d), 50, axis, true, true, d.out(dt, shape...), d.out(i64, shape...))
			})
		}
		add("argmin", f32, func(d *data) arguments {
			return fill(&aclnn.ArgMinParams{}, d.normal(f32), axis, false, way.result(d, i64))
		})
		add("cummin", f32, func(d *data) arguments {
			return fill(&aclnn.CumminParams{}, d.normal(f32), axis, d.out(f32), d.out(i64))
		})
		add("cumprod", f32, func(d *data) arguments {
			return fill(&aclnn.CumprodParams{}, d.uniform(f32, .9, 1.1), axis, f32, d.out(f32))
		})
		add("prod", f32, func(d *data) arguments {
			return fill(&aclnn.ProdDimParams{}, d.uniform(f32, .9, 1.1), axis, false, f32, way.result(d, f32))
		})
		add("cumsum", bf16, func(d *data) arguments {
			return fill(&aclnn.CumsumParams{}, d.normal(bf16), axis, bf16, d.out(bf16))
		})
		add("renorm", f32, func(d *data) arguments {
			return fill(&aclnn.RenormParams{}, d.normal(f32), 2., axis, 1., d.out(f32))
		})
	}
	return list
}

// orders are operators on one row of a million elements.
func orders() (list []operator) {
	for _, dt := range []aclnn.DType{f32, bf16, i64, i32} {
		add := func(name string, args func(d *data) arguments) {
			list = append(list, operator{named(name, dt), args})
		}
		x := func(d *data) *aclnn.Tensor { return d.ints(dt, 1e6, million) }
		out := func(d *data, dt aclnn.DType) *aclnn.Tensor { return d.out(dt, million) }
		add("sort_million", func(d *data) arguments {
			return fill(&aclnn.SortParams{}, x(d), false, 0, false, out(d, dt), out(d, i64))
		})
		add("topk100", func(d *data) arguments {
			return fill(&aclnn.TopkParams{}, x(d), 100, 0, true, true, d.out(dt, 100), d.out(i64, 100))
		})
		add("topk10000", func(d *data) arguments {
			return fill(&aclnn.TopkParams{}, x(d), 10000, 0, false, true, d.out(dt, 10000), d.out(i64, 10000))
		})
		add("kthvalue_million", func(d *data) arguments {
			return fill(&aclnn.KthvalueParams{}, x(d), million/2, 0, true, d.out(dt, 1), d.out(i64, 1))
		})
		add("unique", func(d *data) arguments {
			return fill(&aclnn.Unique2Params{}, x(d), true, true, true, out(d, dt), out(d, i64), out(d, i64))
		})
		add("unique_few", func(d *data) arguments {
			return fill(&aclnn.Unique2Params{}, d.ints(dt, 100, million), true, false, false, out(d, dt), out(d, i64), out(d, i64))
		})
		add("unique_consecutive", func(d *data) arguments {
			return fill(&aclnn.UniqueConsecutiveParams{}, d.ints(dt, 2, million), true, true, 1000, out(d, dt), out(d, i64), out(d, i64))
		})
		add("argmax_million", func(d *data) arguments {
			return fill(&aclnn.ArgMaxParams{}, x(d), 0, true, d.out(i64, 1))
		})
		add("cumsum_million", func(d *data) arguments {
			return fill(&aclnn.CumsumParams{}, x(d), 0, dt, out(d, dt))
		})
	}
	add := func(name string, args func(d *data) arguments) { list = append(list, operator{name, args}) }
	add("argsort_million.float32", func(d *data) arguments {
		return fill(&aclnn.ArgsortParams{}, d.normal(f32, million), 0, true, d.out(i64, million))
	})
	return list
}
