package communication

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestWorkerCombine compares with weighted sums in float64.
func TestWorkerCombine(t *testing.T) {
	for _, d := range op.HalfTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range [][5]int64{{1, 1, 1, 1, 0}, {2, 5, 3, 7, 0}, {3, 17, 8, 33, 1}, {3, 17, 8, 33, 2}, {2, 3, 64, 5, 1}} {
				for wait := range 2 {
					batches, tokens, choices, hidden, last := s[0], s[1], s[2], s[3], s[4]
					what := fmt.Sprint(d, l, s, wait)
					x := newContext(t, map[int]int64{microBatchNum: batches, microBatchID: last})
					data := x.point(attentionData, optest.Filled(t, 5, d, kerneltest.Contiguous, []int64{batches, tokens, choices + 1, hidden}))
					flags := x.words(attentionInfo, slices.Repeat([]int{1}, int(batches*tokens*(choices+1)))...)
					of := last
					if wait == 1 {
						of = (last + 1) % batches
						word := &words(flags)[(of+1)*tokens*(choices+1)-1]
						*word = 0
						time.AfterFunc(time.Millisecond, func() { *word = 1 })
					}
					scales := optest.Filled(t, 6, dtype.Float32, l, []int64{tokens, choices})
					y, next := optest.Tensor(t, d, []int64{tokens, hidden}), optest.Tensor(t, dtype.Int32, []int64{1})
					optest.Run(t, "AttentionWorkerCombine", optest.Args{
						"scheduleContext": x.Tensor, "expertScales": scales, "layerId": optest.Tensor(t, dtype.Int32, []int64{1}, 41), "hiddenSize": hidden,
						"tokenDtype": slices.Index(op.HalfTypes, d), "needSchedule": wait, "y": y, "nextLayerId": next,
					})
					v, w, want := optest.Values(data), optest.Values(scales), make([]float64, tokens*hidden)
					for i := range want {
						token, h := int64(i)/hidden, int64(i)%hidden
						for k := range choices + 1 {
							weight := 1.0
							if k < choices {
								weight = w[token*choices+k]
							}
							want[i] += weight * v[((of*tokens+token)*(choices+1)+k)*hidden+h]
						}
					}
					optest.CloseTo(t, what, want, optest.Values(y), optest.ResultLimit(d))
					require.Equal(t, []float64{42}, optest.Values(next), what)
					require.Equal(t, of, x.get(microBatchID), what)
					cleared := 0
					for _, flag := range words(flags) {
						cleared += 1 - int(flag)
					}
					require.EqualValues(t, int64(wait)*tokens*(choices+1), cleared, what)
				}
			}
		}
	}
}

func TestWorkerCombineRefuses(t *testing.T) {
	const name = "AttentionWorkerCombine"
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f16, i32 := dtype.Float16, dtype.Int32
	context := newContext(t, map[int]int64{microBatchNum: 1})
	context.point(attentionData, optest.Filled(t, 1, f16, kerneltest.Contiguous, []int64{1, 3, 3, 8}))
	a := optest.Args{"scheduleContext": context.Tensor, "expertScales": optest.Filled(t, 2, dtype.Float32, kerneltest.Contiguous, []int64{3, 2}), "layerId": optest.Tensor(t, i32, []int64{1}, 0), "hiddenSize": 8, "y": x(f16, 3, 8), "nextLayerId": x(i32, 1)}
	optest.Run(t, name, a)
	refuseContexts(t, name, "scheduleContext", a)
	for _, param := range []string{"expertScales", "layerId", "y", "nextLayerId"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{param: nil}), param+" is null")
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{param: x(dtype.Float64, 3, 8)}), "dtype")
	}
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"tokenDtype": 1}), "tokenDtype 1 is bfloat16")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"y": optest.TensorIn(t, f16, kerneltest.Gapped, []int64{3, 8})}), "must be contiguous")
	for text, set := range map[string]optest.Args{
		"the 1024 bytes": {"scheduleContext": x(dtype.Int8, 1000)}, "at most 64": {"expertScales": x(dtype.Float32, 3, 65)}, "at least one token": {"expertScales": x(dtype.Float32, 0, 2)}, "hiddenSize is 0": {"hiddenSize": 0},
		"tokenDtype is 2": {"tokenDtype": 2}, "needSchedule is 2": {"needSchedule": 2}, "a sum for each token": {"y": x(f16, 3, 7)}, "the number of a layer": {"layerId": x(i32, 2)},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
	for text, change := range map[string]func(){
		"token_info_buf: the address is null": func() {}, "micro_batch_num is 0": func() { context.set(microBatchNum, 0) },
	} {
		change()
		faults(t, int32(abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION), name, a.With(optest.Args{"needSchedule": 1}), text)
		context.set(microBatchNum, 1)
	}
}

