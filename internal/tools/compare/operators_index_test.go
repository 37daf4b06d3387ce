package compare_test

import (
	"slices"

	"github.com/goascend/cann/aclnn"
)

var indices = slices.Concat(places(), []operator{
	{"gather_million.float32", func(d *data) arguments {
		return fill(&aclnn.GatherParams{}, d.normal(f32, million), 0, d.ints(i64, million, million), d.out(f32, million))
	}},
	{"take.float32", func(d *data) arguments {
		return fill(&aclnn.TakeParams{}, d.normal(f32), d.ints(i64, million, million), d.out(f32, million))
	}},
	{"put.float32", func(d *data) arguments {
		return fill(&aclnn.InplacePutParams{}, d.normal(f32), d.order(i64, million), d.normal(f32, million), false)
	}},
	{"put_accumulate.float32", func(d *data) arguments {
		return fill(&aclnn.InplacePutParams{}, d.normal(f32), d.ints(i64, million, million), d.normal(f32, million), true)
	}},
	{"index_pairs.float32", func(d *data) arguments {
		at := []*aclnn.Tensor{d.ints(i64, side, million), d.ints(i64, side, million)}
		return fill(&aclnn.IndexParams{}, d.normal(f32), at, d.out(f32, million))
	}},
	{"index_put.float32", func(d *data) arguments {
		return fill(&aclnn.IndexPutImplParams{}, d.normal(f32), []*aclnn.Tensor{d.order(i64, side)}, d.normal(f32), false, true)
	}},
	{"index_put_accumulate.float32", func(d *data) arguments {
		at := []*aclnn.Tensor{d.ints(i64, side, million), d.ints(i64, side, million)}
		return fill(&aclnn.IndexPutImplParams{}, d.normal(f32), at, d.normal(f32, million), true, true)
	}},
	{"masked_fill.float32", func(d *data) arguments {
		return fill(&aclnn.InplaceMaskedFillScalarParams{}, d.normal(f32), d.ints(yes, 2), 1.)
	}},
	{"masked_fill_rows.float32", func(d *data) arguments {
		return fill(&aclnn.InplaceMaskedFillScalarParams{}, d.normal(f32), d.ints(yes, 2, side, 1), 1.)
	}},
	{"masked_select.float32", func(d *data) arguments {
		return fill(&aclnn.MaskedSelectParams{}, d.normal(f32), d.ints(yes, 2), d.out(f32, million))
	}},
	{"masked_scatter.float32", func(d *data) arguments {
		return fill(&aclnn.InplaceMaskedScatterParams{}, d.normal(f32), d.ints(yes, 2), d.normal(f32))
	}},
	{"nonzero.bool", func(d *data) arguments {
		return fill(&aclnn.NonzeroParams{}, d.ints(yes, 2), d.out(i64, million, 2))
	}},
	{"nonzero.float32", func(d *data) arguments {
		return fill(&aclnn.NonzeroParams{}, d.ints(f32, 2), d.out(i64, million, 2))
	}},
	{"one_hot.int64", func(d *data) arguments {
		return fill(&aclnn.OneHotParams{}, d.ints(i64, 100, 10000), 100, d.full(i64, 1, 1), d.full(i64, 0, 1), -1, d.out(i64, 10000, 100))
	}},
	{"repeat_interleave.float32", func(d *data) arguments {
		return fill(&aclnn.RepeatInterleaveIntParams{}, d.normal(f32, million/4), 4, million, d.out(f32, million))
	}},
	{"repeat_interleave_rows.float32", func(d *data) arguments {
		return fill(&aclnn.RepeatInterleaveIntWithDimParams{}, d.normal(f32, side, side/4), 4, 0, 4*side, d.out(f32, 4*side, side/4))
	}},
	{"repeat_interleave_tensor.float32", func(d *data) arguments {
		return fill(&aclnn.RepeatInterleaveWithDimParams{}, d.normal(f32, side, side/4), d.full(i64, 4, side), 0, 4*side, d.out(f32, 4*side, side/4))
	}},
	{"embedding.float32", func(d *data) arguments {
		return fill(&aclnn.EmbeddingParams{}, d.normal(f32, 32000, 64), d.ints(i64, 32000, 16*side), d.out(f32, 16*side, 64))
	}},
	{"embedding.bfloat16", func(d *data) arguments {
		return fill(&aclnn.EmbeddingParams{}, d.normal(bf16, 32000, 64), d.ints(i64, 32000, 16*side), d.out(bf16, 16*side, 64))
	}},
	{"embedding_backward.float32", func(d *data) arguments {
		return fill(&aclnn.EmbeddingDenseBackwardParams{}, d.normal(f32, 16*side, 64), d.ints(i64, 32000, 16*side), 32000, 32000, false, d.out(f32, 32000, 64))
	}},
	{"embedding_bag.float32", func(d *data) arguments {
		bags := d.tensor(i64, ints(side), func() func() float64 { i := -16.; return func() float64 { i += 16; return i } }())
		return fill(&aclnn.EmbeddingBagParams{}, d.normal(f32, 32000, 64), d.ints(i64, 32000, 16*side), bags, false, aclnn.BagSum, false, nil, false, -1,
			d.out(f32, side, 64), d.out(i64, 16*side), d.out(i64, side), d.out(i64, side))
	}},
	{"gather_nd.float32", func(d *data) arguments {
		return fill(&aclnn.GatherNdParams{}, d.normal(f32), d.ints(i64, side, million, 2), false, d.out(f32, million))
	}},
	{"scatter_nd.float32", func(d *data) arguments {
		return fill(&aclnn.ScatterNdUpdateParams{}, d.normal(f32), d.tensor(i64, ints(side, 1), func() float64 { return float64(d.rand.IntN(side)) }), d.normal(f32))
	}},
})

