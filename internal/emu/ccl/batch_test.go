package ccl_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManyMessages sends a batch with more messages to one rank than a link between processes
// has room for at once.
func TestManyMessages(t *testing.T) {
	const n = 5000
	for world, make := range worlds {
		t.Run(world, func(t *testing.T) {
			all := make(t, 2, patient)
			each(all, func(r *rank) {
				p, q := r.upload(words(n, func(i int) int32 { return int32(r.id + i) })), r.upload(ones(n))
				var items []item
				for i := range uint64(n) {
					items = append(items, item{0, 0, p + 4*i, 1, int32Type, uint32(1 - r.id)}, item{1, 0, q + 4*i, 1, int32Type, uint32(1 - r.id)})
				}
				r.must("HcclBatchSendRecv", address(&items[0]), 2*n, r.comm, r.stream)
				require.Zero(r.tb, r.sync(), r.text())
				require.Equal(r.tb, words(n, func(i int) int32 { return int32(1 - r.id + i) }), r.download(q, 4*n))
				r.free(p)
				r.free(q)
			})
		})
	}
}