// TestWorkerBatching compares with a search for the tokens of one expert after the other.
func TestWorkerBatching(t *testing.T) {
	for _, d := range tokenTypes {
		for _, s := range []struct{ sessions, batches, tokens, choices, hidden, experts, spare, done int64 }{
			{1, 1, 1, 1, 1, 1, 0, 1}, {2, 3, 5, 3, 7, 11, 0, 2}, {2, 3, 5, 3, 7, 11, 5, 1}, {5, 2, 17, 8, 33, 64, 3, 4}, {3, 64, 1, 7, 5, 300, 12, 3}, {2, 1, 3, 64, 4, 64, 0, 2}, {2, 1, 3, 2, 4, 5, 0, 0}, {7, 2, 9, 4, 3, 2, 1, 7},
		} {
			for wait := range 2 {
				what := fmt.Sprint(d, s, wait)
				size := int64(d.Size())*s.hidden + 4
				size += 512 - size%512
				x := newContext(t, map[int]int64{
					sessionNum: s.sessions, microBatchNum: s.batches, microBatchSize: s.tokens, selectedExpertNum: s.choices, attnToFFNTokenSize: size, outNum: s.done, pollingIndex: s.batches - 1,
				})
				perBatch := s.tokens * s.choices
				var bytes []float64
				for i := range s.sessions * s.batches * perBatch * size {
					bytes = append(bytes, float64((i*i+i/size*7)%121)) // digits of any type
				}
				data := x.point(expertData, optest.Tensor(t, dtype.Uint8, []int64{int64(len(bytes))}, bytes...))
				expert := func(session, batch, i int64) int { // some tokens are masked, and some experts have none
					if v := (session*37 + batch*11 + i*i*5 + i) % (s.experts + 3); v < s.experts {
						return int(v - v%2*min(1, v%3))
					}
					return []int{1_000_000, 0x7f7f7f7f, math.MaxInt32}[i%3]
				}
				type place struct{ session, batch int64 }
				var places []place // in the order of the lists
				var info *op.Tensor
				if wait == 1 {
					var all []int
					for session := range s.sessions {
						for batch := range s.batches {
							all = append(all, 1, 9)
							for i := range perBatch {
								all = append(all, expert(session, batch, i))
							}
						}
						places = append(places, place{session, s.batches - 1})
					}
					info = x.words(expertInfo, all...)
					last := &words(info)[len(all)-int(perBatch)-2]
					*last = 0
					time.AfterFunc(time.Millisecond, func() { *last = 1 })
				} else {
					var sessions, batches, ids []int
					for i := range s.done {
						p := place{s.sessions - 1 - i, (i * 3) % s.batches}
						places = append(places, p)
						sessions, batches = append(sessions, int(p.session)), append(batches, int(p.batch))
						for k := range perBatch {
							ids = append(ids, expert(p.session, p.batch, k))
						}
					}
					x.words(sessionIDs, sessions...)
					x.words(microBatchIDs, batches...)
					x.words(expertIDs, ids...)
				}
				rows := s.sessions*perBatch + s.spare*perBatch
				out := func(d dtype.Type, shape ...int64) *op.Tensor {
					return optest.TensorIn(t, d, kerneltest.Contiguous, shape, 99)
				}
				y, groups, scales, total := out(d, rows, s.hidden), out(dtype.Int64, s.experts, 2), out(dtype.Float32, rows), out(dtype.Int64, 1)
				numbers := []*op.Tensor{out(dtype.Int32, rows), out(dtype.Int32, rows), out(dtype.Int32, rows), out(dtype.Int32, rows)}
				for _, o := range append([]*op.Tensor{y, groups, scales}, numbers...) {
					optest.Fill(o, 99)
				}
				optest.Run(t, "FfnWorkerBatching", optest.Args{
					"scheduleContext": x.Tensor, "expertNum": s.experts, "maxOutShape": []int64{s.sessions + s.spare, s.tokens, s.choices, s.hidden}, "tokenDtype": slices.Index(tokenTypes, d), "needSchedule": wait, "layerNum": 1,
					"y": y, "groupList": groups, "sessionIds": numbers[0], "microBatchIds": numbers[1], "tokenIds": numbers[2], "expertOffsets": numbers[3], "dynamicScale": scales, "actualTokenNum": total,
				})
				row, group := int64(0), int64(0)
				gotY, gotGroups, gotScales := optest.Storage(y), optest.Values(groups), optest.Values(scales)
				for e := range s.experts {
					n := int64(0)
					for _, p := range places {
						for i := range perBatch {
							if expert(p.session, p.batch, i) != int(e) {
								continue
							}
							for k, want := range []int64{p.session, p.batch, i / s.choices, i % s.choices} {
								require.EqualValues(t, want, words(numbers[k])[row], what)
							}
							at := ((p.session*s.batches+p.batch)*perBatch + i) * size
							token := *data
							token.Addr += uint64(at)
							token.DType, token.Storage = d, []int64{s.hidden}
							require.Equal(t, optest.Storage(&token), gotY[row*s.hidden:][:s.hidden], what)
							if d == dtype.Int8 {
								token.Addr += uint64(s.hidden)
								token.DType, token.Storage = dtype.Float32, []int64{1}
								require.Equal(t, optest.Storage(&token)[0], gotScales[row], what)
							}
							row++
							n++
						}
					}
					if n > 0 {
						require.Equal(t, []float64{float64(e), float64(n)}, gotGroups[2*group:][:2], what)
						group++
					}
				}
				require.Equal(t, []float64{float64(row)}, optest.Values(total), what)
				if group < s.experts {
					require.Equal(t, []float64{0, 0}, gotGroups[2*group:][:2], what)
					group++
				}
				for _, rest := range [][]float64{gotGroups[2*group:], gotY[row*s.hidden:], optest.Values(numbers[0])[row:]} {
					require.Equal(t, slices.Repeat([]float64{99}, len(rest)), rest, "%s: what nobody writes", what)
				}
				if wait == 1 {
					require.Zero(t, x.get(pollingIndex), what)
					for session := range s.sessions {
						of := words(info)[((session+1)*s.batches-1)*(perBatch+2):][:perBatch+2]
						require.Zero(t, of[0], what)
						require.EqualValues(t, math.MaxInt32, slices.Min(of[2:]), what)
					}
				}
			}
		}
	}
}

