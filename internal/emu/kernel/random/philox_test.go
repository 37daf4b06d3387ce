package random_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/kernel/random"
)

// TestPhiloxKnownAnswers uses the known answers of the generator's authors (Random123,
// kat_vectors, philox4x32 10).
func TestPhiloxKnownAnswers(t *testing.T) {
	ones := ^uint64(0)
	for _, k := range []struct {
		seed, offset, block uint64
		want                [4]uint32
	}{
		{0, 0, 0, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{ones, ones, ones, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		require.Equal(t, k.want, random.Philox{Seed: k.seed, Offset: k.offset}.Block(k.block))
	}
}