// places are operators on [1024,1024] with an index for each element or for each row.
func places() (list []operator) {
	for axis, way := range ways[1:] {
		for _, dt := range []aclnn.DType{f32, bf16, i64} {
			add := func(name string, args func(d *data) arguments) {
				list = append(list, operator{named(name+"_"+way.name, dt), args})
			}
			x := func(d *data) *aclnn.Tensor { return d.ints(dt, 100) }
			each := func(d *data) *aclnn.Tensor { return d.ints(i64, side) }
			row := func(d *data) *aclnn.Tensor { return d.order(i64, side) }
			add("gather", func(d *data) arguments {
				return fill(&aclnn.GatherParams{}, x(d), axis, each(d), d.out(dt))
			})
			add("index_select", func(d *data) arguments {
				return fill(&aclnn.IndexSelectParams{}, x(d), axis, row(d), d.out(dt))
			})
			add("scatter", func(d *data) arguments {
				return fill(&aclnn.ScatterParams{}, x(d), axis, each(d), x(d), aclnn.ScatterReductionReplace, d.out(dt))
			})
			add("scatter_add", func(d *data) arguments {
				return fill(&aclnn.ScatterAddParams{}, x(d), axis, each(d), x(d), d.out(dt))
			})
			add("index_add", func(d *data) arguments {
				return fill(&aclnn.IndexAddParams{}, x(d), axis, row(d), x(d), 1, d.out(dt))
			})
			if dt != f32 {
				continue
			}
			add("scatter_value", func(d *data) arguments {
				return fill(&aclnn.ScatterValueParams{}, x(d), axis, each(d), 3., aclnn.ScatterReductionReplace, d.out(dt))
			})
			add("scatter_reduce_max", func(d *data) arguments {
				return fill(&aclnn.ScatterReduceParams{}, x(d), axis, each(d), x(d), aclnn.ScatterReductionMax, true, d.out(dt))
			})
			add("scatter_reduce_mean", func(d *data) arguments {
				return fill(&aclnn.ScatterReduceParams{}, x(d), axis, each(d), x(d), aclnn.ScatterReductionMean, true, d.out(dt))
			})
			add("scatter_reduce_prod", func(d *data) arguments {
				return fill(&aclnn.ScatterReduceParams{}, x(d), axis, each(d), x(d), aclnn.ScatterReductionMultiply, true, d.out(dt))
			})
			add("index_copy", func(d *data) arguments {
				return fill(&aclnn.InplaceIndexCopyParams{}, x(d), axis, row(d), x(d))
			})
			add("index_fill", func(d *data) arguments {
				return fill(&aclnn.InplaceIndexFillParams{}, x(d), axis, row(d), 1.)
			})
		}
	}
	return list
}