func TestWorkerBatchingRefuses(t *testing.T) {
	const name = "FfnWorkerBatching"
	x := func(d dtype.Type, shape ...int64) *op.Tensor {
		return optest.TensorIn(t, d, kerneltest.Contiguous, shape, 1)
	}
	f16, i32, i64 := dtype.Float16, dtype.Int32, dtype.Int64
	context := func() workerContext {
		c := newContext(t, map[int]int64{sessionNum: 1, microBatchNum: 1, microBatchSize: 3, selectedExpertNum: 2, attnToFFNTokenSize: 512, outNum: 1})
		c.point(expertData, x(dtype.Uint8, 6*512))
		c.words(sessionIDs, 0)
		c.words(microBatchIDs, 0)
		c.words(expertIDs, 0, 1, 2, 3, 4, 0)
		return c
	}
	a := optest.Args{
		"scheduleContext": context().Tensor, "expertNum": 5, "maxOutShape": []int64{1, 3, 2, 8}, "y": x(f16, 6, 8), "groupList": x(i64, 5, 2), "sessionIds": x(i32, 6), "microBatchIds": x(i32, 6), "tokenIds": x(i32, 6), "expertOffsets": x(i32, 6),
		"dynamicScale": x(dtype.Float32, 0), "actualTokenNum": x(i64, 1),
	}
	optest.Run(t, name, a)
	refuseContexts(t, name, "scheduleContext", a)
	for _, param := range []string{"y", "groupList", "sessionIds", "microBatchIds", "tokenIds", "expertOffsets", "dynamicScale", "actualTokenNum"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{param: nil}), param+" is null")
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{param: x(dtype.Float64, 6)}), "dtype")
	}
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"maxOutShape": nil}), "maxOutShape is null")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"tokenDtype": 2}), "tokenDtype 2 is int8")
	for text, set := range map[string]optest.Args{
		"expertNum is 8193": {"expertNum": 8193}, "it must have sessions, tokens": {"maxOutShape": []int64{1, 3, 2}}, "1 to 1024 sessions": {"maxOutShape": []int64{1025, 3, 2, 8}}, "layerNum is 6": {"layerNum": 6}, "tokenDtype is 3": {"tokenDtype": 3},
		"needSchedule is -1": {"needSchedule": -1}, "a row for each token": {"y": x(f16, 5, 8)}, "an expert and its number": {"groupList": x(i64, 4, 2)}, "a number for each row": {"tokenIds": x(i32, 5)}, "too many tokens": {"maxOutShape": []int64{1024, 1 << 30, 64, 8}},
		"a scale for each row": {"y": x(dtype.Int8, 6, 8), "tokenDtype": 2},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
	for text, change := range map[string]func(c workerContext) optest.Args{
		"session_num is 1025": func(c workerContext) optest.Args { c.set(sessionNum, 1025); return nil }, "micro_batch_num is 65": func(c workerContext) optest.Args { c.set(microBatchNum, 65); return nil },
		"out_num is 2": func(c workerContext) optest.Args { c.set(outNum, 2); return nil }, "attn_to_ffn_token_size is 15": func(c workerContext) optest.Args { c.set(attnToFFNTokenSize, 15); return nil },
		"chose expert 5": func(c workerContext) optest.Args { c.words(expertIDs, 0, 1, 2, 3, 5, 0); return nil }, "session 1 and": func(c workerContext) optest.Args { c.words(sessionIDs, 1); return nil },
		"polling_index is 1":  func(c workerContext) optest.Args { c.set(pollingIndex, 1); return optest.Args{"needSchedule": 1} },
		"is no multiple of 4": func(c workerContext) optest.Args { c.set(expertIDs, c.get(expertIDs)+1); return nil },
		"has room for 4": func(c workerContext) optest.Args {
			return optest.Args{"maxOutShape": []int64{1, 2, 2, 8}, "y": x(f16, 4, 8), "sessionIds": x(i32, 4), "microBatchIds": x(i32, 4), "tokenIds": x(i32, 4), "expertOffsets": x(i32, 4)}
		},
		"token_data_buf: the ad": func(c workerContext) optest.Args { c.set(expertData, 0); c.set(expertData+4, 0); return nil },
	} {
		c := context()
		set := change(c)
		faults(t, int32(abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION), name, a.With(set).With(optest.Args{"scheduleContext": c.Tensor}), text)
	}
}
