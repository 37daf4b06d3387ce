package rt

import "github.com/goascend/cann/internal/abi/soc"

// SoC returns the name of the chip.
func (r *Runtime) SoC() string { return r.config.SoC }

// chip returns the chip's properties. The configuration refuses unknown names.
func (r *Runtime) chip() soc.Chip {
	c, _ := soc.Named(r.config.SoC)
	return c
}
