// Package describe emulates the functions about tensors that need no device: descriptions of tensors
// for CANN's older operator and model interface (aclTensorDesc), sizes of data types, and
// conversions of 16-bit floats.
//
//	d := describe.New(runtime)
//	for name, f := range d.Functions() { … } // C name -> function over 64-bit words
//
// The tensors of aclnn operators are in package nn.
package describe
