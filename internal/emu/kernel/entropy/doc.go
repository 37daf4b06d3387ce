// Package entropy holds the coder with which the emulator compresses bytes, such as the exponents
// of floating-point numbers. It does not know what the bytes are part of, nor the layout of a
// compressed tensor.
//
//	code, err := entropy.New(counts) // how often each of the 256 byte values occurs
//	packed, state := code.Encode(bytes)
//	err = code.Decode(bytes, packed, state)
package entropy
