package mask_test

import (
	"fmt"

	"github.com/goascend/cann/ops/mask"
)

// A decoder gets sequences that are padded on the right. The device's compressed triangle is
// enough, so that no mask of the padding is made. Lengths of another batch are refused.
func ExampleDecide() {
	shape := mask.Shape{Layout: mask.BSND, Batch: 2, Heads: 8, Queries: 512, Keys: 512}
	d, err := mask.Decide(mask.Padding{Lengths: []int64{512, 300}, Causal: true}, shape)
	fmt.Println(d, err)
	_, err = mask.Decide(mask.Padding{Lengths: []int64{512, 300, 40}, Causal: true}, shape)
	fmt.Println(err)
	// Output:
	// sparseMode 2, triangle [2048,2048]: right padding: under a causal rule no valid query sees a padding key <nil>
	// mask refused: causal padding for BSND with B=2, N=8, Sq=512, Skv=512: there are 3 lengths; give one per batch item
}
