// Package rounding rounds the elements of tensors to integers in the modes of the device's vector unit.
//
//	err := rounding.Off(out, x, 3) // up
package rounding