var layouts = slices.Concat(copies(), []operator{
	{"permute3.float32", func(d *data) arguments {
		return fill(&aclnn.PermuteParams{}, d.normal(f32, 64, 128, 128), ints(2, 0, 1), d.out(f32, 128, 64, 128))
	}},
	{"permute4.float32", func(d *data) arguments {
		return fill(&aclnn.PermuteParams{}, d.normal(f32, 16, 64, 32, 32), ints(0, 2, 3, 1), d.out(f32, 16, 32, 32, 64))
	}},
	{"diag.float32", func(d *data) arguments {
		return fill(&aclnn.DiagParams{}, d.normal(f32, side), 0, d.out(f32))
	}},
	{"eye.float32", func(d *data) arguments { return fill(&aclnn.EyeParams{}, side, side, d.out(f32)) }},
	{"arange.float32", func(d *data) arguments {
		return fill(&aclnn.ArangeParams{}, 0., float64(million), 1., d.out(f32, million))
	}},
	{"arange.int64", func(d *data) arguments {
		return fill(&aclnn.ArangeParams{}, 0, million, 1, d.out(i64, million))
	}},
	{"linspace.float32", func(d *data) arguments {
		return fill(&aclnn.LinspaceParams{}, 0., 1., million, d.out(f32, million))
	}},
	{"fill.float32", func(d *data) arguments { return fill(&aclnn.InplaceFillScalarParams{}, d.out(f32), 3.) }},
	{"zero.float32", func(d *data) arguments { return fill(&aclnn.InplaceZeroParams{}, d.out(f32)) }},
	{"fill_diagonal.float32", func(d *data) arguments {
		return fill(&aclnn.InplaceFillDiagonalParams{}, d.out(f32), 3., false)
	}},
	{"channel_shuffle.float32", func(d *data) arguments {
		return fill(&aclnn.ChannelShuffleParams{}, d.normal(f32, 16, 64, 32, 32), 8, d.out(f32, 16, 64, 32, 32))
	}},
	{"unfold_backward.float32", func(d *data) arguments {
		return fill(&aclnn.UnfoldGradParams{}, d.normal(f32, side/2-1, side/2, 4), ints(side, side/2), 0, 4, 2, d.out(f32, side, side/2))
	}},
	{"reflection_pad2d.float32", func(d *data) arguments {
		return fill(&aclnn.ReflectionPad2dParams{}, d.normal(f32, 16, 64, 32, 32), ints(1, 1, 1, 1), d.out(f32, 16, 64, 34, 34))
	}},
	{"reflection_pad2d_backward.float32", func(d *data) arguments {
		return fill(&aclnn.ReflectionPad2dBackwardParams{}, d.normal(f32, 16, 64, 34, 34), d.normal(f32, 16, 64, 32, 32), ints(1, 1, 1, 1), d.out(f32, 16, 64, 32, 32))
	}},
	{"replication_pad2d.float32", func(d *data) arguments {
		return fill(&aclnn.ReplicationPad2dParams{}, d.normal(f32, 16, 64, 32, 32), ints(1, 1, 1, 1), d.out(f32, 16, 64, 34, 34))
	}},
	{"replication_pad2d_backward.float32", func(d *data) arguments {
		return fill(&aclnn.ReplicationPad2dBackwardParams{}, d.normal(f32, 16, 64, 34, 34), d.normal(f32, 16, 64, 32, 32), ints(1, 1, 1, 1), d.out(f32, 16, 64, 32, 32))
	}},
	{"reflection_pad1d.float32", func(d *data) arguments {
		return fill(&aclnn.ReflectionPad1dParams{}, d.normal(f32, 4, 256, side), ints(2, 2), d.out(f32, 4, 256, side+4))
	}},
	{"split.float32", func(d *data) arguments {
		var parts []*aclnn.Tensor
		for range 4 {
			parts = append(parts, d.out(f32, side, side/4))
		}
		return fill(&aclnn.SplitTensorParams{}, d.normal(f32), side/4, 1, parts)
	}},
})

