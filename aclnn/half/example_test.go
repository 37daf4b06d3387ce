package half_test

import (
	"fmt"

	"github.com/goascend/cann/aclnn/half"
)

func Example() {
	h, b := half.Float16FromFloat32(0.1), half.BFloat16FromFloat32(0.1)
	fmt.Println(h, b)
	fmt.Println(half.Float16FromFloat32(70000), half.BFloat16FromFloat32(70000))
	fmt.Printf("%#04x %#04x\n", uint16(h), uint16(b))
	// Output:
	// 0.099975586 0.100097656
	// +Inf 70144
	// 0x2e66 0x3dcd
}

func ExampleEncode() {
	master := []float32{1, 1.001, -2}
	weights := make([]half.BFloat16, len(master))
	half.Encode(weights, master)
	fmt.Println(weights)
	half.Decode(master, weights)
	fmt.Println(master)
	// Output:
	// [1 1 -2]
	// [1 1 -2]
}

// Rounding to float32 on the way to 16 bits can end at another value.
func ExampleFloat16FromFloat64() {
	v := 1 + 0x1p-11 + 0x1p-40 // just above the middle of two values
	fmt.Println(half.Float16FromFloat64(v), half.Float16FromFloat32(float32(v)))
	// Output: 1.0009766 1
}
