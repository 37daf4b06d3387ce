package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// versionTrial returns a small trial of a layout with two items of equal length, or of different
// lengths if they are packed.
func versionTrial(layout, version string, rows, cols []int64) trial {
	return trial{layout: layout, version: version, dtype: dtype.Float32, heads: 4, keyHeads: 2, dim: 6, valDim: 4, rows: rows, cols: cols}
}

// Every sparse mode has the same result in every layout and in both versions of the functions,
// forward and backward. The second version only adds arguments.
func TestFlashAttentionModesOfVersions(t *testing.T) {
	dense, denseKeys, densePrefix := []int64{19, 19}, []int64{26, 26}, []int64{8, 26}
	packed, packedKeys, packedPrefix := []int64{7, 0, 19}, []int64{26, 3, 25}, []int64{22, 3, 20}
	for _, version := range []string{"", "V2"} {
		for _, layout := range []string{"BSH", "SBH", "BSND", "BNSD", "TND"} {
			for mode := range int64(9) {
				x, prefix := versionTrial(layout, version, dense, denseKeys), densePrefix
				switch {
				case x.packed() && mode == 5, !x.packed() && mode > 6:
					continue
				case x.packed():
					x.rows, x.cols, prefix = packed, packedKeys, packedPrefix
				}
				pre, next := int64(unlimited), int64(unlimited)
				x.args = optest.Args{"sparseMode": mode, "attenMaskOptional": triangle(t, 2048)}
				if version == "V2" {
					x.args["pseType"] = 1
				}
				banded := -1
				switch mode {
				case 0:
					pre, next = 15, 3
				case 4:
					pre, next = 9, 2
				case 6:
					x.args["attenMaskOptional"], x.args["prefixOptional"] = triangle(t, 3072), prefix
				case 7:
					banded, pre, next = len(x.rows)-1, 30, -2
				case 8:
					banded, pre, next = 0, 30, -2
				}
				x.args["preTokens"], x.args["nextTokens"] = pre, next
				rule := func(item int, i, j int64) bool {
					m := mode
					switch {
					case item == banded:
						m = 4
					case mode == 7:
						m = 3
					case mode == 8:
						m = 2
					}
					return modeRule(m, pre, next, prefix[item], x.rows[item], x.cols[item], i, j)
				}
				x.visible = func(item int, _, i, j int64) bool { return rule(item, i, j) }
				if mode == 0 || mode == 1 || mode == 5 {
					// A shared mask, including its window, applies to all items alike.
					x.visible = func(_ int, _, i, j int64) bool { return rule(0, i, j) && (3*i+5*j)%4 != 1 }
					shape := []int64{19, 26}
					if mode == 5 {
						shape = []int64{2, 1, 19, 26}
					}
					x.args["attenMaskOptional"] = denseMask(t, shape, x.visible)
				}
				t.Run(fmt.Sprintf("%s/%s/mode %d", x.forward(), layout, mode), func(t *testing.T) { x.check(t) })
			}
		}
	}
}

// Every pseType works in every layout of the second versions, forward and backward: matrices before
// and after the scale, and slopes with distances that start at the start indices.
func TestFlashAttentionBiasOfVersions(t *testing.T) {
	const heads, queryStart, keyStart = 4, 3, 11
	slopes := func(batch int64) *op.Tensor {
		var v []float64
		for i := range batch * heads {
			v = append(v, math.Ldexp(1, -int(i)))
		}
		if batch == 1 {
			return optest.Tensor(t, dtype.Float32, []int64{heads}, v...)
		}
		return optest.Tensor(t, dtype.Float32, []int64{batch, heads}, v...)
	}
	for _, layout := range []string{"BSH", "SBH", "BSND", "BNSD", "TND"} {
		for kind := range int64(4) {
			for _, perItem := range []bool{false, true} {
				x := versionTrial(layout, "V2", []int64{17, 17}, []int64{17, 17})
				if perItem && kind < 2 { // a matrix has the type of the query, slopes are float32
					x.dtype = dtype.Float16
				}
				if x.packed() {
					x.rows, x.cols = []int64{17, 5}, []int64{21, 8}
				}
				x.args = optest.Args{"pseType": kind, "qStartIdxOptional": []int64{queryStart}, "kvStartIdxOptional": []int64{keyStart}}
				bias := x.biasOfItems(t, perItem)
				if kind >= 2 {
					batch := int64(1)
					if perItem {
						batch = 2
					}
					x.args["realShiftOptional"] = slopes(batch)
				} else {
					x.args["realShiftOptional"] = bias.tensor
				}
				x.score = func(item int, h, i, j int64, p float64) float64 {
					distance := math.Abs(float64(j + keyStart - i - queryStart))
					slope := math.Ldexp(1, -int(h))
					if perItem {
						slope = math.Ldexp(1, -int(int64(item)*heads+h))
					}
					switch kind {
					case 0:
						return p*x.scale() + bias.at(item, h, i, j)
					case 1:
						return (p + bias.at(item, h, i, j)) * x.scale()
					case 2:
						return p*x.scale() - slope*distance
					}
					return p*x.scale() - slope*math.Sqrt(distance)
				}
				t.Run(fmt.Sprintf("%s/%s/type %d/per item %t", x.forward(), layout, kind, perItem), func(t *testing.T) { x.check(t) })
			}
		}
	}
}

// matrixBias is a bias tensor and the value that it adds to each score.
type matrixBias struct {
	tensor *op.Tensor
	at     func(item int, head, row, col int64) float64
}

// biasOfItems returns a bias with a value for every score, or one that is shared by the items
// (dense) or the queries (packed).
func (x *trial) biasOfItems(t *testing.T, full bool) matrixBias {
	value := func(item int, h, i, j int64) float64 { return float64((int64(item)*7+h*5+i*3+j*11)%13)/8 - 0.75 }
	at := value
	var cells []float64
	rows := func(item int) int64 { return x.rows[item] }
	items := len(x.rows)
	switch {
	case full:
	case x.packed():
		at = func(item int, h, _, j int64) float64 { return value(item, h, 0, j) }
		rows = func(int) int64 { return 1 }
	default:
		at = func(_ int, h, i, j int64) float64 { return value(0, h, i, j) }
		items = 1
	}
	for item := range items {
		for h := range x.heads {
			for i := range rows(item) {
				for j := range x.cols[item] {
					cells = append(cells, value(item, h, i, j))
				}
			}
		}
	}
	shape := []int64{int64(items), x.heads, x.rows[0], x.cols[0]}
	if x.packed() {
		shape = []int64{int64(len(cells))}
	}
	return matrixBias{optest.Tensor(t, x.dtype, shape, cells...), at}
}