// copies move elements as they are; cast changes their dtype.
func copies() (list []operator) {
	for _, dt := range []aclnn.DType{f32, bf16, i64, yes} {
		add := func(name string, args func(d *data) arguments) {
			list = append(list, operator{named(name, dt), args})
		}
		x := func(d *data, shape ...int64) *aclnn.Tensor { return d.ints(dt, 2, shape...) }
		out := func(d *data, shape ...int64) *aclnn.Tensor { return d.out(dt, shape...) }
		add("copy", func(d *data) arguments { return fill(&aclnn.InplaceCopyParams{}, out(d), x(d)) })
		add("transpose", func(d *data) arguments {
			return fill(&aclnn.InplaceCopyParams{}, out(d), x(d).Transpose(0, 1))
		})
		add("copy_strided", func(d *data) arguments {
			return fill(&aclnn.InplaceCopyParams{}, out(d), x(d, side, 2*side).Slice(1, 0, 2*side, 2))
		})
		add("expand", func(d *data) arguments {
			return fill(&aclnn.ExpandParams{}, x(d, side, 1), ints(side, side), out(d))
		})
		for axis, way := range ways[1:] {
			shape := ints(side, side)
			shape[axis] = side / 4
			parts := func(d *data) (list []*aclnn.Tensor) {
				for range 4 {
					list = append(list, x(d, shape...))
				}
				return list
			}
			add("cat_"+way.name, func(d *data) arguments { return fill(&aclnn.CatParams{}, parts(d), axis, out(d)) })
			add("roll_"+way.name, func(d *data) arguments {
				return fill(&aclnn.RollParams{}, x(d), ints(100), ints(int64(axis)), out(d))
			})
			add("flip_"+way.name, func(d *data) arguments {
				return fill(&aclnn.FlipParams{}, x(d), ints(int64(axis)), out(d))
			})
		}
		add("stack", func(d *data) arguments {
			list := []*aclnn.Tensor{x(d, million/4), x(d, million/4), x(d, million/4), x(d, million/4)}
			return fill(&aclnn.StackParams{}, list, 1, out(d, million/4, 4))
		})
		add("repeat", func(d *data) arguments {
			return fill(&aclnn.RepeatParams{}, x(d, side/4, side/4), ints(4, 4), out(d))
		})
		add("triu", func(d *data) arguments { return fill(&aclnn.TriuParams{}, x(d), 1, out(d)) })
		add("tril", func(d *data) arguments { return fill(&aclnn.TrilParams{}, x(d), -1, out(d)) })
		add("constant_pad", func(d *data) arguments {
			return fill(&aclnn.ConstantPadNdParams{}, x(d), ints(2, 2, 2, 2), 1, out(d, side+4, side+4))
		})
	}
	for _, to := range [][2]aclnn.DType{{f32, bf16}, {bf16, f32}, {f32, f16}, {f16, f32}, {f32, i64}, {i64, f32}, {f32, i32}, {i32, i64}, {f32, yes}, {yes, f32}, {f32, f64}} {
		list = append(list, operator{named("cast_"+to[0].String(), to[1]), func(d *data) arguments {
			return fill(&aclnn.CastParams{}, d.ints(to[0], 2), to[1], d.out(to[1]))
		}})
	}
	return list
}
