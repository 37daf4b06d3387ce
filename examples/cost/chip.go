package cost

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Chip holds what an estimate knows of one device: a die of an Atlas A3, a card of the others.
type Chip struct {
	Name       string
	Peak       float64 // operations a second in bfloat16
	Efficiency float64 // part of the peak that the products of a training reach
	Memory     float64 // bytes a second, read and written together
	Link       float64 // bytes a second to other devices, one way
}

// efficiency is the mean of 160, 150, 184 and 150 TFLOP/s, which MindSpeed-LLM 1.0.RC3 reports for the
// training of dense models of 7 to 72 billion weights on the 910B2, of its peak. It counts six
// operations for a weight and token, so attention and what is computed again are in it.
const efficiency = (160 + 150 + 184 + 150) / 4 / 353.9

// chips: peaks and bandwidths are those of Ascend's msmodeling (tensor_cast/device.py). Links are HCCS
// inside an Atlas A3, and for the others RoCE between servers of eight, which is the narrow place of
// shards over more than one; of two sources for it this is the lower one. Inside of a server it is HCCS too,
// with 196e9.
var chips = []Chip{
	{"Ascend910B2", 353.9e12, efficiency, 1.6e12, 25e9},
	{"Ascend910B3", 294.9e12, efficiency, 1.6e12, 25e9},
	{"Ascend910B4", 245.8e12, efficiency, 0.8e12, 25e9},
	{"Ascend910_93", 353.9e12, efficiency, 1.6e12, 196e9},
}

// ParseChip returns the chip of a name, with other numbers where the text has some: peak, efficiency, memory and link
// as in "Ascend910B2,link=196e9,efficiency=0.4", in the units of Chip.
func ParseChip(text string) (Chip, error) {
	name, rest, more := strings.Cut(text, ",")
	c, err := ChipOf(name)
	if err != nil || !more {
		return c, err
	}
	fields := map[string]*float64{"peak": &c.Peak, "efficiency": &c.Efficiency, "memory": &c.Memory, "link": &c.Link}
	for one := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(one, "=")
		x, err := strconv.ParseFloat(value, 64)
		if fields[key] == nil || err != nil || !(x > 0 && x <= math.MaxFloat64) {
			return Chip{}, fmt.Errorf("cost: %q in %q; use peak, efficiency, memory or link, = and a positive number", one, text)
		}
		*fields[key] = x
	}
	return c, nil
}

// ChipOf returns the chip whose name a name begins with, as those of acl.Runtime.SoC do.
func ChipOf(name string) (Chip, error) {
	var names []string
	for _, c := range chips {
		if strings.HasPrefix(name, c.Name) {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Chip{}, fmt.Errorf("cost: chip %q is not known; these are: %s", name, strings.Join(names, ", "))
}
